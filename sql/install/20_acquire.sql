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
'Answer of quota_acquire. admitted: the call may be made. granted: calls admitted. reason: ok, soft_limit (admitted, beyond the soft limit limit_name), rate_limited, concurrency_limited, quota_exhausted (the credits of this period are spent, or held by calls that are not settled), share_exceeded (the call is beyond its tenant''s share of the limit, and others want theirs; not_before is when it is admitted if nobody else asks), class_reserved (what is left is the headroom of other classes), retry_budget (too many calls are retries, see quota.providers.retry_share; not_before is when it is in the budget if nobody calls meanwhile, NULL if only first attempts can bring that about), breaker_open (too many calls have failed, see quota.breakers; not_before is when probes may go, NULL for more calls than there are probes), paused (by quota_pause, or because the provider''s answer asked for it), suspended, exceeds_capacity (never). limit_name: the limit that opens last; when paused what is paused, in words. not_before: when asking again can succeed at the latest, the latest of all limits that said no; for calls in flight when enough of the oldest permits have ended, for open holds the end of the oldest one, which are mostly settled sooner; NULL when admitted, and when waiting does not help (exceeds_capacity, suspended, amount 0, a pause without end); of a pause its end, or when the buckets that begin empty then have room. The first call that a rate refuses is told the very instant; those that are refused before it admits again, or that instant has come, each one calls refill later than the one before, up to one refill of the capacity (or of the calls cost when that is more) and then anew, so that not all come at once; exhausted, and what peek and explain say, is exact. remaining: further equal calls possible now; NULL = no limit. permit: to be settled after the call; NULL unless the call met a concurrency limit, drew on an allowance or gave units. exhausted: every pause and limit that said no, pauses first (the last eight to end), with name, unit, reason, needed, remaining, not_before, amount and window: the seconds, rounded up, in which the amount may be used up (a month of a rate counts 30 days); null for calls in flight. Of a pause only name (what is paused), reason and not_before are given.';

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
	attempt integer DEFAULT 1,
	partial boolean DEFAULT false,
	key text DEFAULT NULL)
RETURNS quota_decision
AS 'MODULE_PATHNAME', 'quota_acquire'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_acquire(text, text, text, integer, jsonb, text, text, text, text, integer, boolean, text) IS
'Decides whether n calls (1 to 1000000) of a tenant to a provider may be made now, and charges every matching limit or none. Never waits. units gives measured amounts by unit name, such as {"input_token": 1200}, instead of the cost map; a NULL class means event; attempt above 1 says that it is a retry, which a retry budget (quota.providers.retry_share) may refuse while first attempts go on; in everything else it is a call like any. partial grants as many of n as fit. What it takes counts against everybody at once and returns if the transaction or savepoint rolls back. It also counts, as one call at most, in the order of the tenant''s jobs of that class. Call it as SELECT * FROM quota_acquire(...): (quota_acquire(...)).* would call it once per column. key (1 to 1024 bytes) makes the call idempotent for its tenant and provider: once it was admitted and has committed, the same call with the same key gets the same answer and is charged no more, see quota.keys; a refusal is not kept. Errors: 42704 tenant, provider or class does not exist; 22023 n, attempt, units or key out of range; 23505 the key was used for other arguments, which DETAIL names; 55P03 it is in use by an open transaction; 22004 NULL tenant, provider, n, attempt or partial; 55000 uncommitted configuration; 53400 a table is full; 25006 read-only.';

CREATE PROCEDURE quota_acquire_wait(
	tenant text,
	provider text,
	endpoint text DEFAULT NULL,
	n integer DEFAULT 1,
	units jsonb DEFAULT NULL,
	class text DEFAULT NULL,
	"user" text DEFAULT NULL,
	connection text DEFAULT NULL,
	resource text DEFAULT NULL,
	attempt integer DEFAULT 1,
	partial boolean DEFAULT false,
	key text DEFAULT NULL,
	timeout interval DEFAULT '1 minute',
	INOUT decision quota_decision DEFAULT NULL)
AS 'MODULE_PATHNAME', 'quota_acquire_wait'
LANGUAGE C;
COMMENT ON PROCEDURE quota_acquire_wait(text, text, text, integer, jsonb, text, text, text, text, integer, boolean, text, interval, quota_decision) IS
'quota_acquire that waits while the answer is no: CALL quota_acquire_wait(''acme'', ''crm'', timeout => ''5 s''). Asks again when the limit that opens last opens, and at once when something comes back to it or the configuration changes; answers with the refusal when the timeout (real time, above 0, at most 366 days) is over, and at once when waiting that long cannot help: a limit opens later, unless calls in flight or open holds end, or never. Of sessions of a tenant that wait for one bucket the first asks first; while one waits the tenant keeps its claim to its share of that, so others leave it what it waits for. What it took is committed when it returns. While it waits the session holds no snapshot and no lock, and can be cancelled at any moment. What is passed for decision does not matter. 25001 inside a transaction block or function: call it outside. Other errors as quota_acquire.';

