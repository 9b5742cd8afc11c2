# credit.bash - holds and settlements of one account, and its balance; sourced by ../run.
# shellcheck shell=bash

# entries of kind $2 in the table $1
entries() { sql -d credit -c "SELECT count(*) FROM $1 WHERE kind = '$2'"; }

# $1 clients; what was done is counted in what was written for it
measure_hold_and_settle() { measure_pairs "$1" credit quota.ledger; }
measure_row_balance() { measure_pairs "$1" credit_row row_entry; }
measure_durable_commits() { local clients=$1; tps -f $bench/commits.pgbench credit; }
measure_pairs() {
	local clients=$1
	checked "$3" "entries $3 hold" checked "$3" "entries $3 settle" tps -f "$bench/$2.pgbench" credit
}

# rows that are no more, but still there, before autovacuum comes by
dead_rows() {
	sql -d credit -c "SELECT pg_stat_force_next_flush()" >/dev/null
	sql -d credit -F ' ' -c "
		SELECT '    ' || relid::regclass, 'inserted ' || n_tup_ins, 'updated ' || n_tup_upd, 'deleted ' || n_tup_del, 'dead ' || n_dead_tup
		FROM pg_stat_user_tables WHERE relid = ANY ('{quota.ledger,quota.holds,quota.ledger_folds,row_account,row_entry}'::regclass[]) ORDER BY relid::regclass::text"
}

part_credit() {
	local n bound=() commits="two durable commits alone"
	need_database credit 10
	quietly sql -d credit -f $bench/credit.sql
	for n in 1 8 32; do
		[ $n != 32 ] || bound=("durable_commits $n=$commits")
		# more rounds than of others, as 32 clients on one account vary
		rounds=$((n == 32 ? credit_rounds : rounds)) compare credit_$n "$(of_clients $n), hold and settle on one account, two durable commits a pair" pairs/s \
			"hold_and_settle $n=quota" "row_balance $n=balance in a row" "${bound[@]}"
	done
	target "hold + settle on one account, 32 clients, against the balance row" credit_32 quota "balance in a row" 8 "$commits"
	dead_rows
	echo "    audit: $(sql -d credit -c 'SELECT count(*) FROM quota_audit()') problems"
	drop_databases credit
}

part_balance() {
	local entries
	need_database credit 10
	quietly sql -d credit -f $bench/credit.sql
	echo
	for ((entries = 1000; entries <= most_entries; entries *= 10)); do
		quietly sql -d credit -c "CALL credit_fill($entries)"
		quietly sql -d credit -c "VACUUM ANALYZE quota.ledger"
		fact "balance read into memory" "$entries entries" "$(sql -d credit -c 'CALL credit_load(21)')" ms
		quietly sql -d credit -c "CREATE TABLE kept AS TABLE quota.ledger_folds" -c "DELETE FROM quota.ledger_folds"
		fact "balance read into memory" "$entries entries, no running balances" \
			"$(sql -d credit -c "CALL credit_load($((entries > 100000 ? 1 : 5)))")" ms
		quietly sql -d credit -c "INSERT INTO quota.ledger_folds TABLE kept ON CONFLICT DO NOTHING" -c "DROP TABLE kept"
	done
	drop_databases credit
}

# $1 = how often, $2 = a query: the median of its times
median_ms() {
	sql -d statements -c "CALL credit_time($1, \$query\$ $2 \$query\$)"
}

# What became of the allowances of many tenants, each with 24 entries.
part_statements() {
	local sums="SELECT count(*), sum(closing) FROM quota.statement_periods"
	need_database statements "$many_tenants"
	quietly sql -d statements -f $bench/credit.sql
	quietly sql -d statements -c "CALL credit_tenants(8)"
	quietly sql -d statements -c "VACUUM ANALYZE"
	echo
	fact "statements of $many_tenants tenants" "periods of all" "$(median_ms 3 "$sums")" ms
	fact "statements of $many_tenants tenants" "periods of one" "$(median_ms 5 "$sums WHERE tenant = 'tenant 77'")" ms
	fact "statements of $many_tenants tenants" "entries of one" \
		"$(median_ms 5 "SELECT count(*), max(balance) FROM quota.statement WHERE tenant = 'tenant 77'")" ms
	fact "statements of $many_tenants tenants" "balance of one" "$(median_ms 21 "SELECT * FROM quota_balance('tenant 77', 'credit')")" ms
	drop_databases statements
}
