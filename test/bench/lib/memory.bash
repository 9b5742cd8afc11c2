# memory.bash - shared memory of what there may be many of; sourced by ../run.
# shellcheck shell=bash

# Bytes of quota's shared memory with these options
memory_with() {
	quietly as_user pg_ctl -D "$data" -s -w stop
	quietly as_user pg_ctl -D "$data" -l "$work/server.log" -o "$1" -s -w start
	sql -d postgres -c "SELECT allocated_size FROM pg_shmem_allocations WHERE name = 'quota'"
}

# What so many more of each take
part_memory() {
	local what n=65536 all="-c quota.max_flows=65536 -c quota.max_permits=65536 -c quota.max_buckets=65536" less more
	less=$(memory_with "$all")
	for what in bucket flow permit; do
		more=$(memory_with "$all -c quota.max_${what}s=$((2 * n))")
		fact "shared memory" "of a $what and what belongs to it" $(((more - less) / n)) bytes
	done
	quietly as_user pg_ctl -D "$data" -s -w stop
	quietly as_user pg_ctl -D "$data" -l "$work/server.log" -s -w start
}
