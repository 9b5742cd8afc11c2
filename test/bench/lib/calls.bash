# calls.bash - decisions about direct calls; sourced by ../run.
# shellcheck shell=bash

measure_select_1() { tps -T "$round_time" -f $bench/select_one.pgbench hot; }
measure_acquire() { tps -T "$round_time" -D provider="$1" -f $bench/acquire.pgbench hot; }
measure_row_lock() { tps -T "$round_time" -D provider="$1" -f $bench/row_lock.pgbench hot; }

measure_statement() {
	local start=$EPOCHREALTIME admitted
	admitted=$(sql -d hot -v provider="$1" -f $bench/statement.sql)
	[ "$admitted" = "$([ "$1" = open ] && echo 1000000 || echo 0)" ]
	awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { print 1000000 / (end - start) }'
}

part_acquire() {
	need_database hot 10
	echo
	echo "calls/s, one hot key, $round_time s each"
	# tables and caches are warm, as they are in a server that has run for a while
	pgbench -T 1 -D provider=open -f $bench/acquire.pgbench hot
	pgbench -T 1 -D provider=open -f $bench/row_lock.pgbench hot
	compare select_1 "acquire open" "acquire closed" "row_lock open" "row_lock closed"
}

part_statement() {
	need_database hot 10
	echo
	echo "decisions/s, one statement with 1000000"
	compare "statement open" "statement closed"
}
