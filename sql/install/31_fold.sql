/* What the background worker derives from the ledger: running balances, and the end of each period. */

CREATE INDEX ledger_order ON quota.ledger (account, xid);
COMMENT ON INDEX quota.ledger_order IS 'Entries of an account in order.';

CREATE TABLE quota.ledger_folds (
	account uuid NOT NULL,
	upto xid8 NOT NULL,
	entries bigint NOT NULL,
	charged_at timestamptz NOT NULL,
	period_start timestamptz NOT NULL,
	period_end timestamptz NOT NULL,
	posted bigint NOT NULL,
	held bigint NOT NULL,
	given bigint NOT NULL,
	PRIMARY KEY (account, upto)
) USING heap;
CREATE INDEX ledger_folds_end ON quota.ledger_folds (period_end);

COMMENT ON TABLE quota.ledger_folds IS
'Running balances: what all entries of an account that transactions older than upto have written come to. Written by a background worker, about every 64 entries and at least once for each period with entries; rows are added, never changed. They make a balance known without reading what is older. Derived from quota.ledger and not dumped; without them entries are read.';
COMMENT ON INDEX quota.ledger_folds_end IS 'Which periods end.';
COMMENT ON COLUMN quota.ledger_folds.account IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_folds.upto IS 'Entries with an xid below it are in this row. None of those can be added any more.';
COMMENT ON COLUMN quota.ledger_folds.entries IS 'How many they are: the number of the last one.';
COMMENT ON COLUMN quota.ledger_folds.charged_at IS 'The latest charged_at of theirs.';
COMMENT ON COLUMN quota.ledger_folds.period_start IS 'Start of the period which that is in.';
COMMENT ON COLUMN quota.ledger_folds.period_end IS 'End of it.';
COMMENT ON COLUMN quota.ledger_folds.posted IS 'Units of that period that are used and not held: spent and adjusted, less what was granted and refunded.';
COMMENT ON COLUMN quota.ledger_folds.held IS 'Units of that period in open holds.';
COMMENT ON COLUMN quota.ledger_folds.given IS 'Units that entries without a permit gave in that period, less what they took: grants and adjustments.';

CREATE TABLE quota.ledger_accounts (
	account uuid PRIMARY KEY,
	provider text,
	limit_name text NOT NULL,
	tenant text
) USING heap;
CREATE INDEX ledger_accounts_tenant ON quota.ledger_accounts (tenant);

COMMENT ON TABLE quota.ledger_accounts IS
'Accounts that have a running balance: whose they are. Written by a background worker with the first one; rows are never changed. Derived from quota.ledger and not dumped.';
COMMENT ON INDEX quota.ledger_accounts_tenant IS 'Accounts of a tenant.';
COMMENT ON COLUMN quota.ledger_accounts.account IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_accounts.provider IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_accounts.limit_name IS 'Name of the limit in quota.limits.';
COMMENT ON COLUMN quota.ledger_accounts.tenant IS 'Whose allowance it is; NULL = tenants share it.';

CREATE SEQUENCE quota.ledger_folded;
COMMENT ON SEQUENCE quota.ledger_folded IS 'Up to which id a background worker has looked at the ledger.';

CREATE TABLE quota.ledger_periods (
	account uuid NOT NULL,
	period_start timestamptz NOT NULL,
	period_end timestamptz NOT NULL,
	provider text,
	limit_name text NOT NULL,
	tenant text,
	unit text NOT NULL,
	amount bigint,
	posted bigint NOT NULL,
	held bigint NOT NULL,
	given bigint NOT NULL,
	upto xid8,
	created_at timestamptz NOT NULL,
	expired bigint NOT NULL DEFAULT 0,
	PRIMARY KEY (account, period_start),
	CONSTRAINT ledger_periods_order CHECK (period_start OPERATOR(pg_catalog.<) period_end)
) USING heap;
CREATE INDEX ledger_periods_tenant ON quota.ledger_periods (tenant);

COMMENT ON TABLE quota.ledger_periods IS
'Roll-over: one row for each period of an account that had entries and is over. At its start amount went from granted to available, at its end what was left of it (amount - posted - held - expired) from available to lapsed; a debt ends, too. What is held stays so, and is settled in the period it was held in. Written by a background worker once no transaction is open that was when the period ended; no answer depends on it. A row is never changed but by that worker, when something was charged in the period after all, as the wall clock was set back: then it is counted again.';
COMMENT ON INDEX quota.ledger_periods_tenant IS 'Periods of a tenant.';
COMMENT ON COLUMN quota.ledger_periods.account IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_periods.period_start IS 'First instant of the period. Periods of an account do not overlap: after a change of its calendar the first one starts where the last one has ended.';
COMMENT ON COLUMN quota.ledger_periods.period_end IS 'First instant after it.';
COMMENT ON COLUMN quota.ledger_periods.provider IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_periods.limit_name IS 'Name of the limit in quota.limits.';
COMMENT ON COLUMN quota.ledger_periods.tenant IS 'Whose allowance it is; NULL = tenants share it.';
COMMENT ON COLUMN quota.ledger_periods.unit IS 'Unit of amount, posted and held.';
COMMENT ON COLUMN quota.ledger_periods.amount IS 'The allowance of the period, as it was configured when this row was written; NULL = there was none, or no such tenant any more.';
COMMENT ON COLUMN quota.ledger_periods.posted IS 'Units that were used in the period: spent and adjusted, less what was granted and refunded.';
COMMENT ON COLUMN quota.ledger_periods.held IS 'Units in holds that were open then.';
COMMENT ON COLUMN quota.ledger_periods.given IS 'Units that grants and adjustments gave in the period, less what they took; counted in posted, too.';
COMMENT ON COLUMN quota.ledger_periods.upto IS 'Entries with an xid below it are counted; those of the period that came later are not: what became of its holds since. NULL in a row that was restored.';
COMMENT ON COLUMN quota.ledger_periods.created_at IS 'When the row was written, or counted again.';
COMMENT ON COLUMN quota.ledger_periods.expired IS 'Units of grants that expired in the period and had not been spent.';

