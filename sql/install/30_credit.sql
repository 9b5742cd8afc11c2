/*
 * Credits: the ledger of allowances, open holds, and what works on them by hand.
 *
 * DOUBLE ENTRY
 *
 * Every account has three sides: what is available, what open holds hold, and
 * everything else: what was spent, granted, adjusted.  An entry moves units between
 * sides of its account and names all of it in one row: the available side loses
 * amount, the held side gains held, and the other side gains amount - held.  So
 * each entry sums to zero, and so does the ledger.  The kind says what the other
 * side is, and quota.ledger_entry_moves() which moves a kind may make.
 */

CREATE FUNCTION quota.ledger_entry_moves(kind text, amount bigint, held bigint)
RETURNS boolean
LANGUAGE SQL IMMUTABLE PARALLEL SAFE
AS $$
	SELECT CASE
		WHEN kind OPERATOR(pg_catalog.=) 'hold'
			THEN amount OPERATOR(pg_catalog.>=) 0 AND held OPERATOR(pg_catalog.=) amount
		WHEN kind OPERATOR(pg_catalog.=) 'release'
			THEN amount OPERATOR(pg_catalog.<=) 0 AND held OPERATOR(pg_catalog.=) amount
		WHEN kind OPERATOR(pg_catalog.=) ANY (ARRAY['settle', 'expire'])
			THEN held OPERATOR(pg_catalog.<=) 0 AND amount OPERATOR(pg_catalog.>=) held
		WHEN kind OPERATOR(pg_catalog.=) ANY (ARRAY['refund', 'grant'])
			THEN amount OPERATOR(pg_catalog.<) 0 AND held OPERATOR(pg_catalog.=) 0
		ELSE held OPERATOR(pg_catalog.=) 0 END
$$;
COMMENT ON FUNCTION quota.ledger_entry_moves(text, bigint, bigint) IS 'Internal: whether an entry of this kind may change what is used by amount and what is held by held.';

CREATE TABLE quota.ledger (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	account uuid NOT NULL,
	provider text,
	limit_name text NOT NULL,
	tenant text,
	unit text NOT NULL,
	kind text NOT NULL,
	amount bigint NOT NULL,
	permit bigint,
	job bigint,
	charged_at timestamptz NOT NULL,
	created_at timestamptz NOT NULL,
	reason text,
	held bigint NOT NULL DEFAULT 0,
	xid xid8 NOT NULL,
	calls integer,
	period_start timestamptz,
	allowance bigint,
	expires_at timestamptz,
	CONSTRAINT ledger_kind_word CHECK (kind OPERATOR(pg_catalog.=) ANY
		(ARRAY['hold', 'release', 'settle', 'refund', 'expire', 'late', 'grant', 'adjust'])),
	CONSTRAINT ledger_moves CHECK (quota.ledger_entry_moves(kind, amount, held)),
	CONSTRAINT ledger_permit_presence CHECK (permit IS NOT NULL OR
		kind OPERATOR(pg_catalog.=) ANY (ARRAY['grant', 'adjust'])),
	CONSTRAINT ledger_expires_later CHECK (expires_at IS NULL OR
		(kind OPERATOR(pg_catalog.=) 'grant' AND expires_at OPERATOR(pg_catalog.>) charged_at))
) USING heap;
CREATE INDEX ledger_account ON quota.ledger (account, charged_at) INCLUDE (amount);
CREATE INDEX ledger_permit ON quota.ledger (permit) WHERE permit IS NOT NULL;
CREATE INDEX ledger_expiring ON quota.ledger (account, charged_at) WHERE expires_at IS NOT NULL;
CREATE INDEX ledger_expires ON quota.ledger (expires_at) WHERE expires_at IS NOT NULL;

