# queue.bash - jobs claimed and completed, and loaded; sourced by ../run.
# shellcheck shell=bash

# Enqueue $3 jobs for $2 tenants into the database $1; the same, plain; and rows that are
# found by their number, from 1 on.
load() { quietly sql -d "$1" -v tenants="$2" -v jobs="$3" -f $bench/load.sql; }
plain_load() { quietly sql -d "$1" -v tenants="$2" -v jobs="$3" -f $bench/plain_load.sql; }
row_load() {
	quietly sql -d "$1" -c "TRUNCATE row_jobs RESTART IDENTITY"
	quietly sql -d "$1" -c "INSERT INTO row_jobs (tenant, provider, endpoint, payload)
		SELECT 'tenant ' || 1 + i % $2, 'open', 'search', jsonb_build_object('contact', i) FROM generate_series(1, $3) i" \
		-c "ANALYZE row_jobs"
}

# Jobs that are done, by what each queue has of them in the end (what graphile-worker has
# done is gone)
declare -A count_done=(
	[quota.jobs]="SELECT count(*) FROM quota.jobs WHERE state = 'succeeded'"
	[plain_jobs]="SELECT count(*) FROM plain_jobs WHERE state = 'succeeded'"
	[row_jobs]="SELECT count(*) FROM row_jobs WHERE state = 'succeeded'"
	[graphile]="SELECT -count(*) FROM graphile_worker._private_jobs"
	[boss]="SELECT count(*) FROM pgboss.job WHERE state = 'completed' AND name = 'bench'"
)

# $1 = database, $2 = queue
done_jobs() { sql -d "$1" -c "${count_done[$2]}"; }

# Run the script $3 in database $1 with $2 tenants until every client has done
# $claims jobs of the queue $5, $4 at a time.  Workers have seen all tenants before,
# like those that have run for a while: that is what a client's first transaction does,
# and is not counted, so the rate comes from the latencies of the others.
work() {
	local database=$1 tenants=$2 script=$3 batch=$4 queue=$5 calls before
	calls=$(((claims + batch - 1) / batch))
	before=$(done_jobs "$database" "$queue")
	pgbench -t $((calls + 1)) -D warm=0 -D tenants="$tenants" -D calls="$calls" -D turn=0 -f "$script.pgbench" "$database"
	same_work "$script" $((calls * clients * batch)) $(($(done_jobs "$database" "$queue") - before))
	rate_of_others "$batch" "$calls"
}

# ... of so many calls of each client, with so many jobs each
rate_of_others() {
	awk 'seen[$1]++ { print $3 }' "$work"/latency.* | percentiles |
		awk -v clients="$clients" -v batch="$1" -v calls="$2" \
			'{ print clients * batch * 1e6 / $3, clients * batch * calls, $1, $2 }'
}

# What any queue needs for a job that one transaction claims and another one completes.
measure_commits() {
	pgbench -t $((claims + 1)) -f $bench/commits.pgbench queue
	rate_of_others 1 "$claims"
}

# Jobs of a client in a measurement, $1 at a time: full batches
jobs_of_client() { echo $(($1 == 1 ? claims : (claims * 4 + $1 - 1) / $1 * $1)); }
measure_jobs() {
	local script=$1 batch=$2 queue=$3 loader=$4 claims=$claims
	claims=$(jobs_of_client "$batch")
	"$loader" queue 10 $((claims * clients))
	work queue 10 "$script" "$batch" "$queue"
}
measure_quota() { measure_jobs "$bench/$1" "$2" quota.jobs load; }
measure_plain() { measure_jobs "$bench/plain_$1" "$2" plain_jobs plain_load; }
measure_rows() { measure_jobs "$bench/rows_$1" "$2" row_jobs row_load; }
measure_graphile() { measure_jobs "$work/peers/graphile" 1 graphile graphile_load; }
# a fifth one at a time, or it would take longer than all others together
measure_boss() { claims=$(($2 == 1 ? claims / 5 : claims)) measure_jobs "$work/peers/$1" "$2" boss boss_load; }
measure_node_commits() { node_client run commits queue "$clients" $((claims * clients)) 1; }
measure_node() {
	local queue=$1 batch=$2 loader=$3 jobs kind=$1
	case $queue in
		quota.jobs) kind=jobs ;;
		next) queue=quota.jobs ;;
	esac
	jobs=$(($(jobs_of_client "$batch") * clients))
	"$loader" queue 10 $((2 * jobs))
	checked "$kind in Node.js" "done_jobs queue $queue" node_client run "$kind" queue "$clients" "$jobs" "$batch"
}

# By their own functions; arguments as of load
graphile_load() {
	quietly sql -d "$1" -c "SELECT count(*) FROM graphile_worker.add_jobs(ARRAY(
		SELECT ('bench', json_build_object('contact', i), NULL, NULL, NULL, NULL, NULL, NULL)::graphile_worker.job_spec
		FROM generate_series(1, $3) i))"
}
boss_load() { quietly as_user node $bench/peers/client.js load boss "$1" "$3"; }