CREATE TRIGGER zz_quota_ledger_stamp BEFORE INSERT ON quota.ledger_periods
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_stamp();
CREATE TRIGGER ledger_final BEFORE UPDATE OR DELETE ON quota.ledger_periods
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_refuse();
CREATE TRIGGER ledger_final_truncate BEFORE TRUNCATE ON quota.ledger_periods
	FOR EACH STATEMENT EXECUTE FUNCTION quota.ledger_refuse();
ALTER TABLE quota.ledger_periods ENABLE ALWAYS TRIGGER zz_quota_ledger_stamp;
ALTER TABLE quota.ledger_periods ENABLE ALWAYS TRIGGER ledger_final;
ALTER TABLE quota.ledger_periods ENABLE ALWAYS TRIGGER ledger_final_truncate;
COMMENT ON TRIGGER zz_quota_ledger_stamp ON quota.ledger_periods IS 'Transactions mean nothing in another cluster.';
COMMENT ON TRIGGER ledger_final ON quota.ledger_periods IS 'Nobody but the background worker changes rows.';
COMMENT ON TRIGGER ledger_final_truncate ON quota.ledger_periods IS 'Rows are never removed.';

CREATE FUNCTION quota.account_grants(
	account uuid,
	period_start timestamptz,
	period_end timestamptz,
	upto xid8,
	OUT entry bigint,
	OUT expires_at timestamptz,
	OUT amount bigint,
	OUT unspent bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_account_grants'
LANGUAGE C STABLE PARALLEL UNSAFE ROWS 1;
COMMENT ON FUNCTION quota.account_grants(uuid, timestamptz, timestamptz, xid8) IS 'Internal: grants of an account in a period that expire, and what is left of each, or was when it expired, by the entries with an xid below upto; NULL = by all.';

CREATE TABLE quota.ledger_expired (
	entry bigint PRIMARY KEY,
	account uuid NOT NULL,
	period_start timestamptz NOT NULL,
	period_end timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	amount bigint NOT NULL,
	upto xid8,
	created_at timestamptz NOT NULL,
	xid xid8 NOT NULL,
	CONSTRAINT ledger_expired_amount CHECK (amount OPERATOR(pg_catalog.>=) 0)
) USING heap;

COMMENT ON TABLE quota.ledger_expired IS
'One row for each grant that has expired before the end of its period: its unspent units went from available to lapsed. Written by a background worker once no transaction is open that was when it expired; no answer depends on it. Rows are never changed. What calls of before change later is not in it: quota.account_grants says what all entries come to.';
COMMENT ON COLUMN quota.ledger_expired.entry IS 'The grant: id of its entry in quota.ledger.';
COMMENT ON COLUMN quota.ledger_expired.account IS 'As in quota.ledger.';
COMMENT ON COLUMN quota.ledger_expired.period_start IS 'First instant of the period that it was given in.';
COMMENT ON COLUMN quota.ledger_expired.period_end IS 'First instant after that.';
COMMENT ON COLUMN quota.ledger_expired.expires_at IS 'When it expired.';
COMMENT ON COLUMN quota.ledger_expired.amount IS 'Units of it that were not spent.';
COMMENT ON COLUMN quota.ledger_expired.upto IS 'Entries with an xid below it are counted. NULL in a row that was restored.';
COMMENT ON COLUMN quota.ledger_expired.created_at IS 'When the row was written.';
COMMENT ON COLUMN quota.ledger_expired.xid IS 'Transaction that wrote the row: its place among the entries of the account.';

CREATE TRIGGER zz_quota_ledger_stamp BEFORE INSERT ON quota.ledger_expired
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_stamp();
CREATE TRIGGER ledger_final BEFORE UPDATE OR DELETE ON quota.ledger_expired
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_refuse();
CREATE TRIGGER ledger_final_truncate BEFORE TRUNCATE ON quota.ledger_expired
	FOR EACH STATEMENT EXECUTE FUNCTION quota.ledger_refuse();
ALTER TABLE quota.ledger_expired ENABLE ALWAYS TRIGGER zz_quota_ledger_stamp;
ALTER TABLE quota.ledger_expired ENABLE ALWAYS TRIGGER ledger_final;
ALTER TABLE quota.ledger_expired ENABLE ALWAYS TRIGGER ledger_final_truncate;
COMMENT ON TRIGGER zz_quota_ledger_stamp ON quota.ledger_expired IS 'Transactions mean nothing in another cluster.';
COMMENT ON TRIGGER ledger_final ON quota.ledger_expired IS 'Rows are never changed.';
COMMENT ON TRIGGER ledger_final_truncate ON quota.ledger_expired IS 'Rows are never removed.';

SELECT pg_catalog.pg_extension_config_dump('quota.ledger_periods', '');
SELECT pg_catalog.pg_extension_config_dump('quota.ledger_expired', '');
