# peers.bash - Redis, PgBouncer and Node.js beside the server; sourced by ../run.
# shellcheck shell=bash
#
# Each is started when it is first needed, listens on a socket in $work only, and is
# ended by end_peers.

# On Debian, PgBouncer is not in the PATH of users
need_bouncer() {
	[ ! -e "$work/pgbouncer.pid" ] || return 0
	echo '"bench" ""' >"$work/users"
	cat >"$work/pgbouncer.ini" <<-INI
		[databases]
		* = host=$work
		[pgbouncer]
		unix_socket_dir = $work
		pidfile = $work/pgbouncer.pid
		listen_addr =
		listen_port = 6432
		auth_type = trust
		auth_file = $work/users
		admin_users = bench
		pool_mode = transaction
		default_pool_size = $clients
		max_client_conn = 200
		log_connections = 0
		log_disconnections = 0
	INI
	as_user pgbouncer "$work/pgbouncer.ini" >"$work/bouncer.log" 2>&1 &
	await_socket "$work/.s.PGSQL.6432" "$work/bouncer.log"
}

# Without persistence, unless a measurement turns it on; one client's speed is what it
# is, so io-threads stay as they are.
need_redis() {
	[ ! -e "$work/redis.pid" ] || return 0
	gcc -O2 -o "$work/redis_client" $bench/peers/redis_client.c -lhiredis -lpthread
	as_user redis-server --port 0 --unixsocket "$work/redis.sock" --pidfile "$work/redis.pid" \
		--save '' --appendonly no --dir "$work" >"$work/redis.log" 2>&1 &
	await_socket "$work/redis.sock" "$work/redis.log"
}

await_socket() {
	for _ in {1..100}; do
		[ ! -S "$1" ] || return 0
		sleep 0.1
	done
	cat "$2" >&2
	return 1
}

# The one that says its process id in the file $1, which it removes when it ends
end_peer() {
	[ ! -e "$1" ] || kill "$(cat "$1")" || true
	for _ in {1..50}; do
		[ -e "$1" ] || break
		sleep 0.1
	done
}
# shellcheck disable=SC2317	# only a trap calls it
end_peers() {
	end_peer "$work/redis.pid"
	end_peer "$work/pgbouncer.pid"
}

redis() { as_user redis-cli -s "$work/redis.sock" "$@"; }

# appendonly of Redis: "no", or "everysec" or "always"
redis_durable() {
	quietly redis CONFIG SET appendonly "$([ "$1" = no ] && echo no || echo yes)"
	[ "$1" = no ] || quietly redis CONFIG SET appendfsync "$1"
	until redis INFO persistence | tr -d '\r' | grep -q '^aof_rewrite_in_progress:0'; do sleep 0.05; done
}

# What all buckets $1 have given, of so many keys ($2) each; each decision takes
# from $3 of them.
redis_spent() {
	redis EVAL "local spent = 0
		for take = 0, ARGV[3] - 1 do for key = 0, ARGV[2] - 1 do
			local tokens = redis.call('HGET', ARGV[1] .. ':' .. take .. ':' .. key, 'tokens')
			if tokens then spent = spent + (1000000000000 - tokens) end
		end end
		return spent / ARGV[3]" 0 "$1" "$2" "$3"
}

# open or closed, buckets for each decision, clients, keys, decisions a round trip,
# appendonly
measure_redis() {
	local bucket=$1 takes=$2 connections=$3 keys=${4:-1} depth=${5:-1} durable=${6:-no} i decisions admitted seconds latency
	quietly redis FLUSHALL
	[ "$durable" = no ] || redis_durable "$durable"
	for ((i = 0; i < takes; i++)); do
		[ "$bucket" = open ] || quietly redis HSET "closed:$i:0" tokens 0
	done
	quietly as_user "$work/redis_client" "$work/redis.sock" $bench/peers/bucket.lua "$bucket" \
		"$connections" "$(nproc)" "$round_time" "$takes" "$keys" "$depth"
	read -r decisions admitted seconds latency <"$work/output"
	[ "$durable" = no ] || redis_durable no
	if [ "$bucket" = open ]; then
		same_work "Redis" "$decisions" "$admitted"
		same_work "Redis" "$decisions" "$(redis_spent open "$keys" "$takes")"
	else
		same_work "Redis" 0 "$admitted"
	fi
	echo "$decisions $seconds $latency" | awk '{ print $1 / $2, $1, $3, $4 }'
}

# client.js with these arguments; its output is that of a measurement
node_client() {
	metered node $bench/peers/client.js "$@"
	cat "$work/output"
}