/* What was done under a key. */
CREATE TABLE quota.keys (
	operation text NOT NULL,
	tenant text NOT NULL,
	provider text NOT NULL,
	key text NOT NULL,
	arguments jsonb NOT NULL,
	granted integer,
	reason text,
	limit_name text,
	remaining bigint,
	permit bigint,
	exhausted jsonb,
	created_at timestamptz NOT NULL,
	PRIMARY KEY (operation, tenant, provider, key)
) USING heap;
CREATE INDEX keys_created ON quota.keys (created_at);
COMMENT ON TABLE quota.keys IS 'Calls of quota_acquire, quota_hold, quota_grant, quota_adjust and quota_refund that were done with a key, and what they answered. A key is kept for quota.job_retention, and as long as its permit is open; then a background worker deletes the row, and the key may be used anew. Deleting a row does the same.';
COMMENT ON INDEX quota.keys_created IS 'Oldest first, to be deleted.';
COMMENT ON COLUMN quota.keys.operation IS 'acquire, hold, grant, adjust or refund.';
COMMENT ON COLUMN quota.keys.tenant IS 'The tenant; empty = none was named.';
COMMENT ON COLUMN quota.keys.provider IS 'The provider; empty = none was named.';
COMMENT ON COLUMN quota.keys.key IS 'The key; another operation, tenant or provider may use the same.';
COMMENT ON COLUMN quota.keys.arguments IS 'The other arguments, without those that were NULL and without attempt, which may differ.';
COMMENT ON COLUMN quota.keys.granted IS 'The answer, as in quota_decision; so are the next columns. NULL of operations that answer nothing.';
COMMENT ON COLUMN quota.keys.reason IS 'See granted.';
COMMENT ON COLUMN quota.keys.limit_name IS 'See granted.';
COMMENT ON COLUMN quota.keys.remaining IS 'See granted.';
COMMENT ON COLUMN quota.keys.permit IS 'See granted.';
COMMENT ON COLUMN quota.keys.exhausted IS 'See granted.';
COMMENT ON COLUMN quota.keys.created_at IS 'When it was done.';
REVOKE ALL ON quota.keys FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('quota.keys', '');

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
	attempt integer DEFAULT 1,
	partial boolean DEFAULT false)
RETURNS quota_decision
AS 'MODULE_PATHNAME', 'quota_peek'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_peek(text, text, text, integer, jsonb, text, text, text, text, integer, boolean) IS
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
	attempt integer DEFAULT 1,
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
COMMENT ON FUNCTION quota_explain(text, text, text, integer, jsonb, text, text, text, text, integer, boolean) IS
'One row for every limit that a call with these arguments matches: its bucket, its level, whether it would admit, and why. A limit that is soft or shadow always admits; reason and not_before say what it lets through: soft_limit, or why a shadow would refuse. Charges nothing. Pauses come first, with what is paused in limit_name, and since when, until when, why and by whom in explanation. Limits from which the tenant is exempt, or without an amount, have no row. Errors as quota_peek.';