COMMENT ON TABLE quota.ledger IS
'Every credit spent or given, one entry each; entries are never changed. What an allowance has used is the sum of amount over the entries of its account charged in the current period. Written by quota_acquire, quota_dequeue, quota_settle, quota_grant and the like; direct INSERT is for restoring a dump.';
COMMENT ON INDEX quota.ledger_account IS 'What an account has used in a period.';
COMMENT ON SEQUENCE quota.ledger_id_seq IS 'Numbers of entries.';
COMMENT ON INDEX quota.ledger_permit IS 'Entries of one permit.';
COMMENT ON INDEX quota.ledger_expiring IS 'Grants of an account that expire.';
COMMENT ON INDEX quota.ledger_expires IS 'Which grants expire next.';
COMMENT ON COLUMN quota.ledger.id IS 'Number of the entry, in order of writing.';
COMMENT ON COLUMN quota.ledger.account IS 'Identity of the allowance: hash of provider, limit and what the limit is counted per.';
COMMENT ON COLUMN quota.ledger.provider IS 'Provider of the limit; NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.ledger.limit_name IS 'Name of the limit in quota.limits.';
COMMENT ON COLUMN quota.ledger.tenant IS 'Whose call it was, also where tenants share the allowance; NULL for entries by hand that name no tenant.';
COMMENT ON COLUMN quota.ledger.unit IS 'Unit of amount.';
COMMENT ON COLUMN quota.ledger.kind IS 'What the entry moves. hold: the estimate of an admitted call, or of several, from available to held. release: those of them that were never made, while others of the permit go on, from held to available. settle: all that was held (reason "not billed" when it all comes back), what the call used to spent and the rest to available; what it used beyond the hold from available to spent. expire: the same for a call that nobody settled in time. late: what such a call used, as it was settled all the same, less what it stayed charged when it expired; between available and spent. refund: given back after settling, from spent to available. grant: from granted to available. adjust: from available to adjusted, or back.';
COMMENT ON COLUMN quota.ledger.amount IS 'Units by which what is used of the allowance changes, holds included; positive = less is available, negative = more. Of settle and expire: what was used less what was held, 0 when the estimate was right.';
COMMENT ON COLUMN quota.ledger.held IS 'Units by which what open holds hold changes. The side that is neither available nor held gains amount - held, so every entry sums to zero.';
COMMENT ON COLUMN quota.ledger.xid IS 'Transaction that wrote the entry. Entries of an account are in order by xid, then id: final for those whose transaction is older than all that are open, as no more can come before them. Entries that are restored have that of the restore.';
COMMENT ON COLUMN quota.ledger.calls IS 'Of settle and expire: the calls that the hold was for then; units given when settling are of one.';
COMMENT ON COLUMN quota.ledger.period_start IS 'Of hold: start of the period it was decided in.';
COMMENT ON COLUMN quota.ledger.allowance IS 'Of hold: amount of the allowance when it was admitted, so what the holds of a period come to, less what was given back and granted, never exceeds the greatest of these. NULL: the limit was soft and admitted it whatever was left.';
COMMENT ON COLUMN quota.ledger.expires_at IS 'Of a grant: what is not spent of it by then is gone, see quota_grant; NULL = it ends with the period.';
COMMENT ON COLUMN quota.ledger.permit IS 'Permit of the call; all its entries have the same.';
COMMENT ON COLUMN quota.ledger.job IS 'Job the call was made for.';
COMMENT ON COLUMN quota.ledger.charged_at IS 'Decides the period the entry counts in: the one that contains this instant by the limit''s calendar. Entries that refer to a hold have that of the hold.';
COMMENT ON COLUMN quota.ledger.created_at IS 'When the entry was written; of a release, when the hold was.';
COMMENT ON COLUMN quota.ledger.reason IS 'Free text of who wrote it; of quota itself "not billed".';

