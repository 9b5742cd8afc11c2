# rebuild.bash - after a crash: how soon a job can be claimed, and when all are
# counted; sourced by ../run.
# shellcheck shell=bash

# Milliseconds of the first claim of a new session in database $1.
claim_ms() {
	sql -d "$1" -c 'SELECT 1' -c '\timing on' -c "SELECT count(*) FROM quota_dequeue('open')" |
		sed -n 's/^Time: \([0-9.]*\) ms.*/\1/p'
}

# The server dies and comes back: prints, in milliseconds, the first claim of the
# first session, the time until all jobs are counted, and the first claim of a
# session after that.
crash() {
	local start first counted=0
	quietly as_user pg_ctl -D "$data" -m immediate -s stop
	quietly as_user pg_ctl -D "$data" -l "$work/server.log" -s -w start
	start=$EPOCHREALTIME
	first=$(claim_ms "$1")
	until [ "$counted" = 1 ]; do
		sleep 0.02
		counted=$(sql -d "$1" -c 'SELECT (count(*) > 0 AND count(depth) = count(*))::int FROM quota.stat_flows')
	done
	awk -v first="$first" -v start="$start" -v end="$EPOCHREALTIME" -v later="$(claim_ms "$1")" \
		'BEGIN { print first, (end - start) * 1000, later }'
}

# $1 = database: a line for each crash
measure_rebuild() {
	local round
	quietly sql -d "$1" -c 'VACUUM ANALYZE' -c CHECKPOINT
	printf '%-34s%12s%12s%12s\n' "$1, ms" "first claim" counted "later claim"
	for ((round = 1; round <= rounds; round++)); do
		crash "$1"
	done | awk '{ printf "%-34s%12.0f%12.0f%12.0f\n", "  crash " NR, $1, $2, $3 }'
}

part_rebuild() {
	local each=$((3 * many / many_tenants))
	echo
	need_database unfinished "$many_tenants"
	load unfinished "$many_tenants" "$many"
	echo "unfinished: $many jobs of $many_tenants tenants"
	measure_rebuild unfinished
	drop_databases unfinished
	need_database history "$many_tenants"
	quietly sql -d history -v each="$each" -f $bench/history.sql
	load history "$many_tenants" "$many"
	echo "history: the same, after $((each * many_tenants)) finished ones"
	measure_rebuild history
	drop_databases history
}
