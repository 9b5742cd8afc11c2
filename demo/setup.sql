-- Everything the demo tells quota, in plain SQL. Each table takes effect at the next decision after COMMIT.
CREATE EXTENSION quota;

BEGIN;

-- Three tiers. Between tenants that have work ready, the scarce calls are divided by weight.
INSERT INTO quota.tiers (tier, weight) VALUES
    ('free', 1), ('pro', 2), ('enterprise', 4);

INSERT INTO quota.tenants (tenant, tier) VALUES
    ('kestrel-outreach', 'free'),           -- floods the queue with thousands of jobs
    ('fern-florist', 'free'),
    ('oakstreet-yoga', 'free'),
    ('pixel-pottery', 'free'),
    ('quill-notary', 'free'),
    ('tiny-toys', 'free'),
    ('bluefin-travel', 'pro'),              -- moves to enterprise half way
    ('cedar-grove', 'pro'),
    ('lumen-dental', 'pro'),
    ('atlas-recruiting', 'pro'),            -- calls directly, without the queue
    ('harborline', 'enterprise'),
    ('meridian-mutual', 'enterprise');

-- The provider documents 100 calls a second; we spend 90 % of that. The rest covers the varying
-- delay between our decision and the arrival of the call.
INSERT INTO quota.providers (provider, safety) VALUES ('crm', 0.9);

-- `per` is empty in the first two: one bucket for all tenants together. The first is the provider's
-- own rule (external), so safety applies to it; the second is ours.
INSERT INTO quota.limits (provider, name, kind, amount, period, burst, external) VALUES
    ('crm', 'rate', 'token_bucket', 100, '1 s', 3, true);
INSERT INTO quota.limits (provider, name, kind, amount, external) VALUES
    ('crm', 'in_flight', 'concurrency', 8, false);

-- Credits: so many a calendar month and tenant, by tier; a tenant of another tier gets the amount of the limit.
INSERT INTO quota.limits (provider, name, per, unit, kind, amount, period) VALUES
    ('crm', 'credits', '{tenant}', 'credit', 'allowance', 1000, '1 month');
INSERT INTO quota.tier_limits (tier, provider, name, amount) VALUES
    ('free', 'crm', 'credits', 1000),
    ('pro', 'crm', 'credits', 5000),
    ('enterprise', 'crm', 'credits', 20000);
INSERT INTO quota.costs (provider, endpoint, unit, cost) VALUES
    ('crm', 'contacts/search', 'credit', 1),
    ('crm', 'contacts/enrich', 'credit', 5);

COMMIT;

-- The flooding tenant bought a pack on top of its allowance; it will need it.
SELECT quota_grant('kestrel-outreach', 'crm', 'credits', 9000, 'credit pack');
