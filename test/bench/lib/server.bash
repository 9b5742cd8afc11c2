# server.bash - a throw-away server, and how to talk to it; sourced by ../run.
# shellcheck shell=bash

user=$(id -un) tmp=${TMPDIR:-/tmp}
# root's own TMPDIR may be private, and a socket's path must be short
if [ "$(id -u)" = 0 ] || [ ${#tmp} -gt 60 ]; then tmp=/tmp; fi
if [ "$(id -u)" = 0 ]; then
	user=nobody
	! id postgres >/dev/null 2>&1 || user=postgres
fi
work=$(cd "$(mktemp -d "$tmp/quota-bench.XXXXXX")" && pwd -P)
tree=$work/tree data=$work/data
bindir='' libdir=''

# Run a command in the copied tree as $user with a clean environment (libpq and
# make would obey variables); it reads the file $stdin, if that is set.
as_user() {
	local command=(env -i PATH="$bindir:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
		LD_LIBRARY_PATH="$work/pg$libdir" HOME="$work" TMPDIR="$work" LANG=C.UTF-8
		PGHOST="$work" PGUSER=bench "$@")
	[ "$(id -u)" != 0 ] || command=(setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups -- "${command[@]}")
	(cd "$tree" && exec "${command[@]}") <"${stdin:-/dev/null}"
}

# shellcheck disable=SC2317	# only a trap calls it
cleanup() {
	trap '' INT TERM HUP
	end_peers
	[ ! -e "$data/postmaster.pid" ] || as_user pg_ctl -D "$data" -m immediate -s stop || true
	if [ -n "${KEEP:-}" ]; then echo "kept: $work" >&2; else rm -rf "$work"; fi
}
trap cleanup EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM

# Run a command without its output, which is shown only if it fails.
quietly() {
	local status=0
	"$@" >"$work/output" 2>&1 || status=$?
	[ $status = 0 ] || { cat "$work/output" >&2; echo "bench: failed: $*" >&2; }
	return $status
}

sql() { as_user psql -X -q -A -t -v ON_ERROR_STOP=1 "$@"; }

# Server ----------------------------------------------------------------------

start_server() {
	local pg_config
	pg_config=$(test/tools/setup "${needs:---peers}" --print)
	bindir=$work/pg$("$pg_config" --bindir) libdir=$("$pg_config" --libdir)
	echo "bench: $("$pg_config" --version), $(nproc) processors, $clients clients"
	mkdir "$tree"
	tar -cf - --exclude=./.git --exclude='*.o' --exclude='*.so' --exclude='*.bc' \
		--exclude=./tmp_'*' --exclude=./results --exclude=./test/unit/build --exclude=./test/bench/results . |
		tar -C "$tree" -xf - --no-same-owner
	test/tools/private-pg "$pg_config" "$work/pg" >/dev/null
	[ "$(id -u)" != 0 ] || chown -R "$user" "$work"
	quietly as_user make -s -j2 PG_CONFIG="$bindir/pg_config" clean
	quietly as_user make -s -j2 PG_CONFIG="$bindir/pg_config" all
	quietly as_user make -s PG_CONFIG="$bindir/pg_config" install

	quietly as_user initdb -D "$data" -U bench -A trust -E UTF8 --locale=C.UTF-8
	cat >>"$data/postgresql.conf" <<-CONF
		shared_preload_libraries = 'quota'
		listen_addresses = ''
		unix_socket_directories = '$work'
		shared_buffers = '1GB'
		max_wal_size = '16GB'
		checkpoint_timeout = '1h'
		${CONF:-}
	CONF
	quietly as_user pg_ctl -D "$data" -l "$work/server.log" -w start || { cat "$work/server.log" >&2; exit 1; }
}

# $1 = database, $2 = number of tenants; made unless it is there
need_database() {
	[ "$(sql -d postgres -c "SELECT count(*) FROM pg_database WHERE datname = '$1'")" = 0 ] || return 0
	quietly as_user createdb "$1"
	quietly sql -d "$1" -v tenants="$2" -f $bench/setup.sql
}

drop_databases() {
	local database
	for database; do
		quietly as_user dropdb -f "$database"
	done
}

# A session in database $1 that has run the other arguments and stays open.
open_session() {
	local database=$1
	shift
	rm -f "$work/session"
	mkfifo "$work/session"
	session_done=$work/session.done
	rm -f "$session_done"
	stdin=$work/session sql -d "$database" >/dev/null &
	session=$!
	exec 4>"$work/session"
	printf '%s;\n' "$@" >&4
	printf '\\! touch %s\n' "$session_done" >&4
	for _ in {1..600}; do
		[ ! -e "$session_done" ] || return 0
		sleep 0.1
	done
	echo "bench: the session did not answer" >&2
	return 1
}

# Run what is left to do in it, and end it.
close_session() {
	[ $# = 0 ] || printf '%s;\n' "$@" >&4
	exec 4>&-
	wait "$session"
}

# The machine, the versions and the settings, as lines of "name TAB value"
describe() {
	local name
	printf 'processor\t%s, %d of them\n' "$(sed -n 's/^model name[^:]*: //p;T;q' /proc/cpuinfo)" "$(nproc)"
	printf 'memory\t%d GB\n' "$(awk '/^MemTotal/ { print int($2 / 1048576 + 0.5) }' /proc/meminfo)"
	printf 'kernel\t%s\n' "$(uname -sr | sed 's/-.*//')"
	printf 'file system\t%s\n' "$(stat -f -c %T "$work")"
	printf 'load at the start\t%s\n' "$(cut -d ' ' -f 1 /proc/loadavg)"
	printf 'date\t%s\n' "$(date -u +%Y-%m-%d)"
	printf 'quota\t%s\n' "$(git describe --always --dirty 2>/dev/null || sed -n "s/^default_version *= *'\(.*\)'/\1/p" quota.control)"
	printf 'PostgreSQL\t%s\n' "$(sql -d postgres -c 'SHOW server_version')"
	for name in fsync synchronous_commit wal_sync_method full_page_writes shared_buffers max_wal_size checkpoint_timeout; do
		printf '%s\t%s\n' "$name" "$(sql -d postgres -c "SHOW $name")"
	done
	printf 'Redis\t%s\n' "$(redis-server --version | sed 's/.* v=\([^ ]*\).*/\1/'), save and appendonly off where not said, Unix socket"
	printf 'PgBouncer\t%s\n' "$(PATH=$PATH:/usr/sbin pgbouncer --version | sed -n 's/^PgBouncer //p'), pool_mode transaction"
	printf 'Node.js\t%s\n' "$(node --version)"
	sed -n '/"dependencies"/,/}/s/^ *"\(.*\)": "\(.*\)",\{0,1\}$/\1\t\2/p' $bench/peers/package.json
	printf 'seconds of a measurement of calls\t%s\n' "$round_time"
	printf 'rounds\t%s of calls, %s of jobs, %s of credits\n' "$rounds" "$job_rounds" "$credit_rounds"
	printf 'jobs of a client in a measurement\t%s\n' "$claims"
}
