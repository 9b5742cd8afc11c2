-- What quota is told for the bad minute. Of the limits this is a guess: what is right is learned from the answers.
CREATE EXTENSION quota;

BEGIN;

INSERT INTO quota.tiers (tier, weight) VALUES ('free', 1), ('pro', 2), ('enterprise', 4);
INSERT INTO quota.tenants (tenant, tier) VALUES
    ('harborline', 'enterprise'), ('bluefin-travel', 'pro'), ('cedar-grove', 'pro'), ('kestrel-outreach', 'free');

-- A refusal that names no time pauses for as long as a period of the limit: long enough for that one to open again.
-- No job fails for good because the endpoint it wants is broken for a while.
INSERT INTO quota.providers (provider, safety, cooldown, max_attempts) VALUES ('crm', 0.9, '1 s', 50);

-- The provider documents 100 a second, of which 90 % are used; how much of that, and how many calls may be in
-- flight, follows what it answers.
INSERT INTO quota.limits (provider, name, kind, amount, period, burst, adaptive) VALUES
    ('crm', 'rate', 'token_bucket', 100, '1 s', 8, true);
INSERT INTO quota.limits (provider, name, kind, amount, external, adaptive) VALUES
    ('crm', 'in_flight', 'concurrency', 16, false, true);

-- Whom a 429 concerns, this provider says in a header.
INSERT INTO quota.answers (provider, status, header, value, means, scope) VALUES
    ('crm', 429, 'x-ratelimit-scope', 'account', 'rate_limited', 'provider'),
    ('crm', 429, 'x-ratelimit-scope', 'tenant', 'rate_limited', 'tenant');

-- All jobs are of class batch: nobody is there to leave a tenth of the limits to.
UPDATE quota.classes SET headroom = 0 WHERE class = 'batch';

-- An endpoint of which half the calls fail is left alone for three seconds, then tried by three calls.
INSERT INTO quota.breakers (provider, endpoint, min_calls, window_time, open_time) VALUES
    ('crm', 'contacts/search', 10, '5 s', '3 s'),
    ('crm', 'contacts/enrich', 10, '5 s', '3 s');

COMMIT;
