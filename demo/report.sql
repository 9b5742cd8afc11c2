-- The queries behind the numbers the demo prints. `-- name:` starts one; driver.py runs it by that name.

-- name: progress
SELECT count(*) FILTER (WHERE state IN ('queued', 'scheduled')) AS queued,
       count(*) FILTER (WHERE state = 'running') AS running,
       count(*) FILTER (WHERE state IN ('succeeded', 'failed')) AS done
  FROM quota.jobs

-- name: upgrade
UPDATE quota.tenants SET tier = 'enterprise' WHERE tenant = 'bluefin-travel'

-- name: weights
SELECT tenant, tier, coalesce(tenants.weight, tiers.weight)::float8 AS weight
  FROM quota.tenants JOIN quota.tiers USING (tier)

-- name: jobs
SELECT tenant,
       count(*) AS loaded,
       count(*) FILTER (WHERE state = 'succeeded') AS succeeded,
       count(*) FILTER (WHERE state = 'failed') AS failed,
       count(*) FILTER (WHERE state IN ('queued', 'scheduled')) AS waiting
  FROM quota.jobs
 GROUP BY tenant

-- name: created
SELECT id, extract(epoch FROM created_at)::float8 AS created FROM quota.jobs

-- name: ledger
SELECT tenant, sum(amount)::bigint AS spent
  FROM quota.ledger
 WHERE provider = 'crm' AND unit = 'credit' AND kind IN ('hold', 'settle', 'refund', 'expire')
 GROUP BY tenant