# Queues in use: with statistics, for the plans of those that are SQL
need_queues() {
	local kind loader
	need_database queue 10
	quietly sql -d queue -f $bench/plain.sql
	mkdir "$work/peers"
	[ "$(id -u)" != 0 ] || chown "$user" "$work/peers"
	for kind in graphile boss; do
		quietly as_user node $bench/peers/client.js make $kind queue "$work/peers"
	done
	for loader in load plain_load graphile_load boss_load; do
		$loader queue 10 $((claims * clients))
	done
	quietly sql -d queue -c 'VACUUM ANALYZE'
}

part_queue() {
	local rounds=$job_rounds one="quota" plain="plain SKIP LOCKED queue" rows="each row updated twice, alone" next="quota, completing one and claiming the next"
	local commits="two durable commits alone" plain_one="plain SKIP LOCKED queue, one at a time" n
	need_queues
	for n in 1 32; do
		clients=$n claims=$((n == 1 ? claims * 2 : claims / 2)) compare queue_$n "jobs claimed and completed one at a time by $(of_clients $n)" jobs/s \
			"quota one 1=$one" "plain one 1=$plain" "commits=$commits"
	done
	# a job takes a tenth of a millisecond: as many as take a second
	clients=8 claims=$((claims * 2)) compare queue_8 "jobs claimed and completed one at a time by 8 clients" jobs/s \
		"quota one 1=$one" "plain one 1=$plain" \
		"graphile=graphile-worker, its SQL" "boss boss 1=pg-boss, its SQL" \
		"rows one 1=$rows" "commits=$commits" "quota next 1=$next"
	target "claim + complete against plain SKIP LOCKED queue, one at a time" queue_8 "$one" "$plain" 1.2 "$rows"
	target "against graphile-worker, its SQL in the same client, two statements each" queue_8 "$one" "graphile-worker, its SQL" 2 "$commits"
	target "against graphile-worker, its SQL in the same client, one statement a job" queue_8 "$next" "graphile-worker, its SQL" 2
	compare queue_batch "jobs claimed and completed 50 at a time by $clients clients" jobs/s \
		"quota batch 50=$one" "plain batch 50=$plain" "boss boss_batch 50=pg-boss, its SQL" \
		"rows batch 50=$rows" "plain one 1=$plain_one"
	target "claim + complete against plain SKIP LOCKED queue, batches of 50" queue_batch "$one" "$plain" 8 "$rows"
	target "quota 50 at a time against the plain queue one at a time" queue_batch "$one" "$plain_one" 8
	target "against pg-boss, its SQL in the same client, batches of 50" queue_batch "$one" "pg-boss, its SQL" 2
	compare queue_node "the same, one and 50 at a time, by one Node.js process with $clients connections" jobs/s \
		"node quota.jobs 1 load=quota by pg" "node next 1 load=$next, by pg" \
		"node graphile 1 graphile_load=graphile-worker" \
		"node_commits=$commits, by pg" \
		"node quota.jobs 50 load=quota by pg, 50 at a time" "node boss 50 boss_load=pg-boss, 50 at a time"
	target "against graphile-worker as installed, in Node.js, two statements each" queue_node "quota by pg" graphile-worker 2 "$commits, by pg"
	target "against graphile-worker as installed, in Node.js, one statement a job" queue_node "$next, by pg" graphile-worker 2
	target "against pg-boss as installed, in Node.js" queue_node "quota by pg, 50 at a time" "pg-boss, 50 at a time" 2
	drop_databases queue
}

loaded_rows() { sql -d load -c "SELECT count(*) FROM $1"; }

# $1 = insert or copy, $2 = table, $3 = "flow" if flows are loaded too: rows per second
measure_load() {
	local columns="tenant, provider, endpoint, payload${3:+, flow}" command
	command="INSERT INTO $2 ($columns) SELECT $columns FROM source"
	[ "$1" != copy ] || command="COPY $2 ($columns) FROM '$work/jobs${3:+_flow}.copy'"
	checked "$1 into $2" "loaded_rows $2" psql_rate "$loaded" -d load -c "$command"
	# the next one finds the tables as this one did
	quietly sql -d load -c "DELETE FROM $2" -c "VACUUM $2"
}

# The same rows with and without triggers; and without triggers with one flow for all,
# which is less work for an index.
part_load() {
	local kind loaded=$((many / 5))
	need_database load 10
	quietly sql -d load -v tenants=10 -v jobs="$loaded" -f $bench/copy_of_jobs.sql
	quietly sql -d load -c "COPY source TO '$work/jobs_flow.copy'" \
		-c "COPY source (tenant, provider, endpoint, payload) TO '$work/jobs.copy'"
	for kind in insert copy; do
		compare load_$kind "$loaded rows by one ${kind^^}" rows/s "load $kind quota.jobs=quota" \
			"load $kind plain_copy flow=without triggers" "load $kind plain_copy=without triggers, one flow"
	done
	rm "$work/jobs.copy" "$work/jobs_flow.copy"
}
