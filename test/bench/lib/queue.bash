# queue.bash - jobs claimed and completed, and loaded; sourced by ../run.
# shellcheck shell=bash

# Enqueue $3 jobs for $2 tenants into the database $1; the same, plain.
load() { quietly sql -d "$1" -v tenants="$2" -v jobs="$3" -f $bench/load.sql; }
plain_load() { quietly sql -d "$1" -v tenants="$2" -v jobs="$3" -f $bench/plain_load.sql; }

# $1 = database, $2 = table: how many jobs of it are done
count_done() { sql -d "$1" -c "SELECT count(*) FROM $2 WHERE state = 'succeeded'"; }

# Run the script $3 in database $1 with $2 tenants until every client has done
# $claims jobs of the table $5, $4 at a time; prints jobs per second.  Workers have
# seen all tenants before, like those that have run for a while; that is not
# counted, so the rate comes from the latencies of the statements.
work() {
	local database=$1 tenants=$2 script=$3 batch=$4 table=$5 calls before after
	calls=$(((claims + batch - 1) / batch))
	before=$(count_done "$database" "$table")
	pgbench -r -t $((calls + 1)) -D warm=0 -D tenants="$tenants" -f "$bench/$script.pgbench" "$database"
	after=$(count_done "$database" "$table")
	[ $((after - before)) = $((calls * clients * batch)) ] || {
		echo "bench: $script: $((after - before)) jobs done, not $((calls * clients * batch))" >&2
		return 1
	}
	awk -v clients="$clients" -v batch="$batch" '
		/quota_dequeue|quota_complete|plain_jobs/ && $1 > 0 { ms += $1 }
		END { print clients * batch * 1000 / ms }' "$work/output"
}

measure_one() { load queue 10 $((claims * clients)); work queue 10 one 1 quota.jobs; }
measure_batch() { load queue 10 $((claims * clients * 4)); claims=$((claims * 4)) work queue 10 batch 50 quota.jobs; }
measure_plain() { plain_load queue 10 $((claims * clients)); work queue 10 plain_one 1 plain_jobs; }
measure_plain_batch() { plain_load queue 10 $((claims * clients * 4)); claims=$((claims * 4)) work queue 10 plain_batch 50 plain_jobs; }

part_queue() {
	need_database queue 10
	quietly sql -d queue -f $bench/plain.sql
	# statistics of a queue in use, for the plans of the plain one
	plain_load queue 10 $((claims * clients))
	load queue 10 $((claims * clients))
	quietly sql -d queue -c 'VACUUM ANALYZE'
	echo
	echo "jobs/s claimed and completed, one at a time"
	compare one plain
	echo
	echo "jobs/s claimed and completed, 50 at a time"
	compare batch plain_batch
}

# $1 = insert or copy, $2 = table, $3 = "flow" if flows are loaded too: rows per second
measure_load() {
	local start before after columns="tenant, provider, endpoint, payload${3:+, flow}"
	before=$(sql -d load -c "SELECT count(*) FROM $2")
	start=$EPOCHREALTIME
	if [ "$1" = copy ]; then
		quietly sql -d load -c "COPY $2 ($columns) FROM '$work/jobs${3:+_flow}.copy'"
	else
		quietly sql -d load -c "INSERT INTO $2 ($columns) SELECT $columns FROM source"
	fi
	awk -v start="$start" -v end="$EPOCHREALTIME" -v rows="$many" 'BEGIN { print rows / (end - start) }'
	after=$(sql -d load -c "SELECT count(*) FROM $2")
	[ $((after - before)) = "$many" ]
	# the next one finds the tables as this one did
	quietly sql -d load -c "DELETE FROM $2" -c "VACUUM $2"
}

# The same rows with and without triggers; and without triggers with one flow for all,
# which is less work for an index.
part_load() {
	local kind
	need_database load 10
	quietly sql -d load -v tenants=10 -v jobs="$many" -f $bench/copy_of_jobs.sql
	quietly sql -d load -c "COPY source TO '$work/jobs_flow.copy'" \
		-c "COPY source (tenant, provider, endpoint, payload) TO '$work/jobs.copy'"
	echo
	echo "rows/s enqueued, $many in one statement"
	for kind in insert copy; do
		compare "load $kind quota.jobs" "load $kind plain_copy flow" "load $kind plain_copy"
	done
	rm "$work/jobs.copy" "$work/jobs_flow.copy"
}
