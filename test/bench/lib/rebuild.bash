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

# $1 = database, $2 = what there is: the worst of two crashes
measure_rebuild() {
	local first counted later
	quietly sql -d "$1" -c 'VACUUM ANALYZE' -c CHECKPOINT
	read -r first counted later < <((crash "$1"; crash "$1") |
		awk '{ for (i = 1; i <= 3; i++) if ($i > worst[i]) worst[i] = $i } END { printf "%.0f %.0f %.0f\n", worst[1], worst[2], worst[3] }')
	fact "after a crash, $2" "first claim" "$first" ms
	fact "after a crash, $2" "all jobs counted" "$counted" ms ${3:+"at most" "$3"}
	fact "after a crash, $2" "first claim of another session" "$later" ms
}

part_rebuild() {
	local each=$((3 * many / many_tenants))
	echo
	need_database unfinished "$many_tenants"
	load unfinished "$many_tenants" "$many"
	measure_rebuild unfinished "$many jobs of $many_tenants tenants" 2000
	drop_databases unfinished
	need_database history "$many_tenants"
	quietly sql -d history -v each="$each" -f $bench/history.sql
	load history "$many_tenants" "$many"
	measure_rebuild history "the same and $((each * many_tenants)) finished ones"
	drop_databases history
}
