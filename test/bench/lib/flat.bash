# flat.bash - claims per second do not depend on what else there is; sourced by
# ../run.  Both sides of each comparison do the same work: what differs is said in
# the name.
# shellcheck shell=bash

# $1 = database, $2 = tenants: jobs per second, one at a time; what was taken is
# enqueued anew before
measure_claim() {
	load "$1" "$2" $((claims * clients))
	work "$1" "$2" one 1 quota.jobs
}

# $1 = database, $2 = tenants, $3 = jobs
filled_database() {
	local start
	need_database "$1" "$2"
	start=$EPOCHREALTIME
	load "$1" "$2" "$3"
	awk -v start="$start" -v end="$EPOCHREALTIME" -v what="$1: $3 jobs of $2 tenants" \
		'BEGIN { printf "%s, loaded in %.1f s\n", what, end - start }'
	quietly sql -d "$1" -c 'VACUUM ANALYZE'
}

# Compare claims in databases with as many tenants: "name tenants" ...
compare_claims() {
	local database
	quietly sql -d postgres -c CHECKPOINT
	for database; do
		# shellcheck disable=SC2086	# name and number
		measure_claim $database >/dev/null
	done
	echo "jobs/s, $((claims * clients)) each"
	compare "${@/#/claim }"
}

part_flat_jobs() {
	echo
	filled_database few_jobs 10 $((many / 100))
	filled_database many_jobs 10 "$many"
	compare_claims "few_jobs 10" "many_jobs 10"
	drop_databases few_jobs many_jobs
}

# Long enough for sessions to have met most tenants: whoever meets one for the
# first time pays for pages of shared memory that are new to his process.
part_flat_tenants() {
	local claims=$((4 * claims))
	echo
	filled_database few_tenants 10 $((many / 10))
	filled_database many_tenants "$many_tenants" $((many / 10))
	compare_claims "few_tenants 10" "many_tenants $many_tenants"
	drop_databases few_tenants many_tenants
}

part_flat_paused() {
	echo
	filled_database unpaused 10 $((many / 100))
	filled_database paused 10 $((many / 100))
	quietly sql -d paused -c "INSERT INTO quota.tenants (tenant, tier, suspended) VALUES ('paused', 'standard', true)" \
		-c "INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
			SELECT 'paused', 'open', 'search', to_jsonb(i) FROM generate_series(1, $many) i"
	compare_claims "unpaused 10" "paused 10"
	drop_databases unpaused paused
}

# A snapshot held open while jobs are done: the first and the last of them; the
# plain queue for as long as a tenth of that.
part_flat_snapshot() {
	local before after done_jobs rest
	echo
	need_database snapshot 10
	quietly sql -d snapshot -f $bench/plain.sql
	load snapshot 10 $((2 * claims * clients + old + 50 * clients))
	plain_load snapshot 10 $((2 * claims * clients + old / 10 + 50 * clients))
	quietly sql -d snapshot -c 'VACUUM ANALYZE'
	open_session snapshot 'BEGIN ISOLATION LEVEL REPEATABLE READ' 'SELECT count(*) FROM quota.jobs'
	before=$(work snapshot 10 one 1 quota.jobs)
	rest=$((old / clients))
	claims=$rest work snapshot 10 batch 50 quota.jobs >/dev/null
	after=$(work snapshot 10 one 1 quota.jobs)
	awk -v b="$before" -v a="$after" -v n="$old" 'BEGIN {
		printf "a snapshot is held open: %.0f jobs/s, after %d jobs %.0f, %.2f of it\n", b, n, a, a / b }'
	before=$(work snapshot 10 plain_one 1 plain_jobs)
	claims=$((rest / 10)) work snapshot 10 plain_batch 50 plain_jobs >/dev/null
	after=$(work snapshot 10 plain_one 1 plain_jobs)
	awk -v b="$before" -v a="$after" -v n="$((old / 10))" 'BEGIN {
		printf "the same, plain queue:   %.0f jobs/s, after %d jobs %.0f, %.2f of it\n", b, n, a, a / b }'
	close_session
	drop_databases snapshot
}

# Jobs whose retries come due at once, against fresh ones.
measure_retries() {
	local n=$((claims * clients))
	load retries 10 $n
	quietly sql -d retries -c "SELECT count(*) FROM generate_series(1, $n / 1000 + 1),
			LATERAL (SELECT count(*) FROM quota_dequeue('open', 1000)) claimed" \
		-c "SELECT count(quota_fail(id, attempt, 'no')) FROM quota.jobs WHERE state = 'running'"
	quietly sql -d retries -c "SELECT pg_sleep(0.2)"
	work retries 10 one 1 quota.jobs
}

part_flat_retries() {
	echo
	filled_database no_retries 10 0
	filled_database retries 10 0
	quietly sql -d retries -c "UPDATE quota.providers SET retry_base = '1 ms', retry_max = '1 ms'"
	echo "jobs/s, fresh ones, and $((claims * clients)) retries that are due at once"
	measure_claim no_retries 10 >/dev/null
	compare "claim no_retries 10" retries
	drop_databases no_retries retries
}

# A job enqueued long before by a transaction that commits only now.
measure_late() {
	open_session late BEGIN "INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('tenant 1', 'open', 'search')"
	load late 10 $((2 * claims * clients))
	claims=$((claims / 50 * 50)) work late 10 batch 50 quota.jobs >/dev/null
	close_session COMMIT
	work late 10 one 1 quota.jobs
}

part_flat_late() {
	echo
	filled_database in_time 10 $((many / 100))
	filled_database late 10 $((many / 100))
	echo "jobs/s, all committed in time, and after a commit far below the positions"
	measure_claim in_time 10 >/dev/null
	compare "claim in_time 10" late
	drop_databases in_time late
}

# Statistics from when the tables were empty, and from when they were full.
part_flat_statistics() {
	local database
	echo
	filled_database analyzed 10 $((many / 10))
	for database in analyzed_empty analyzed_full; do
		need_database $database 10
		quietly sql -d $database -c "ALTER TABLE quota.jobs SET (autovacuum_enabled = off)" \
			-c "ALTER TABLE quota.leases SET (autovacuum_enabled = off)"
	done
	quietly sql -d analyzed_empty -c ANALYZE
	load analyzed_empty 10 $((many / 10))
	load analyzed_full 10 $((many / 10))
	quietly sql -d analyzed_full -c ANALYZE -c "DELETE FROM quota.jobs"
	compare_claims "analyzed 10" "analyzed_empty 10" "analyzed_full 10"
	drop_databases analyzed analyzed_empty analyzed_full
}
