/*
 * What answers of providers mean where standards don't say it.  Column numbers must
 * agree with src/policy_answer.c.
 */

CREATE TABLE quota.answers (
	provider text,
	status integer,
	header text,
	value text,
	means text NOT NULL,
	scope text,
	limit_name text,
	CONSTRAINT answers_key UNIQUE NULLS NOT DISTINCT (provider, status, header, value),
	CONSTRAINT answers_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT answers_status_range CHECK (status OPERATOR(pg_catalog.>=) 0
		AND status OPERATOR(pg_catalog.<=) 999),
	CONSTRAINT answers_header_lower CHECK (header OPERATOR(pg_catalog.~) '^[!-9;-@[-~]{1,127}$'
		AND header OPERATOR(pg_catalog.!~) '[A-Z]'),
	CONSTRAINT answers_value_length CHECK (pg_catalog.octet_length(value) OPERATOR(pg_catalog.<=) 255),
	CONSTRAINT answers_limit_name_length CHECK (pg_catalog.octet_length(limit_name) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(limit_name) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT answers_means_known CHECK (means OPERATOR(pg_catalog.=) ANY (ARRAY[
		'success', 'rejected', 'rate_limited', 'exhausted', 'overloaded', 'failure',
		'limit', 'remaining', 'used', 'reset', 'retry_after', 'reason', 'nothing'])),
	CONSTRAINT answers_header_given CHECK (header IS NOT NULL OR means OPERATOR(pg_catalog.=) ANY (ARRAY[
		'success', 'rejected', 'rate_limited', 'exhausted', 'overloaded', 'failure'])),
	CONSTRAINT answers_condition_given CHECK (status IS NOT NULL OR header IS NOT NULL OR value IS NOT NULL),
	CONSTRAINT answers_scope_known CHECK (scope OPERATOR(pg_catalog.=) ANY (ARRAY[
		'limit', 'tenant_endpoint', 'connection', 'tenant', 'endpoint', 'provider', 'account'])),
	CONSTRAINT answers_scope_needed CHECK (scope IS NULL OR means OPERATOR(pg_catalog.=) ANY (ARRAY[
		'rate_limited', 'exhausted', 'overloaded'])),
	CONSTRAINT answers_limit_name_needed CHECK (
		CASE WHEN scope IS NULL THEN limit_name IS NULL OR means OPERATOR(pg_catalog.=) ANY (ARRAY[
			'limit', 'remaining', 'used', 'reset'])
		ELSE (scope OPERATOR(pg_catalog.=) 'limit') OPERATOR(pg_catalog.=) (limit_name IS NOT NULL) END)
) USING heap;
ALTER TABLE quota.answers REPLICA IDENTITY FULL;
COMMENT ON TABLE quota.answers IS 'What an answer of a provider means, where standards do not say it: 402 and 403, codes in the body, headers of no common name. An answer means what the most specific row says that all its conditions (status, header, value) are true of: one of the provider before one of all, then one with value, with header, with status; of equal ones the graver: exhausted, overloaded, rate_limited, failure, rejected, success. Without a row: 2xx and 3xx success; 429 rate_limited; 503 and 529 overloaded; 408, other 5xx and 0 (no answer came) failure; other 4xx rejected (the call is at fault, the provider is well); all else unknown.';
COMMENT ON INDEX quota.answers_key IS 'The same conditions mean one thing.';
COMMENT ON COLUMN quota.answers.provider IS 'Answers of this provider; NULL = of all.';
COMMENT ON COLUMN quota.answers.status IS 'With this HTTP status, 0 = no answer came (a timeout, a connection that was refused); NULL = any, also when none is told.';
COMMENT ON COLUMN quota.answers.header IS 'With this header, in lower case; NULL = whatever headers there are. Callers may add headers of their own, such as the error code of the body.';
COMMENT ON COLUMN quota.answers.value IS 'Where that header''s value, or without a header the reason, is like this: a pattern in which * stands for any text; NULL = any. The reason is the value of a header that means reason, else what the caller says.';
COMMENT ON COLUMN quota.answers.means IS 'Of the whole answer: success; rejected; rate_limited: wait; exhausted: nothing more before the contract is renewed, so all calls to the account stop and an event tells it; overloaded: back off; failure. Of the header''s value: limit, remaining, used (or used/limit), reset (when more is there), retry_after, reason; nothing: it is not read.';
COMMENT ON COLUMN quota.answers.scope IS 'rate_limited, exhausted, overloaded: whom the answer concerns: limit (the one that limit_name names), tenant_endpoint (the tenant''s calls to the endpoint), connection, tenant (its calls to the provider), endpoint (all calls to it), provider, account (all providers that belong to it). NULL, or one that the call does not name: the narrowest; tenant_endpoint, of overloaded the endpoint, of exhausted the account.';
COMMENT ON COLUMN quota.answers.limit_name IS 'limit, remaining, used, reset: the value is of this limit; NULL = of the one that its unit and window fit. Scope limit: which one.';

CREATE TRIGGER quota_changed AFTER INSERT OR UPDATE OR DELETE ON quota.answers
	FOR EACH ROW EXECUTE FUNCTION quota.config_changed();
CREATE TRIGGER quota_truncated AFTER TRUNCATE ON quota.answers
	FOR EACH STATEMENT EXECUTE FUNCTION quota.config_changed();
ALTER TABLE quota.answers
	ENABLE ALWAYS TRIGGER quota_changed,
	ENABLE ALWAYS TRIGGER quota_truncated;
COMMENT ON TRIGGER quota_changed ON quota.answers IS 'Makes changes known at commit.';
COMMENT ON TRIGGER quota_truncated ON quota.answers IS 'Makes changes known at commit.';
SELECT pg_catalog.pg_extension_config_dump('quota.answers', '');
