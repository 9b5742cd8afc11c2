/* Deciding one call: quota_acquire and what belongs to a permit. */

CREATE TYPE quota_decision AS (
	admitted boolean,
	granted integer,
	reason text,
	limit_name text,
	not_before timestamptz,
	remaining bigint,
	permit bigint,
	exhausted jsonb
);
COMMENT ON TYPE quota_decision IS
'Answer of quota_acquire. admitted: the call may be made. granted: calls admitted. reason: ok, soft_limit (admitted, beyond the soft limit limit_name), rate_limited, concurrency_limited, quota_exhausted (the credits of this period are spent, or held by calls that are not settled), suspended, exceeds_capacity (never). limit_name: the limit that opens last. not_before: when asking again can succeed at the latest, the latest of all limits that said no; for calls in flight and open holds the end of the oldest permit, which is mostly settled sooner; NULL when admitted, and when waiting does not help (exceeds_capacity, suspended, amount 0). remaining: further equal calls possible now; NULL = no limit. permit: to be settled after the call; NULL unless the call matched a concurrency or allowance limit or gave units. exhausted: every limit that said no, with name, unit, reason, needed, remaining, not_before.';

CREATE FUNCTION quota_acquire(
	tenant text,
	provider text,
	endpoint text DEFAULT NULL,
	n integer DEFAULT 1,
	units jsonb DEFAULT NULL,
	class text DEFAULT NULL,
	"user" text DEFAULT NULL,
	connection text DEFAULT NULL,
	resource text DEFAULT NULL,
	partial boolean DEFAULT false)
RETURNS quota_decision
AS 'MODULE_PATHNAME', 'quota_acquire'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_acquire(text, text, text, integer, jsonb, text, text, text, text, boolean) IS
'Decides whether n calls (1 to 1000000) of a tenant to a provider may be made now, and charges every matching limit or none. Never waits. units gives measured amounts by unit name, such as {"input_token": 1200}, instead of the cost map; a NULL class means event; partial grants as many of n as fit. What it takes counts against everybody at once and returns if the transaction or savepoint rolls back. It also counts, as one call at most, in the order of the tenant''s jobs of that class. Call it as SELECT * FROM quota_acquire(...): (quota_acquire(...)).* would call it once per column. Errors: 42704 tenant, provider or class does not exist; 22023 n or units out of range; 22004 NULL tenant, provider, n or partial; 55000 uncommitted configuration; 53400 a table is full; 25006 read-only.';

CREATE FUNCTION quota_peek(
	tenant text,
	provider text,
	endpoint text DEFAULT NULL,
	n integer DEFAULT 1,
	units jsonb DEFAULT NULL,
	class text DEFAULT NULL,
	"user" text DEFAULT NULL,
	connection text DEFAULT NULL,
	resource text DEFAULT NULL,
	partial boolean DEFAULT false)
RETURNS quota_decision
AS 'MODULE_PATHNAME', 'quota_peek'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_peek(text, text, text, integer, jsonb, text, text, text, text, boolean) IS
'What quota_acquire with the same arguments would answer now; charges nothing and counts nothing, and works in a READ ONLY transaction. Errors as quota_acquire; 25006 on a standby.';

CREATE FUNCTION quota_explain(
	tenant text,
	provider text,
	endpoint text DEFAULT NULL,
	n integer DEFAULT 1,
	units jsonb DEFAULT NULL,
	class text DEFAULT NULL,
	"user" text DEFAULT NULL,
	connection text DEFAULT NULL,
	resource text DEFAULT NULL,
	partial boolean DEFAULT false,
	OUT limit_name text,
	OUT kind text,
	OUT unit text,
	OUT bucket text,
	OUT needed bigint,
	OUT level bigint,
	OUT capacity bigint,
	OUT enforcement text,
	OUT admits boolean,
	OUT reason text,
	OUT not_before timestamptz,
	OUT explanation text)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_explain'
LANGUAGE C VOLATILE PARALLEL UNSAFE ROWS 5;
COMMENT ON FUNCTION quota_explain(text, text, text, integer, jsonb, text, text, text, text, boolean) IS
'One row for every limit that a call with these arguments matches: its bucket, its level, whether it would admit, and why. A limit that is soft or shadow always admits; reason and not_before say what it lets through: soft_limit, or why a shadow would refuse. Charges nothing. Limits from which the tenant is exempt, or without an amount, have no row. Errors as quota_peek.';

CREATE FUNCTION quota_settle(
	permit bigint,
	billed boolean DEFAULT true,
	units jsonb DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_settle'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_settle(bigint, boolean, jsonb) IS
'The call of this permit is over. Concurrency returns when the transaction commits; units replaces the estimates by true amounts, also of units that were not estimated (those of an allowance only if quota_acquire was given units): what is less returns at commit (of a rate what has not refilled meanwhile), what is more is charged at once, without asking, credits exactly and a rate as a debt of at most what the limit allows in one period, or its capacity if that is more; of what exceeds that nothing is charged; billed = false returns its credits, never its rate tokens: the provider counted the call. A NULL permit is that of a call with nothing to settle: nothing happens. units are per call of the permit. Errors: 55000 the permit is not open; 55P03 another transaction settles it; 22004 NULL billed; 22023 malformed units.';

CREATE FUNCTION quota_release(permit bigint)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_release'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_release(bigint) IS
'The call of this permit was never sent: everything returns when the transaction commits, rate tokens too (less what has refilled since). A NULL permit: nothing happens. Errors as quota_settle.';

CREATE FUNCTION quota_extend(permit bigint, by interval)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'quota_extend'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_extend(bigint, interval) IS
'Moves the end of an open permit to now + by, never earlier than it was; at most the permit''s lifetime at once. Returns the new end. Errors: 55000 the permit is not open; 55P03 another transaction settles it; 22023 by out of range.';
