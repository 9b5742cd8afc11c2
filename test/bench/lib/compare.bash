# compare.bash - what is compared takes turns; sourced by ../run.
# shellcheck shell=bash

# pgbench with these arguments; its report is in $work/output
pgbench() {
	quietly as_user pgbench -n -M prepared -c "$clients" -j "$(nproc)" "$@"
}

# ... and prints transactions per second
tps() {
	pgbench "$@"
	sed -n 's/^tps = \([0-9.]*\).*/\1/p' "$work/output"
}

# Measure "name arguments" $1, $2, ... in turn, $rounds times, and print a table:
# a line for each, and what it is as a multiple of each other one.
compare() {
	local round i order rate
	: >"$work/results"
	for ((round = 1; round <= rounds; round++)); do
		mapfile -t order < <(seq 1 $#)
		[ $((round % 2)) = 1 ] || mapfile -t order < <(seq $# -1 1)
		for i in "${order[@]}"; do
			# shellcheck disable=SC2086	# name and arguments
			rate=$(measure_${!i})
			echo "$round $i $rate" >>"$work/results"
		done
	done
	printf '%s\n' "$@" | awk -v rounds="$rounds" '
		function median(list,   i, j, t) {
			for (i = 2; i <= rounds; i++)
				for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
					t = list[j]; list[j] = list[j - 1]; list[j - 1] = t
				}
			return (list[int((rounds + 1) / 2)] + list[int(rounds / 2) + 1]) / 2
		}
		function letter(i) { return substr("ABCDEFGH", i, 1) }
		FILENAME != "-" { value[$1, $2] = $3; next }
		{ name[++n] = $0 }
		END {
			printf "%-28s", ""
			for (r = 1; r <= rounds; r++) printf "%9s", "round " r
			printf "%9s", "median"
			for (k = 1; k <= n; k++) printf "%8s", "/ " letter(k)
			print ""
			for (i = 1; i <= n; i++) {
				printf "%s %-26s", letter(i), name[i]
				for (r = 1; r <= rounds; r++) printf "%9.0f", list[r] = value[r, i]
				printf "%9.0f", median(list)
				for (k = 1; k <= n; k++) {
					for (r = 1; r <= rounds; r++) list[r] = value[r, i] / value[r, k]
					printf "%8.2f", median(list)
				}
				print ""
			}
		}' "$work/results" -
}
