# flat.bash - claims per second do not depend on what else there is; sourced by
# ../run.  Both sides of each comparison do the same work: what differs is said in
# the name.
# shellcheck shell=bash

# $1 = database, $2 = tenants: jobs per second, one at a time; what was taken is
# enqueued anew before
measure_claim() {
	load "$1" "$2" $((claims * clients))
	work "$1" "$2" $bench/one 1 quota.jobs
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

# Compare claims in databases with as many tenants: $1 as of compare, $2 what differs,
# and then "name tenants=label" ...; the second should be as fast as the first.
compare_claims() {
	local database
	quietly sql -d postgres -c CHECKPOINT
	for database in "${@:3}"; do
		# shellcheck disable=SC2086	# name and number
		measure_claim ${database%%=*} >/dev/null
	done
	local -a kinds=("${@:3}")
	compare "$1" "$2, $((claims * clients)) jobs claimed and completed" jobs/s "${kinds[@]/#/claim }"
}
flat() { target "flat: $3" "$1" "$3" "$2" 0.9; }

part_flat_jobs() {
	local rounds=$job_rounds
	echo
	filled_database few_jobs 10 $((many / 100))
	filled_database many_jobs 10 "$many"
	compare_claims flat_jobs "ready jobs" "few_jobs 10=$((many / 100)) jobs" "many_jobs 10=$many jobs"
	flat flat_jobs "$((many / 100)) jobs" "$many jobs"
	drop_databases few_jobs many_jobs
}

# Long enough for sessions to have met most tenants: whoever meets one for the
# first time pays for pages of shared memory that are new to his process.
part_flat_tenants() {
	local claims=$((4 * claims)) rounds=$job_rounds
	echo
	filled_database few_tenants 10 $((many / 10))
	filled_database many_tenants "$many_tenants" $((many / 10))
	compare_claims flat_tenants "tenants" "few_tenants 10=10 tenants" "many_tenants $many_tenants=$many_tenants tenants"
	flat flat_tenants "10 tenants" "$many_tenants tenants"
	drop_databases few_tenants many_tenants
}

part_flat_paused() {
	local rounds=$job_rounds
	echo
	filled_database unpaused 10 $((many / 100))
	filled_database paused 10 $((many / 100))
	quietly sql -d paused -c "INSERT INTO quota.tenants (tenant, tier, suspended) VALUES ('paused', 'standard', true)" \
		-c "INSERT INTO quota.jobs (tenant, provider, endpoint, payload)
			SELECT 'paused', 'open', 'search', to_jsonb(i) FROM generate_series(1, $many) i"
	compare_claims flat_paused "paused work" "unpaused 10=nothing paused" "paused 10=$many jobs of a suspended tenant"
	flat flat_paused "nothing paused" "$many jobs of a suspended tenant"
	drop_databases unpaused paused
}

measure_plain_claim() {
	plain_load "$1" 10 $((claims * clients))
	work "$1" 10 $bench/plain_one 1 plain_jobs
}

# A snapshot held open while many jobs are done, and a tenth as many of the plain queue.
part_flat_snapshot() {
	local database rounds=$job_rounds
	echo
	for database in unheld held; do
		need_database $database 10
		quietly sql -d $database -f $bench/plain.sql
		load $database 10 $((old + 50 * clients + many / 100))
		plain_load $database 10 $((old / 10 + 50 * clients + many / 100))
		quietly sql -d $database -c 'VACUUM ANALYZE'
		[ $database = unheld ] || open_session held 'BEGIN ISOLATION LEVEL REPEATABLE READ' 'SELECT count(*) FROM quota.jobs'
		claims=$((old / clients)) work $database 10 $bench/batch 50 quota.jobs >/dev/null
		claims=$((old / clients / 10)) work $database 10 $bench/plain_batch 50 plain_jobs >/dev/null
	done
	quietly sql -d unheld -c 'VACUUM ANALYZE'
	compare flat_snapshot "a snapshot held open for $old jobs done, $((old / 10)) of the plain queue" jobs/s \
		"claim unheld 10=no snapshot" "claim held 10=a held snapshot" \
		"plain_claim unheld=plain queue, no snapshot" "plain_claim held=plain queue, a held snapshot"
	flat flat_snapshot "no snapshot" "a held snapshot"
	close_session
	drop_databases unheld held
}

# Jobs whose retries come due at once, against fresh ones.
measure_retries() {
	local n=$((claims * clients))
	load retries 10 $n
	quietly sql -d retries -c "SELECT count(*) FROM generate_series(1, $n / 1000 + 1),
			LATERAL (SELECT count(*) FROM quota_dequeue('open', 1000)) claimed" \
		-c "SELECT count(quota_fail(id, attempt, 'no')) FROM quota.jobs WHERE state = 'running'"
	quietly sql -d retries -c "SELECT pg_sleep(0.2)"
	work retries 10 $bench/one 1 quota.jobs
}

part_flat_retries() {
	local rounds=$job_rounds
	echo
	filled_database no_retries 10 0
	filled_database retries 10 0
	quietly sql -d retries -c "UPDATE quota.providers SET retry_base = '1 ms', retry_max = '1 ms'"
	measure_claim no_retries 10 >/dev/null
	compare flat_retries "retries, $((claims * clients)) jobs claimed and completed" jobs/s "claim no_retries 10=fresh jobs" "retries=retries due at once"
	flat flat_retries "fresh jobs" "retries due at once"
	drop_databases no_retries retries
}

# A job enqueued long before by a transaction that commits only now.
measure_late() {
	open_session late BEGIN "INSERT INTO quota.jobs (tenant, provider, endpoint) VALUES ('tenant 1', 'open', 'search')"
	load late 10 $((2 * claims * clients))
	claims=$((claims / 50 * 50)) work late 10 $bench/batch 50 quota.jobs >/dev/null
	close_session COMMIT
	work late 10 $bench/one 1 quota.jobs
}

part_flat_late() {
	local rounds=$job_rounds
	echo
	filled_database in_time 10 $((many / 100))
	filled_database late 10 $((many / 100))
	measure_claim in_time 10 >/dev/null
	compare flat_late "a job committed long after those enqueued later, $((claims * clients)) jobs claimed and completed" jobs/s "claim in_time 10=no such commit" "late=after a commit far below"
	flat flat_late "no such commit" "after a commit far below"
	drop_databases in_time late
}

# Statistics from when the tables were empty, and from when they were full of jobs that
# were deleted since.  All have the same backlog, which nothing vacuums meanwhile.
part_flat_statistics() {
	local claims=$((4 * claims)) database rounds=$job_rounds
	echo
	for database in analyzed analyzed_empty analyzed_full; do
		need_database $database 10
		quietly sql -d $database -c "ALTER TABLE quota.jobs SET (autovacuum_enabled = off)" \
			-c "ALTER TABLE quota.leases SET (autovacuum_enabled = off)"
	done
	quietly sql -d analyzed_empty -c ANALYZE
	load analyzed_full 10 $((many / 10))
	quietly sql -d analyzed_full -c ANALYZE -c "DELETE FROM quota.jobs"
	for database in analyzed analyzed_empty analyzed_full; do
		load $database 10 $((many / 10))
	done
	quietly sql -d analyzed -c ANALYZE
	compare_claims flat_statistics "statistics of the tables" "analyzed 10=fresh statistics" \
		"analyzed_empty 10=statistics of empty tables" "analyzed_full 10=statistics of full tables, deleted since"
	flat flat_statistics "fresh statistics" "statistics of empty tables"
	flat flat_statistics "fresh statistics" "statistics of full tables, deleted since"
	drop_databases analyzed analyzed_empty analyzed_full
}
