# keys.bash - limits per user and resource with many keys; sourced by ../run.
# shellcheck shell=bash

admitted_keys() { sql -d keys -c "SELECT sum(admitted) FROM quota.stat_tenants WHERE provider = 'keys'"; }
spent_keys() { sql -d keys -c "SELECT sum(1e12 - tokens)::bigint FROM row_bucket"; }

# $1 keys, $2 "in turn" or "at random", by clients and in one session
measure_clients() {
	checked keys admitted_keys tps -D clients="$clients" -D turn=0 -D keys="$1" \
		-D random="$([ "$2" = random ] && echo 1 || echo 0)" -f $bench/keys.pgbench keys
}
measure_session() {
	checked keys admitted_keys psql_rate "$many_decisions" -d keys \
		-c "CALL keys_run($many_decisions, $1, '$2' = 'turn')"
}
measure_row_keys() { checked "row lock" spent_keys tps -D keys="$1" -f $bench/row_keys.pgbench keys; }

# What a session has in memory after decisions for so many keys
memory_after() {
	fact "memory of a session" "decisions for $1 keys" "$(sql -d keys -c "CALL keys_run($many_decisions, $1, true)" \
		-c "SELECT sum(total_bytes) FILTER (WHERE name LIKE 'quota%') FROM pg_backend_memory_contexts")" bytes
}

part_keys() {
	local many_decisions=$((many < 1000000 ? 10000 : many / 10))
	need_redis
	need_database keys 10
	quietly sql -d keys -f $bench/keys.sql
	clients=8 round_time=1 measure_clients 1000 turn >/dev/null
	compare keys "$clients clients, two limits, each with a bucket for each of so many keys" calls/s \
		"clients 1 random=quota, 1 key" "clients 10000 random=quota, 10000 keys" "clients $many random=quota, $many keys" \
		"row_keys 1=row lock, 1 key" "row_keys 10000=row lock, 10000 keys" \
		"redis open 2 $clients 1=Redis, 1 key twice" "redis open 2 $clients 10000=Redis, 2 of 10000 keys"
	compare keys_session "$many_decisions decisions in one session" calls/s \
		"session 1000 turn=1000 keys in turn" "session $many turn=$many keys in turn" \
		"session 1000 random=1000 keys at random" "session $many random=$many keys at random"
	memory_after 1000
	memory_after "$many"
	drop_databases keys
}
