# credit.bash - holds and settlements of one account, and its balance; sourced by ../run.
# shellcheck shell=bash

# $1 clients
measure_hold_and_settle() {
	local clients=$1
	tps -T "$round_time" -f $bench/credit.pgbench credit
}
measure_row_balance() {
	local clients=$1
	tps -T "$round_time" -f $bench/credit_row.pgbench credit
}

# rows that are no more, but still there, before autovacuum comes by
dead_rows() {
	sql -d credit -c "SELECT pg_stat_force_next_flush()" >/dev/null
	sql -d credit -F ' ' -c "
		SELECT '    ' || relid::regclass, 'inserted ' || n_tup_ins, 'updated ' || n_tup_upd, 'deleted ' || n_tup_del, 'dead ' || n_dead_tup
		FROM pg_stat_user_tables WHERE relid = ANY ('{quota.ledger,quota.holds,quota.ledger_folds,row_account}'::regclass[]) ORDER BY relid::regclass::text"
}

part_credit() {
	local entries
	need_database credit 10
	quietly sql -d credit -f $bench/credit.sql
	echo
	echo "pairs of hold and settle/s on one account, $round_time s each, two durable commits a pair"
	compare "hold_and_settle 1" "row_balance 1" "hold_and_settle 8" "row_balance 8" "hold_and_settle 32" "row_balance 32"
	dead_rows
	echo "    audit: $(sql -d credit -c 'SELECT count(*) FROM quota_audit()') problems"
	drop_databases credit
}

part_balance() {
	local entries
	need_database credit 10
	quietly sql -d credit -f $bench/credit.sql
	echo
	echo "ms to read the balance of an account into memory: from running balances, and without them"
	for ((entries = 1000; entries <= most_entries; entries *= 10)); do
		quietly sql -d credit -c "CALL credit_fill($entries)"
		quietly sql -d credit -c "VACUUM ANALYZE quota.ledger"
		printf '%12d %10s' "$entries" "$(sql -d credit -c 'CALL credit_load(21)')"
		quietly sql -d credit -c "CREATE TABLE kept AS TABLE quota.ledger_folds" -c "DELETE FROM quota.ledger_folds"
		printf '%10s\n' "$(sql -d credit -c "CALL credit_load($((entries > 100000 ? 1 : 5)))")"
		quietly sql -d credit -c "INSERT INTO quota.ledger_folds TABLE kept ON CONFLICT DO NOTHING" -c "DROP TABLE kept"
	done
	drop_databases credit
}
