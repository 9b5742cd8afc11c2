# wake.bash - what it costs those who enqueue that others wait for jobs; sourced by
# ../run.
# shellcheck shell=bash

# How many sessions are in quota_wait.
count_waiting() {
	sql -d wake -c "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CALL quota_wait%' AND state = 'active'"
}

# $1 sessions begin to wait for jobs of the provider $2, and go on until end_waiters
start_waiters() {
	[ "$1" -gt 0 ] || return 0
	as_user pgbench -n -M prepared -c "$1" -T 3600 -D provider="$2" -f $bench/wait.pgbench wake >/dev/null 2>&1 &
	waiters=$!
	until [ "$(count_waiting)" = "$1" ]; do
		kill -0 "$waiters"
		sleep 0.1
	done
}

# Ends those that start_waiters began; $1 as there.
end_waiters() {
	[ "$1" -gt 0 ] || return 0
	quietly sql -d wake -c "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'CALL quota_wait%'"
	wait "$waiters" || true
}

enqueued_jobs() { sql -d wake -c 'SELECT count(*) FROM quota.jobs'; }

# $1 = sessions that wait.  The jobs can't run, as their provider is closed: those who
# wait go on sleeping, so both sides of the comparison do the same work.
measure_enqueue() {
	local measured
	start_waiters "$1" closed
	measured=$(clients=$enqueuers checked enqueue enqueued_jobs tps -D provider=closed -f $bench/enqueue.pgbench wake)
	if [ "$(count_waiting)" != "$1" ]; then
		echo "bench: a session that should wait does not" >&2
		return 1
	fi
	end_waiters "$1"
	echo "$measured"
	quietly sql -d wake -c "DELETE FROM quota.jobs" -c "VACUUM quota.jobs"
}

part_wake() {
	need_database wake 10
	compare wake "jobs enqueued, one in a transaction, by $enqueuers clients" jobs/s \
		"enqueue 0=nobody waits" "enqueue $waiting=$waiting sessions wait"
	drop_databases wake
}