CREATE FUNCTION quota_settle(
	permit bigint,
	billed boolean DEFAULT true,
	units jsonb DEFAULT NULL,
	status integer DEFAULT NULL,
	headers jsonb DEFAULT NULL,
	latency interval DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_settle'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_settle(bigint, boolean, jsonb, integer, jsonb, interval) IS
'The call of this permit is over. Concurrency returns when the transaction commits; units replaces the estimates by true amounts, also of units that were not estimated (those of an allowance only if quota_acquire was given units): what is less returns at commit (of a rate what has not refilled meanwhile), what is more is charged at once, without asking, credits exactly, unless their limit says otherwise (quota.limits.settle_over), and a rate as a debt of at most what the limit allows in one period, or its capacity if that is more; of what exceeds that nothing is charged; billed = false returns its credits, never its rate tokens: the provider counted the call. A NULL permit is that of a call with nothing to settle: nothing happens. units are per call of the permit. status, headers and latency say what the provider answered, as in quota_report, for the permit''s tenant, provider and endpoint, and for the limits that it was charged by, those of its user, connection, resource and class too (of one without a permit, or restored after a crash, nothing is known: use quota_report); that acts at once and is not undone by a rollback, and what goes wrong with it is a warning. Settling a call of which credits were held again, or releasing it, changes nothing if it comes to the same credits as before. Errors: 55000 the permit is not open, or was settled for other credits, or has expired and a limit does not charge it late (quota.limits.settle_late); 22023 a limit refuses more than was held; 55P03 another transaction settles it; 22004 NULL billed; 22023 malformed units, latency out of range.';

CREATE FUNCTION quota_release(permit bigint, n integer DEFAULT NULL)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_release'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_release(bigint, integer) IS
'n of the calls of this permit, or all of them when n is NULL, were never made: when the transaction commits everything they took returns, concurrency, credits and rate tokens (less what has refilled since). The permit stays open for the calls that are left and may be released again, settled (units are per call that is left) or extended. A NULL permit: nothing happens. Errors as quota_settle, while another transaction gives back calls of the permit too; 55000 with n of a permit with credits whose lifetime is over, whatever settle_late says; 22023 n below 1 or above the calls that are left, which DETAIL tells.';

CREATE FUNCTION quota_extend(permit bigint, by interval)
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'quota_extend'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_extend(bigint, interval) IS
'Moves the end of an open permit to now + by, never earlier than it was; at most the permit''s lifetime at once. Returns the new end. Errors: 55000 the permit is not open; 55P03 another transaction settles it or gives back calls of it; 22023 by out of range.';

CREATE FUNCTION quota_headers(decision quota_decision)
RETURNS jsonb
LANGUAGE sql VOLATILE PARALLEL SAFE
BEGIN ATOMIC
	WITH said_no AS (
		SELECT DISTINCT ON (id)
			pg_catalog.concat('"', pg_catalog.regexp_replace(
				pg_catalog.regexp_replace(e.name, '[^\x20-\x7e]', '?', 'g'),
				'(["\\])', '\\\1', 'g'), '"') AS id,
			CASE WHEN e."window" IS NULL THEN ';qu="concurrent-requests"'
				WHEN e.unit OPERATOR(pg_catalog.<>) 'request'
					THEN pg_catalog.concat(';qu="', pg_catalog.regexp_replace(
						pg_catalog.regexp_replace(e.unit, '[^\x20-\x7e]', '?', 'g'),
						'(["\\])', '\\\1', 'g'), '"') END AS qu,
			LEAST(e.amount, 999999999999999) AS q,
			e."window" AS w,
			LEAST(GREATEST(e.remaining, 0), 999999999999999) AS r,
			CASE WHEN e.not_before IS NOT NULL THEN
				GREATEST(pg_catalog.ceil(EXTRACT(epoch FROM
					e.not_before OPERATOR(pg_catalog.-) quota_clock())), 0) END AS t
		FROM pg_catalog.jsonb_to_recordset(decision.exhausted) AS
			e (name text, unit text, amount bigint, "window" bigint,
				remaining bigint, not_before timestamptz)
		WHERE e.amount IS NOT NULL
		ORDER BY id, t DESC NULLS FIRST)
	SELECT pg_catalog.jsonb_strip_nulls(pg_catalog.jsonb_build_object(
		'Retry-After', CASE WHEN NOT decision.admitted AND decision.not_before IS NOT NULL
			THEN (GREATEST(pg_catalog.ceil(EXTRACT(epoch FROM
				decision.not_before OPERATOR(pg_catalog.-) quota_clock())),
				pg_catalog.max(t), 0))::text END,
		'RateLimit', COALESCE(
			pg_catalog.string_agg(pg_catalog.concat(id, ';r=', r, ';t=' OPERATOR(pg_catalog.||) t::text),
				', ' ORDER BY id),
			'"calls";r=' OPERATOR(pg_catalog.||) CASE WHEN decision.remaining IS NOT NULL
				THEN LEAST(decision.remaining, 999999999999999) END::text),
		'RateLimit-Policy', pg_catalog.string_agg(
			pg_catalog.concat(id, ';q=', q, qu, ';w=' OPERATOR(pg_catalog.||) w::text),
			', ' ORDER BY id)))
	FROM said_no;
END;
COMMENT ON FUNCTION quota_headers(quota_decision) IS
'HTTP response fields for a decision, as an object of strings by field name: Retry-After when asking again helps (whole seconds, rounded up, at least every t), RateLimit-Policy and RateLimit of draft-ietf-httpapi-ratelimit-headers-10. Of a refusal each limit in exhausted is an item: q units per window of w seconds, qu the unit unless request, r units left, t seconds (rounded up) until it has room at the latest, none when it never has. Of an admitted call, and of one that no limit refuses (a pause, a suspended tenant): an item "calls" with r further equal calls; nothing when no limit applies. In names any character but printable ASCII becomes "?"; of limits with one name the one that opens last is told. Times count from now by the clock of quota, so call it when the answer is sent: SELECT admitted, quota_headers(d) FROM quota_acquire(...) d.';
