# compare.bash - what is compared takes turns; sourced by ../run.
# shellcheck shell=bash
#
# Whatever is measured prints a line: what was done a second, how much that was in
# all, and percentiles 50 and 99 of how long one took, in microseconds ("-" where
# that is not known).  ../report.py makes tables, medians and plots of these lines.

# What the server has done until now: bytes of WAL, buffers looked at, rows that
# updates and deletes left dead.  Sessions tell when they end, so they are waited for.
counters() {
	until [ "$(sql -d postgres -c "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'measured'")" = 0 ]; do
		sleep 0.01
	done
	sql -d postgres -F ' ' -c "
		SELECT pg_current_wal_insert_lsn() - '0/0', sum(blks_hit + blks_read), sum(tup_updated + tup_deleted)
		FROM pg_stat_database WHERE datname IS DISTINCT FROM 'postgres'"
}

# Run a program, output in $work/output; note how long it took, in $seconds, and what it
# has cost the server.  The sessions of PgBouncer stay, if it is not asked to end them.
metered() {
	local before start
	before=$(counters)
	start=$EPOCHREALTIME
	quietly as_user env PGAPPNAME=measured "$@"
	seconds=$(awk -v start="$start" -v end="$EPOCHREALTIME" 'BEGIN { print end - start }')
	[ ! -e "$work/pgbouncer.pid" ] || sql -p 6432 -d pgbouncer -c RECONNECT >/dev/null
	echo "$before $(counters)" | awk '{ print $4 - $1, $5 - $2, $6 - $3 }' >"$work/cost"
}

# psql with these arguments, which does so many ($1) of what is counted
psql_rate() {
	metered psql -X -q -v ON_ERROR_STOP=1 "${@:2}"
	awk -v n="$1" -v seconds="$seconds" 'BEGIN { print n / seconds, n }'
}

# pgbench with these arguments; its report is in $work/output, its log in $work/latency.*
pgbench() {
	rm -f "$work"/latency.*
	metered pgbench -n -M "${protocol:-prepared}" -c "$clients" -j "$(nproc)" --log --log-prefix="$work/latency" "$@"
	grep -q '^number of failed transactions: 0 ' "$work/output"
}

# Percentiles 50 and 99 of numbers, and then their mean
percentiles() {
	sort -n | awk '{ t[NR] = $1; sum += $1 } END { print t[int(NR / 2) + 1], t[int(NR * 0.99) + 1], sum / NR }'
}

# pgbench for $round_time: a tenth of the transactions are looked at one by one
tps() {
	local done
	pgbench -T "$round_time" --sampling-rate=0.1 "$@"
	done=$(sed -n 's/^number of transactions actually processed: \([0-9]*\).*/\1/p' "$work/output")
	sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$work/output" | tr '\n' ' '
	echo "$done $(cut -d ' ' -f 3 "$work"/latency.* | percentiles)"
}

# Fails unless as much was done ($3) as was asked for ($2): else a rate says nothing.
same_work() {
	[ "$2" = "$3" ] || { echo "bench: $1: $2 asked for, $3 counted" >&2; return 1; }
}

# Run the measurement $3 ..., and fail unless what $2 counts (a name and arguments) has
# risen by as much as it says was done; $1 is who should have done that.
checked() {
	local who=$1 count=$2 before measured
	shift 2
	before=$($count)
	measured=$("$@")
	same_work "$who" "$(echo "$measured" | cut -d ' ' -f 2)" $(($($count) - before))
	echo "$measured"
}

# Compare $1 (a short name), $2 (what it is about), $3 (what is counted): measure each
# of "name arguments[=label]" $4, $5, ... in turn, $rounds times, and print a table.
# Where one does not do the work there is no table, and the run fails in the end.
compare() {
	local comparison=$1 title=$2 unit=$3 round i order kind measured
	shift 3
	: >"$work/rows"
	for ((round = 1; round <= rounds; round++)); do
		mapfile -t order < <(seq 1 $#)
		[ $((round % 2)) = 1 ] || mapfile -t order < <(seq $# -1 1)
		for i in "${order[@]}"; do
			kind=${!i}
			rm -f "$work/cost"
			# in the background, or errors in it would go unnoticed in "if"
			# shellcheck disable=SC2086	# name and arguments
			measure_${kind%%=*} >"$work/measured" &
			if ! wait $!; then
				echo "bench: $comparison: not reported, as \"${kind#*=}\" failed, or did not do the same work" | tee -a "$work/refused"
				return 0
			fi
			read -r measured <"$work/measured"
			printf '%s\t' "$comparison" "$i" "${kind#*=}" "$round" >>"$work/rows"
			echo "$measured - - - - $(cat "$work/cost" 2>/dev/null || echo - - -)" |
				awk '{ print $1, $2, $3, $4, $(NF - 2), $(NF - 1), $NF }' >>"$work/rows"
		done
	done
	printf '%s\t%s\t%s\n' "$comparison" "$title" "$unit" >>"$work/comparisons"
	cat "$work/rows" >>"$work/results"
	echo
	report table "$comparison"
}

# "$1", of comparison $2: the kind labelled $3 should reach $5 times what $4 does
# (several, separated by "|": the best of them).  The bound, if there is one, is what kind
# $6 does, which does nothing but what cannot be avoided, against $4 or, if given, $7.
target() {
	printf '%s\t' "$1" "$2" "$3" "$4" "$5" "${6:-}" "${7:-}" >>"$work/targets"
	echo >>"$work/targets"
	! grep -q "^$2	" "$work/comparisons" || report target "$1"
}

# Something that is not compared: $1 of what, $2 which, $3 value, $4 unit; $5 "at most" or
# "at least" and $6, if something is to be reached
fact() {
	printf '%s\t' "$1" "$2" "$3" "$4" "${5:-}" "${6:-}" >>"$work/facts"
	echo >>"$work/facts"
	printf '%-58s %12s %s\n' "$1: $2" "$3" "$4${6:+  ($5 $6)}"
}

of_clients() { [ "$1" = 1 ] && echo "1 client" || echo "$1 clients"; }

report() { /usr/bin/python3 $bench/report.py "$work" "$@"; }
