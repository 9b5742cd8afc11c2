-- What workers may do by themselves: never more together than the limits let through.
INSERT INTO quota.tiers (tier) VALUES ('fb');
INSERT INTO quota.providers (provider, account, safety) VALUES ('fb', 'fb_account', 0.9), ('fb_2', 'fb_account', 0.8);
INSERT INTO quota.limits (provider, name, endpoint, per, unit, kind, amount, period, adaptive, enforcement) VALUES
	('fb', 'minute', NULL, '{}', 'request', 'fixed_window', 100, '1 minute', false, 'hard'),
	('fb', 'tokens', '/chat*', '{endpoint}', 'token', 'token_bucket', 1000000, '1 hour', false, 'hard'),
	('fb', 'adaptive', NULL, '{connection}', 'request', 'sliding_window', 1000, '1 second', true, 'hard'),
	('fb', 'flight', NULL, '{}', 'request', 'concurrency', 20, NULL, false, 'hard'),
	('fb', 'plan', NULL, '{tenant}', 'request', 'token_bucket', 5, '1 second', false, 'hard'),
	('fb', 'hint', NULL, '{}', 'request', 'token_bucket', 5, '1 second', false, 'soft'),
	('fb', 'none', NULL, '{}', 'request', 'token_bucket', NULL, '1 second', false, 'hard'),
	('fb', 'closed', '/old', '{}', 'request', 'token_bucket', 0, '1 second', false, 'hard'),
	('fb', 'credits', NULL, '{}', 'credit', 'allowance', 1000, '1 month', false, 'hard');
INSERT INTO quota.limits (provider, name, account, amount, period) VALUES (NULL, 'fb contract', 'fb_account', 500, '1 minute');
SELECT * FROM quota_fallback('fb', 1) ORDER BY limit_name COLLATE "C";
SELECT limit_name, amount FROM quota_fallback('fb', 7) ORDER BY limit_name COLLATE "C";
SELECT limit_name, amount FROM quota_fallback('fb', 91) ORDER BY limit_name COLLATE "C";
-- whatever their number, they stay within
SELECT bool_and(f.amount * w <= a.amount) AS within
FROM generate_series(1, 200) w, quota_fallback('fb', w) f JOIN quota_fallback('fb', 1) a USING (limit_name);
SELECT * FROM quota_fallback('fb_no', 1);
SELECT * FROM quota_fallback('fb', 0);
SELECT * FROM quota_fallback('fb', NULL);
DELETE FROM quota.limits WHERE name = 'fb contract';
