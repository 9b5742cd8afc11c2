# calls.bash - decisions about direct calls; sourced by ../run.
# shellcheck shell=bash
#
# "open" admits every call, "closed" refuses every one.  What was admitted is counted
# in the buckets, on each side.

# Calls that every bucket of provider $1 has admitted, or the closed one refused;
# none if buckets differ.
counted() {
	if [ "$1" = closed ]; then
		sql -d hot -c "SELECT coalesce(sum(refused), 0) FROM quota.stat_buckets WHERE provider = 'closed'"
	else
		sql -d hot -c "SELECT CASE WHEN min(admitted) = max(admitted) THEN min(admitted) END FROM quota.stat_buckets WHERE provider = '$1'"
	fi
}

# provider, clients, and what pgbench is to run: a tenth of which are looked at
measure_acquire() { measure_calls "$1" "$2" 1 -f $bench/acquire.pgbench; }
measure_call() { measure_calls "$1" "$2" 1 -f $bench/acquire_call.pgbench; }
measure_calls() {
	local provider=$1 clients=$2 each=$3
	shift 3
	checked quota_acquire "counted $provider" call_rate "$each" \
		-D provider="${quote:-}$provider${quote:-}" "$@" hot
}

# ... of transactions with so many ($1) calls each: the rate of calls
call_rate() { tps "${@:2}" | awk -v each="$1" '{ $1 *= each; $2 *= each; print }'; }

# Each client has a provider, and with it a lock, of its own.
own_admitted() { sql -d hot -c "SELECT coalesce(sum(admitted), 0) FROM quota.stat_buckets WHERE provider ~ '^[0-9]+$' AND limit_name = 'account'"; }
measure_own() {
	local clients=$1
	checked quota_acquire own_admitted tps -f $bench/acquire_own.pgbench hot
}

measure_select_1() {
	local clients=$1
	tps -f $bench/select_one.pgbench hot
}

# What an admission answers, and a refusal
measure_answer() {
	local clients=$2
	tps -D level=999999999 -f "$bench/answer_$1.pgbench" hot
}

# What rows have given: tokens, or points
row_spent() { sql -d hot -c "SELECT sum(1e12 - tokens)::bigint / $2 FROM row_bucket WHERE key ~ '^$1'"; }

# open or closed, clients, rows for each decision
measure_row_lock() {
	local bucket=$1 clients=$2 rows=${3:-1} before measured
	before=$(row_spent "$bucket" "$rows")
	measured=$(tps -D provider="$bucket" -f $bench/row_lock$([ "$rows" = 1 ] || echo _3).pgbench hot)
	same_work "row lock" "$([ "$bucket" = closed ] && echo 0 || echo "$measured" | cut -d ' ' -f 2)" \
		$(($(row_spent "$bucket" "$rows") - before))
	echo "$measured"
}

points() { sql -d hot -c "SELECT points FROM rlflx WHERE key = 'open'"; }

# rate-limiter-flexible, by its statement in pgbench, and in Node.js
measure_limiter_sql() {
	local clients=$1
	checked rate-limiter-flexible points tps -f $bench/limiter.pgbench hot
}
measure_limiter_node() { checked rate-limiter-flexible points node_client run limiter hot "$1" "$round_time"; }
measure_acquire_node() { checked quota_acquire "counted open" node_client run acquire hot "$1" "$round_time"; }

# Ways to send it: "simple" or "extended" protocol; many calls in one statement;
# through PgBouncer, many clients on few connections.
measure_sent() {
	local protocol=$1 clients=$2 quote=''
	[ "$protocol" != simple ] || quote=\'
	if [ "$3" = select_1 ]; then
		measure_select_1 "$clients"
	else
		measure_call open "$clients"
	fi
}
measure_batched() { measure_calls open "$1" 50 -f $bench/acquire_batch.pgbench; }
measure_bouncer() {
	local clients=$1 protocol=extended
	if [ "$2" = select_1 ]; then
		tps -f $bench/select_one.pgbench -p 6432 hot
	else
		checked quota_acquire "counted open" tps -D provider=open -f $bench/acquire_call.pgbench -p 6432 hot
	fi
}

measure_statement() {
	checked statement "counted $1" psql_rate "$statement_calls" -d hot \
		-v provider="$1" -v calls="$statement_calls" -f $bench/statement.sql
}

