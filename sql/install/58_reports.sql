/* Answers of providers: reporting them, and what was seen. */

CREATE FUNCTION quota_report(
	provider text,
	status integer DEFAULT NULL,
	tenant text DEFAULT NULL,
	endpoint text DEFAULT NULL,
	headers jsonb DEFAULT NULL,
	latency interval DEFAULT NULL,
	reason text DEFAULT NULL,
	class text DEFAULT NULL,
	"user" text DEFAULT NULL,
	connection text DEFAULT NULL,
	resource text DEFAULT NULL,
	attempt integer DEFAULT 1)
RETURNS text
AS 'MODULE_PATHNAME', 'quota_report'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_report(text, integer, text, text, jsonb, interval, text, text, text, text, text, integer) IS
'Tells what a provider answered to a call. Returns what kind of answer it is, by quota.answers: success, rejected, rate_limited, exhausted, overloaded, failure or unknown. It acts at once and for all sessions, also when the transaction rolls back. A call that the transaction made itself, of this provider and all names given, went out then: a rollback does not return its rate tokens (of calls that agree, one for each report, those without a permit first; n calls that were asked for together are one). rate_limited pauses whom it concerns (scope of quota.answers, else the tenant''s calls to the endpoint) for as long as it says, by Retry-After or when what has nothing left is reset, else for the provider''s cooldown; exhausted the account for as long as it says, else until quota_resume; overloaded the endpoint, or the provider of a call without one, if it says how long; see quota.pauses. What headers say is left of the provider''s own limits (external, of a rate) lowers their buckets and never raises them; of one limit only if the tenant (and the user, connection, resource or class that the limit is kept by) is named. status: the HTTP status, 0 = no answer came, NULL = not known; other numbers mean nothing. headers: an object of names, in any case, and values or arrays of values, to which entries of your own may be added, such as the error code of the body; what is not understood is ignored and counted in quota.stat_answers. reason: what went wrong, in words or codes. latency: how long the call took, 0 to 366 days. attempt: 1 = not a retry. Errors: 42704 provider or tenant does not exist; 22004 NULL provider or attempt; 22023 attempt, latency or the length of a name out of range; 25006 read-only.';

CREATE TABLE quota.feedback (
	id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	at timestamptz NOT NULL,
	provider text NOT NULL,
	tenant text,
	endpoint text,
	outcome text NOT NULL,
	scope text NOT NULL,
	status integer,
	reason text,
	retry_after interval,
	headers jsonb NOT NULL,
	in_flight bigint,
	level bigint,
	attempt integer,
	latency interval
) USING heap;
COMMENT ON TABLE quota.feedback IS
'Answers of providers, all but successes, kept as long as finished jobs (quota.job_retention) and at most 100000 rows. Written by a background worker soon after they were reported, also when the reporting transaction rolled back; a crash loses those of the last moment. When they come faster than they can be written an event answers_lost tells how many are missing.';
COMMENT ON SEQUENCE quota.feedback_id_seq IS 'Numbers of answers.';
COMMENT ON COLUMN quota.feedback.id IS 'Order in which answers were written.';
COMMENT ON COLUMN quota.feedback.at IS 'When it was reported.';
COMMENT ON COLUMN quota.feedback.provider IS 'The provider.';
COMMENT ON COLUMN quota.feedback.tenant IS 'Whose call it was, if that was said.';
COMMENT ON COLUMN quota.feedback.endpoint IS 'The endpoint of the call, if it had one.';
COMMENT ON COLUMN quota.feedback.outcome IS 'rejected, rate_limited, exhausted, overloaded, failure or unknown: see quota.answers.';
COMMENT ON COLUMN quota.feedback.scope IS 'Whom it concerns: call (nobody else), limit, tenant_endpoint, connection, tenant, endpoint, provider or account.';
COMMENT ON COLUMN quota.feedback.status IS 'HTTP status; 0 = no answer came; NULL = not said.';
COMMENT ON COLUMN quota.feedback.reason IS 'The reason that headers or the caller gave, the first 127 bytes.';
COMMENT ON COLUMN quota.feedback.retry_after IS 'How long it asked to wait; NULL = it did not say.';
COMMENT ON COLUMN quota.feedback.headers IS 'The headers that tell of limits or decided what the answer means, as many of the first 64 as fit into 511 bytes.';
COMMENT ON COLUMN quota.feedback.in_flight IS 'Calls in flight then, by the fullest concurrency limit that the call meets; NULL = it meets none.';
COMMENT ON COLUMN quota.feedback.level IS 'Units left then, by the provider''s own limit of requests that had least, before the answer lowered it; negative = debt; NULL = the call meets none that is in use.';
COMMENT ON COLUMN quota.feedback.attempt IS 'Which attempt it was, 1 = the first.';
COMMENT ON COLUMN quota.feedback.latency IS 'How long the call took, if that was said.';
REVOKE ALL ON quota.feedback FROM PUBLIC;
SELECT pg_catalog.pg_extension_config_dump('quota.feedback', '');
SELECT pg_catalog.pg_extension_config_dump('quota.feedback_id_seq', '');

CREATE FUNCTION quota.stat_answers_rows(
	OUT provider text,
	OUT success bigint,
	OUT rejected bigint,
	OUT rate_limited bigint,
	OUT exhausted bigint,
	OUT overloaded bigint,
	OUT failure bigint,
	OUT unknown bigint,
	OUT headers_ignored bigint)
RETURNS SETOF record
AS 'MODULE_PATHNAME', 'quota_stat_answers'
LANGUAGE C VOLATILE STRICT PARALLEL RESTRICTED ROWS 100;
COMMENT ON FUNCTION quota.stat_answers_rows() IS
'Internal: rows of quota.stat_answers.';
CREATE VIEW quota.stat_answers AS
SELECT * FROM quota.stat_answers_rows();
COMMENT ON VIEW quota.stat_answers IS
'Answers of each provider that were reported since the server started, by what they meant. Empty on a standby.';
COMMENT ON COLUMN quota.stat_answers.provider IS 'The provider.';
COMMENT ON COLUMN quota.stat_answers.success IS 'Calls that went well.';
COMMENT ON COLUMN quota.stat_answers.rejected IS 'The call was at fault.';
COMMENT ON COLUMN quota.stat_answers.rate_limited IS 'Told to wait.';
COMMENT ON COLUMN quota.stat_answers.exhausted IS 'Nothing more before the contract is renewed.';
COMMENT ON COLUMN quota.stat_answers.overloaded IS 'Told to back off.';
COMMENT ON COLUMN quota.stat_answers.failure IS 'Broken, or no answer came.';
COMMENT ON COLUMN quota.stat_answers.unknown IS 'Nothing follows from it.';
COMMENT ON COLUMN quota.stat_answers.headers_ignored IS 'Values in headers about limits that were not understood, and what they told beyond eight things in one answer.';
REVOKE ALL ON FUNCTION quota.stat_answers_rows() FROM PUBLIC;
GRANT EXECUTE ON FUNCTION quota.stat_answers_rows() TO pg_monitor;
GRANT SELECT ON quota.feedback, quota.stat_answers TO pg_monitor;