CREATE TABLE quota.holds (
	permit bigint PRIMARY KEY,
	tenant text NOT NULL,
	provider text NOT NULL,
	job bigint,
	calls integer NOT NULL,
	created_at timestamptz NOT NULL,
	expires_at timestamptz NOT NULL,
	refund boolean NOT NULL DEFAULT false
) USING heap WITH (
	autovacuum_vacuum_scale_factor = 0,
	autovacuum_vacuum_threshold = 5000,
	autovacuum_analyze_scale_factor = 0,
	autovacuum_analyze_threshold = 50000,
	autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX holds_expires ON quota.holds (expires_at);
CREATE INDEX holds_refund ON quota.holds (expires_at) WHERE refund;

COMMENT ON TABLE quota.holds IS
'Open holds: admitted calls whose credits are charged by estimate and not settled yet. What each holds of which allowance are its entries of kind hold and release in quota.ledger.';
COMMENT ON INDEX quota.holds_expires IS 'Holds that nobody settled in time.';
COMMENT ON INDEX quota.holds_refund IS 'Those of them whose credits return.';
COMMENT ON COLUMN quota.holds.permit IS 'Permit of the call; a hold id is a permit id.';
COMMENT ON COLUMN quota.holds.tenant IS 'Whose call.';
COMMENT ON COLUMN quota.holds.provider IS 'Provider called.';
COMMENT ON COLUMN quota.holds.job IS 'Job the call is made for.';
COMMENT ON COLUMN quota.holds.calls IS 'Calls admitted together, less those given back; units given when settling are of one call.';
COMMENT ON COLUMN quota.holds.created_at IS 'When it was admitted; as in its entries.';
COMMENT ON COLUMN quota.holds.expires_at IS 'When it counts as lost unless its permit was extended; a clock that follows the wall clock but is never set. That is a matter of the clock alone: from then on it cannot be settled, and its credits have returned or stay spent, whether a background worker has written so yet or not.';
COMMENT ON COLUMN quota.holds.refund IS 'Its credits return if it is lost; else they stay spent. As lost_permit of the provider said when it was admitted.';

/* ---- entries are final ---- */

CREATE FUNCTION quota.ledger_refuse() RETURNS trigger
AS 'MODULE_PATHNAME', 'quota_ledger_refuse'
LANGUAGE C;
COMMENT ON FUNCTION quota.ledger_refuse() IS 'Internal: refuses changes of entries.';
REVOKE ALL ON FUNCTION quota.ledger_refuse() FROM PUBLIC;

CREATE FUNCTION quota.ledger_restored() RETURNS trigger
AS 'MODULE_PATHNAME', 'quota_ledger_restored'
LANGUAGE C;
COMMENT ON FUNCTION quota.ledger_restored() IS 'Internal: refuses direct inserts for an account whose balance is kept in shared memory already.';
REVOKE ALL ON FUNCTION quota.ledger_restored() FROM PUBLIC;

CREATE FUNCTION quota.ledger_stamp() RETURNS trigger
AS 'MODULE_PATHNAME', 'quota_ledger_stamp'
LANGUAGE C;
COMMENT ON FUNCTION quota.ledger_stamp() IS 'Internal: gives entries that are inserted directly the transaction that does it.';
REVOKE ALL ON FUNCTION quota.ledger_stamp() FROM PUBLIC;

CREATE TRIGGER zz_quota_ledger_stamp BEFORE INSERT ON quota.ledger
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_stamp();
CREATE TRIGGER ledger_final BEFORE UPDATE OR DELETE ON quota.ledger
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_refuse();
CREATE TRIGGER ledger_final_truncate BEFORE TRUNCATE ON quota.ledger
	FOR EACH STATEMENT EXECUTE FUNCTION quota.ledger_refuse();
CREATE TRIGGER ledger_restored AFTER INSERT ON quota.ledger
	FOR EACH ROW EXECUTE FUNCTION quota.ledger_restored();
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER zz_quota_ledger_stamp;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_final_truncate;
ALTER TABLE quota.ledger ENABLE ALWAYS TRIGGER ledger_restored;
COMMENT ON TRIGGER zz_quota_ledger_stamp ON quota.ledger IS 'Entries bear the transaction that inserted them.';
COMMENT ON TRIGGER ledger_final ON quota.ledger IS 'Entries are never changed.';
COMMENT ON TRIGGER ledger_final_truncate ON quota.ledger IS 'Entries are never removed.';
COMMENT ON TRIGGER ledger_restored ON quota.ledger IS 'Direct inserts are for restoring a dump.';

/* ---- by hand ---- */

CREATE FUNCTION quota_grant(
	tenant text,
	provider text,
	name text,
	amount bigint,
	reason text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	key text DEFAULT NULL,
	expires_at timestamptz DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_grant'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_grant(text, text, text, bigint, text, text, text, timestamptz) IS
'Gives an allowance more units for its current period; others can spend them once this transaction has committed. expires_at: what is not spent of them by then is gone, by the clock alone; NULL = they end with the period, and it can be no later than that. From the instant of the grant calls and positive adjustments spend of grants before the allowance, of the one first that expires soonest. What a call uses counts at the instant it was admitted: what it holds when a grant expires stays good, and what it gives back later is gone as far as it was spent of that grant. What was used before, debts included, is not paid by it. tenant NULL names an allowance that tenants share, provider NULL a limit across providers or of an account, endpoint is needed if the limit is of certain endpoints. key (1 to 1024 bytes) makes it idempotent for its tenant and provider: once it has committed, the same call with the same key does nothing, see quota.keys. Errors: 42704 no such allowance; 22023 amount below 1, or key out of range; 23505 the key was used for other arguments, which DETAIL names; 55P03 it is in use by an open transaction; 22003 the period would be given more than 4e18 units; 22023 expires_at is not in the future or later than the end of the period; 53400 the account has had 64 grants that expire in its period, or no more fit in memory.';
REVOKE ALL ON FUNCTION quota_grant(text, text, text, bigint, text, text, text, timestamptz) FROM PUBLIC;

CREATE FUNCTION quota_adjust(
	tenant text,
	provider text,
	name text,
	amount bigint,
	reason text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	key text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_adjust'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_adjust(text, text, text, bigint, text, text, text) IS
'Corrects what an allowance has used in its current period: a positive amount spends at once, whatever is left, a negative one gives back at commit. Other arguments and errors as of quota_grant.';
REVOKE ALL ON FUNCTION quota_adjust(text, text, text, bigint, text, text, text) FROM PUBLIC;

CREATE FUNCTION quota_refund(
	permit bigint,
	amount bigint DEFAULT NULL,
	reason text DEFAULT NULL,
	unit text DEFAULT NULL,
	key text DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_refund'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_refund(bigint, bigint, text, text, text) IS
'Gives back units that a settled permit spent, to every allowance it spent them of and in the period they were spent in; amount NULL = all that is left. unit is needed with an amount when the permit spent several units. All refunds of a permit together never exceed what it spent. key makes it idempotent for the tenant and provider of the permit, as that of quota_grant does. Errors: 23505, 55P03 of the key; 55000 the permit is not settled; 55P03 another transaction settles or refunds it; 42704 it spent no credits, or none of that unit; 22023 amount too large.';
REVOKE ALL ON FUNCTION quota_refund(bigint, bigint, text, text, text) FROM PUBLIC;

CREATE FUNCTION quota_hold(
	tenant text,
	provider text,
	unit text,
	amount bigint,
	lifetime interval DEFAULT NULL,
	endpoint text DEFAULT NULL,
	key text DEFAULT NULL)
RETURNS quota_decision
AS 'MODULE_PATHNAME', 'quota_hold'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_hold(text, text, text, bigint, interval, text, text) IS
'Sets units aside from the allowances of that unit, and asks no other limit; the answer and the permit are those of quota_acquire: settle or release it with quota_settle or quota_release. lifetime NULL = the permit lifetime of the limits; amount at most 1e9. key as of quota_acquire. Errors: 42704 no allowance of that unit applies; otherwise as quota_acquire.';

CREATE FUNCTION quota_balance(
	tenant text,
	provider text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	OUT limit_provider text,
	OUT limit_name text,
	OUT unit text,
	OUT amount bigint,
	OUT used bigint,
	OUT posted bigint,
	OUT held bigint,
	OUT remaining bigint,
	OUT period_start timestamptz,
	OUT period_end timestamptz,
	OUT expiring bigint,
	OUT expires_at timestamptz)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_balance'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 5;
COMMENT ON FUNCTION quota_balance(text, text, text) IS
'The allowances that calls of a tenant meet, at one provider or (NULL) at all: amount per period, used (holds and what open transactions took included, less what was granted and has not expired unspent), posted (amount less what was settled, plus what was granted and has not expired), held (by open holds; after a crash those included that have expired and stay spent, until a background worker has written so), remaining = posted - held (negative = debt), the current period, and of the grants that expire next: how many units of them are unspent and when they go (0 and NULL: there are none). tenant NULL shows those that tenants share. limit_provider is NULL for a limit across providers or of an account.';

SELECT pg_catalog.pg_extension_config_dump('quota.ledger', '');
SELECT pg_catalog.pg_extension_config_dump('quota.ledger_id_seq', '');
SELECT pg_catalog.pg_extension_config_dump('quota.holds', '');