calls_ready=''
need_calls() {
	[ -z "$calls_ready" ] || return 0
	calls_ready=1
	need_database hot 10
	quietly sql -d hot -f $bench/calls.sql
	need_redis
	# tables and caches are warm, as they are in a server that has run for a while
	clients=8 round_time=1 measure_call open 8 >/dev/null
	clients=8 round_time=1 measure_row_lock open 8 >/dev/null
}

part_calls() {
	need_calls
	compare clients_8 "8 clients, one hot key" calls/s "select_1 8=SELECT 1" \
		"answer admitted 8=SELECT of the answer alone" "call open 8=quota, 3 limits" \
		"acquire open 8=the same as SELECT * FROM quota_acquire()" \
		"row_lock open 8=row lock, 1 row" "row_lock open 8 3=row lock, 3 rows" \
		"limiter_sql 8=rate-limiter-flexible, its SQL" \
		"redis open 1 8=Redis, 1 key" "redis open 3 8=Redis, 3 keys"
	target "acquire, 3 limits, prepared, 8 clients, against SELECT 1" clients_8 \
		"quota, 3 limits" "SELECT 1" 0.9 "SELECT of the answer alone"
	target "acquire, 3 limits, against the row-lock bucket, 8 clients" clients_8 \
		"quota, 3 limits" "row lock, 1 row" 12
	target "acquire, 3 limits, against Redis + Lua, 3 keys, 8 clients" clients_8 \
		"quota, 3 limits" "Redis, 3 keys" 1.2
	compare refusals "8 clients, admissions and refusals" calls/s \
		"call open 8=quota, admitted" "call closed 8=quota, refused" \
		"answer admitted 8=SELECT of the answer alone, admitted" \
		"answer refused 8=SELECT of the answer alone, refused" \
		"row_lock open 8=row lock, admitted" "row_lock closed 8=row lock, refused" \
		"redis open 3 8=Redis, 3 keys, admitted" "redis closed 3 8=Redis, 3 keys, refused"
	target "refusal against admission" refusals "quota, refused" "quota, admitted" 1 \
		"SELECT of the answer alone, refused" "SELECT of the answer alone, admitted"
}

part_clients() {
	local n
	need_calls
	for n in 1 32; do
		compare clients_$n "$(of_clients $n), one hot key" calls/s "select_1 $n=SELECT 1" \
			"call open $n=quota, 3 limits" "row_lock open $n=row lock, 1 row" "redis open 3 $n=Redis, 3 keys"
	done
	target "acquire, 3 limits, against the row-lock bucket, 32 clients" clients_32 "quota, 3 limits" "row lock, 1 row" 30
}

part_lock() {
	need_calls
	compare lock "clients on one provider, and each on its own" calls/s \
		"call open 8=8 clients on one provider" "own 8=8 clients on 8 providers" \
		"call open 32=32 clients on one provider" "own 32=32 clients on 32 providers"
}

part_limits() {
	need_calls
	compare limits "8 clients, limits of a call" calls/s "call one 8=quota, 1 limit" \
		"call open 8=quota, 3 limits" "call ten 8=quota, 10 limits" \
		"redis open 1 8=Redis, 1 key" "redis open 3 8=Redis, 3 keys" "redis open 10 8=Redis, 10 keys"
}

part_ways() {
	need_calls
	need_bouncer
	compare ways "ways to ask: $clients clients, through PgBouncer 32 on $clients connections" calls/s \
		"sent prepared $clients select_1=SELECT 1, prepared" "sent prepared $clients call=quota, prepared" \
		"sent simple $clients select_1=SELECT 1, simple" "sent simple $clients call=quota, simple" \
		"bouncer 32 select_1=SELECT 1, PgBouncer" "bouncer 32 call=quota, PgBouncer" \
		"batched $clients=quota, 50 in a statement" "redis open 3 $clients 1 50=Redis, 3 keys, 50 in a pipeline"
	end_peer "$work/pgbouncer.pid"
	compare node "$clients clients of one Node.js process" calls/s \
		"limiter_node $clients=rate-limiter-flexible" "acquire_node $clients=quota, 3 limits, by pg"
	compare appendonly "$clients clients, what Redis keeps" calls/s "call open $clients=quota, 3 limits" \
		"redis open 3 $clients=Redis, appendonly no" "redis open 3 $clients 1 1 everysec=Redis, appendfsync everysec" \
		"redis open 3 $clients 1 1 always=Redis, appendfsync always"
}

part_statement() {
	need_calls
	compare statement "one statement with $statement_calls calls, 3 limits, one session" calls/s \
		"statement open=admitted" "statement closed=refused"
	target "decisions in one statement, 3 limits, one core" statement admitted "" 1000000
}
