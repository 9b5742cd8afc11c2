/*
 * Triggers of the configuration tables: what a row may say, and that decisions
 * learn of it.  They come after the classes that are shipped.
 */

CREATE FUNCTION quota.config_guard() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_guard';
CREATE FUNCTION quota.config_guard_delete() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_guard_delete';
CREATE FUNCTION quota.config_reserve_lock() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_reserve_lock';
CREATE FUNCTION quota.config_reserve_check() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_reserve_check';
CREATE FUNCTION quota.config_stamp() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_stamp';
CREATE FUNCTION quota.config_changed() RETURNS trigger
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_config_changed';
COMMENT ON FUNCTION quota.config_guard() IS 'Refuses renaming, and rows that contradict rows of other tables.';
COMMENT ON FUNCTION quota.config_guard_delete() IS 'Refuses to delete what is in use.';
COMMENT ON FUNCTION quota.config_reserve_lock() IS 'Lets one transaction at a time write quota.classes.';
COMMENT ON FUNCTION quota.config_reserve_check() IS 'Refuses reserves that add up to more than 1.';
COMMENT ON FUNCTION quota.config_stamp() IS 'Notes in the row when it was made and changed.';
COMMENT ON FUNCTION quota.config_changed() IS 'Makes the change known to all sessions at commit.';
REVOKE ALL ON FUNCTION quota.config_guard() FROM PUBLIC;
REVOKE ALL ON FUNCTION quota.config_guard_delete() FROM PUBLIC;
REVOKE ALL ON FUNCTION quota.config_reserve_lock() FROM PUBLIC;
REVOKE ALL ON FUNCTION quota.config_reserve_check() FROM PUBLIC;
REVOKE ALL ON FUNCTION quota.config_stamp() FROM PUBLIC;
REVOKE ALL ON FUNCTION quota.config_changed() FROM PUBLIC;

CREATE TRIGGER quota_guard BEFORE UPDATE ON quota.tiers
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_guard_delete AFTER DELETE ON quota.tiers
	REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_guard_truncate AFTER TRUNCATE ON quota.tiers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.tiers
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.tiers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.tiers
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_guard_delete,
	ENABLE ALWAYS TRIGGER quota_guard_truncate,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.tiers IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_guard_delete ON quota.tiers IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.tiers IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_changed ON quota.tiers IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.tiers IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE ON quota.tenants
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_stamp BEFORE INSERT OR UPDATE ON quota.tenants
	FOR EACH ROW EXECUTE FUNCTION quota.config_stamp('tier', 'seats');
CREATE TRIGGER quota_guard_delete AFTER DELETE ON quota.tenants
	REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_guard_truncate AFTER TRUNCATE ON quota.tenants
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.tenants
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.tenants
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.tenants
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_stamp,
	ENABLE ALWAYS TRIGGER quota_guard_delete,
	ENABLE ALWAYS TRIGGER quota_guard_truncate,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.tenants IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_stamp ON quota.tenants IS 'Keeps the internal columns.';
COMMENT ON TRIGGER quota_guard_delete ON quota.tenants IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.tenants IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_changed ON quota.tenants IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.tenants IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE ON quota.providers
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_stamp BEFORE INSERT OR UPDATE ON quota.providers
	FOR EACH ROW EXECUTE FUNCTION quota.config_stamp('safety', 'account');
CREATE TRIGGER quota_guard_delete AFTER DELETE ON quota.providers
	REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_guard_truncate AFTER TRUNCATE ON quota.providers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.providers
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.providers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.providers
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_stamp,
	ENABLE ALWAYS TRIGGER quota_guard_delete,
	ENABLE ALWAYS TRIGGER quota_guard_truncate,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.providers IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_stamp ON quota.providers IS 'Keeps the internal columns.';
COMMENT ON TRIGGER quota_guard_delete ON quota.providers IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.providers IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_changed ON quota.providers IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.providers IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE OR DELETE ON quota.classes
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_guard_delete AFTER DELETE ON quota.classes
	REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_reserve_lock BEFORE INSERT OR UPDATE ON quota.classes
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_reserve_lock();
CREATE TRIGGER quota_reserve_check AFTER INSERT OR UPDATE ON quota.classes
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_reserve_check();
CREATE TRIGGER quota_guard_truncate AFTER TRUNCATE ON quota.classes
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.classes
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.classes
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.classes
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_reserve_lock,
	ENABLE ALWAYS TRIGGER quota_reserve_check,
	ENABLE ALWAYS TRIGGER quota_guard_delete,
	ENABLE ALWAYS TRIGGER quota_guard_truncate,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.classes IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_reserve_lock ON quota.classes IS 'Lets one transaction at a time write the table.';
COMMENT ON TRIGGER quota_reserve_check ON quota.classes IS 'Refuses reserves that add up to more than 1.';
COMMENT ON TRIGGER quota_guard_delete ON quota.classes IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.classes IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_changed ON quota.classes IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.classes IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE ON quota.limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_guard_delete AFTER DELETE ON quota.limits
	REFERENCING OLD TABLE AS gone
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_guard_truncate AFTER TRUNCATE ON quota.limits
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_guard_delete();
CREATE TRIGGER quota_stamp BEFORE INSERT OR UPDATE ON quota.limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_stamp('kind', 'amount', 'period', 'anchor', 'per_seat', 'external', 'per', 'account');
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.limits
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.limits
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_guard_delete,
	ENABLE ALWAYS TRIGGER quota_guard_truncate,
	ENABLE ALWAYS TRIGGER quota_stamp,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.limits IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_guard_delete ON quota.limits IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_guard_truncate ON quota.limits IS 'Refuses to delete what is in use.';
COMMENT ON TRIGGER quota_stamp ON quota.limits IS 'Keeps the internal columns.';
COMMENT ON TRIGGER quota_changed ON quota.limits IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.limits IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE ON quota.tier_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_stamp BEFORE INSERT OR UPDATE ON quota.tier_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_stamp('tier', 'provider', 'name', 'amount', 'multiplier');
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.tier_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.tier_limits
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.tier_limits
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_stamp,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.tier_limits IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_stamp ON quota.tier_limits IS 'Keeps the internal columns.';
COMMENT ON TRIGGER quota_changed ON quota.tier_limits IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.tier_limits IS 'Makes changes known at commit.';

CREATE TRIGGER quota_guard BEFORE INSERT OR UPDATE ON quota.tenant_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_guard();
CREATE TRIGGER quota_stamp BEFORE INSERT OR UPDATE ON quota.tenant_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_stamp('tenant', 'provider', 'name', 'amount', 'multiplier');
CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.tenant_limits
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.tenant_limits
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.tenant_limits
	ENABLE ALWAYS TRIGGER quota_guard,
	ENABLE ALWAYS TRIGGER quota_stamp,
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_guard ON quota.tenant_limits IS 'Refuses rows that make no sense.';
COMMENT ON TRIGGER quota_stamp ON quota.tenant_limits IS 'Keeps the internal columns.';
COMMENT ON TRIGGER quota_changed ON quota.tenant_limits IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.tenant_limits IS 'Makes changes known at commit.';

CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.costs
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.costs
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.costs
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_changed ON quota.costs IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.costs IS 'Makes changes known at commit.';

CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.breakers
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.breakers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.breakers
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_changed ON quota.breakers IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.breakers IS 'Makes changes known at commit.';
