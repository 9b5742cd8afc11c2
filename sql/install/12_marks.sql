/*
 * What may have been spent of slow limits, for the time after a crash.  Written in
 * place by src/mark_page.c, which relies on this form of the table: four columns of
 * fixed length.  It is not part of a dump: limits that are restored are new.
 */
CREATE TABLE quota.marks (
	bucket uuid NOT NULL,
	ahead bigint NOT NULL,
	marked_at timestamptz NOT NULL,
	image bytea NOT NULL
) USING heap;
ALTER TABLE quota.marks ALTER COLUMN image SET STORAGE PLAIN;
COMMENT ON TABLE quota.marks IS 'Internal: what may have been spent of limits that take more than 60 seconds to refill, logged ahead so that it is known after a crash; one row for each such bucket that is not full, at most about quota.max_buckets. Rows are overwritten in place, outside of any transaction; writing to it by hand is refused (0A000).';
COMMENT ON COLUMN quota.marks.bucket IS 'Which bucket: a hash of provider, limit and key. All zero: the row is free. With eight zero bytes in front: not a bucket, but a time between two crashes.';
COMMENT ON COLUMN quota.marks.ahead IS 'Units that may have been taken since marked_at without another note here.';
COMMENT ON COLUMN quota.marks.marked_at IS 'When the row was written.';
COMMENT ON COLUMN quota.marks.image IS 'What had been spent by then; not for people.';

CREATE FUNCTION quota.marks_guard() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_marks_guard';
COMMENT ON FUNCTION quota.marks_guard() IS 'Refuses to write to quota.marks by hand.';
REVOKE ALL ON FUNCTION quota.marks_guard() FROM PUBLIC;
CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE OR DELETE OR TRUNCATE ON quota.marks
	FOR EACH STATEMENT EXECUTE FUNCTION quota.marks_guard();
ALTER TABLE quota.marks ENABLE ALWAYS TRIGGER quota_guard;
COMMENT ON TRIGGER quota_guard ON quota.marks IS 'Refuses to write to it by hand.';
