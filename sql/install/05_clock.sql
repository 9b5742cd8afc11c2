/* The clock. */

CREATE FUNCTION quota_clock()
RETURNS timestamptz
AS 'MODULE_PATHNAME', 'quota_clock'
LANGUAGE C VOLATILE PARALLEL SAFE;
COMMENT ON FUNCTION quota_clock() IS
'The wall clock as quota sees it: the time, unless a test has stopped or moved the clock. Moves within a transaction.';

CREATE FUNCTION quota_clock_set("to" timestamptz)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_clock_set'
LANGUAGE C VOLATILE PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_clock_set(timestamptz) IS
'For tests, with quota.testing = on: stops the clocks of quota in the whole server, with the wall clock at the given time. A time later than the wall clock moves the monotonic clock as far; an earlier one steps back the wall clock alone. NULL lets both run again, the wall clock as it really is. Acts at once and is not undone by a rollback.';
REVOKE ALL ON FUNCTION quota_clock_set(timestamptz) FROM PUBLIC;

CREATE FUNCTION quota_clock_advance(by interval)
RETURNS void
AS 'MODULE_PATHNAME', 'quota_clock_advance'
LANGUAGE C VOLATILE STRICT PARALLEL UNSAFE;
COMMENT ON FUNCTION quota_clock_advance(interval) IS
'For tests, with quota.testing = on: stops the clocks of quota in the whole server and moves both forward. Acts at once and is not undone by a rollback.';
REVOKE ALL ON FUNCTION quota_clock_advance(interval) FROM PUBLIC;
