# keys.bash - limits per user and resource with many keys; sourced by ../run.
# shellcheck shell=bash

# $1 keys, $2 "in turn" or "at random", by clients and in one session
measure_clients() {
	tps -T "$round_time" -D clients="$clients" -D turn=0 -D keys="$1" \
		-D random="$([ "$2" = random ] && echo 1 || echo 0)" -f $bench/keys.pgbench keys
}
measure_session() {
	local start=$EPOCHREALTIME
	sql -d keys -c "CALL keys_run($many_decisions, $1, '$2' = 'turn')"
	awk -v n="$many_decisions" -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { print n / (end - start) }'
}

# What a session has in memory after decisions for so many keys
memory_after() {
	sql -d keys -c "CALL keys_run($many_decisions, $1, true)" -c "
		SELECT '$1 keys: ' || pg_size_pretty(sum(total_bytes)) || ', of it quota ' ||
			pg_size_pretty(sum(total_bytes) FILTER (WHERE name LIKE 'quota%')) FROM pg_backend_memory_contexts" -c "
		SELECT '    buckets: ' || count(*) FROM quota.stat_buckets"
}

part_keys() {
	local many_decisions=$((many < 100000 ? 10000 : many / 2))
	need_database keys 10
	quietly sql -d keys -f $bench/keys.sql
	echo
	echo "decisions/s, two limits with a bucket for each of so many keys of one tenant, $round_time s each"
	pgbench -T 1 -D clients="$clients" -D turn=0 -D keys=1000 -D random=0 -f $bench/keys.pgbench keys
	compare "clients 1000 turn" "clients $many turn" "clients 1000 random" "clients $many random"
	echo
	echo "the same in one session, $many_decisions each"
	compare "session 1000 turn" "session $many turn" "session 1000 random" "session $many random"
	echo
	echo "memory of a session after $many_decisions decisions; of shared memory: $(sql -d keys -c "SELECT pg_size_pretty(allocated_size) FROM pg_shmem_allocations WHERE name = 'quota'")"
	memory_after 1000
	memory_after "$many"
	drop_databases keys
}
