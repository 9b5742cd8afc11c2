-- Periods of allowances (G12) against PostgreSQL's own arithmetic: the anchor's local time
-- plus k periods, brought back AT TIME ZONE, for random anchors, periods, zones and times.
-- Left out are periods that begin or end at a local time that clocks skip, where
-- PostgreSQL's answer is another one by intention (g12_calendar has those); of a local time
-- that comes twice the first occurrence is taken.
SELECT setseed(0.2026);
SET timezone = 'UTC';
INSERT INTO quota.tiers (tier) VALUES ('calr');
INSERT INTO quota.tenants (tenant, tier) VALUES ('calr', 'calr');
INSERT INTO quota.providers (provider) VALUES ('calr');

CREATE TABLE calr AS
WITH zones AS (
	SELECT string_to_array('Africa/Cairo Africa/Casablanca Africa/El_Aaiun Africa/Johannesburg Africa/Khartoum Africa/Lagos Africa/Monrovia '
		'Africa/Tripoli Africa/Windhoek America/Adak America/Anchorage America/Asuncion America/Bogota America/Caracas America/Chicago '
		'America/Denver America/Halifax America/Havana America/Los_Angeles America/Mexico_City America/New_York America/Noronha '
		'America/Nuuk America/Phoenix America/Port-au-Prince America/Santiago America/Sao_Paulo America/St_Johns Antarctica/Casey '
		'Antarctica/Macquarie Antarctica/Troll Asia/Amman Asia/Anadyr Asia/Baghdad Asia/Beirut Asia/Chita Asia/Damascus Asia/Dhaka '
		'Asia/Gaza Asia/Hovd Asia/Jerusalem Asia/Kathmandu Asia/Kolkata Asia/Manila Asia/Pyongyang Asia/Seoul Asia/Shanghai '
		'Asia/Singapore Asia/Tehran Asia/Tokyo Asia/Yakutsk Atlantic/Azores Atlantic/Stanley Australia/Adelaide Australia/Brisbane '
		'Australia/Eucla Australia/Lord_Howe Australia/Sydney Europe/Chisinau Europe/Dublin Europe/Istanbul Europe/Lisbon Europe/London '
		'Europe/Moscow Europe/Paris Europe/Simferopol Europe/Volgograd Indian/Maldives Indian/Mauritius Pacific/Apia Pacific/Auckland '
		'Pacific/Chatham Pacific/Easter Pacific/Fakaofo Pacific/Fiji Pacific/Kiritimati Pacific/Marquesas Pacific/Norfolk '
		'Pacific/Pitcairn Pacific/Tongatapu', ' ') AS names
)
SELECT i, names[1 + floor(random() * cardinality(names))::int] AS zone,
	-- any time of the day, or one at which clocks are changed somewhere
	timestamp '1960-01-01' + floor(random() * 36500) * interval '1 day' + CASE WHEN random() < 0.3
		THEN random() * interval '1 day' ELSE floor(random() * 8) * interval '30 minutes' END AS local_anchor,
	CASE WHEN random() < 0.6 THEN make_interval(days => 1 + floor(random() ^ 6 * 40)::int)
		ELSE make_interval(months => 1 + floor(random() ^ 2 * 30)::int) END AS period,
	timestamptz '2000-01-01+00' + random() * interval '37 years' AS at,
	NULL::timestamptz AS anchor, NULL::timestamptz AS period_start, NULL::timestamptz AS period_end
FROM zones, generate_series(1, 4000) AS i;
-- many of them around the next change of the clocks there, if there is one within a year
UPDATE calr AS c SET at = change.day - interval '12 hours' + random() * interval '2 days'
FROM (SELECT i, min(day) AS day
	FROM calr, LATERAL (SELECT date_trunc('day', at) + n * interval '1 day' FROM generate_series(0, 365) AS n) AS d (day)
	WHERE i <= 1200 AND at < '2036-01-01'
		AND (day + interval '1 day') AT TIME ZONE zone <> day AT TIME ZONE zone + interval '1 day'
	GROUP BY i) AS change
WHERE c.i = change.i;
UPDATE calr SET anchor = local_anchor AT TIME ZONE zone;
-- where clocks skipped the anchor
UPDATE calr SET local_anchor = anchor AT TIME ZONE zone;

INSERT INTO quota.limits (provider, name, endpoint, kind, amount, period, anchor, time_zone)
SELECT 'calr', 'l' || i, 'e' || i, 'allowance', 1, period, anchor, zone FROM calr;
DO $$
DECLARE
	c record;
BEGIN
	FOR c IN SELECT * FROM calr ORDER BY at LOOP
		PERFORM quota_clock_set(c.at);
		UPDATE calr SET period_start = b.period_start, period_end = b.period_end
		FROM quota_balance('calr', 'calr', 'e' || c.i) AS b WHERE i = c.i;
	END LOOP;
END $$;

-- the first instant that shows a local time, if one does
CREATE FUNCTION first_instant(local timestamp, zone text, OUT at timestamptz, OUT shown boolean, OUT twice boolean)
LANGUAGE SQL AS $$
	WITH last AS (
		SELECT $1 AT TIME ZONE $2 AS at
	), others AS (
		-- by the offsets that there were some time before
		SELECT min(o.at) AS at
		FROM last, unnest(ARRAY['90 minutes', '1 day', '3 days']::interval[]) AS before,
			LATERAL (SELECT (($1 AT TIME ZONE 'UTC') - ((last.at - before) AT TIME ZONE $2
				- (last.at - before) AT TIME ZONE 'UTC')) AS at) AS o
		WHERE o.at AT TIME ZONE $2 = $1
	)
	SELECT least(last.at, others.at), last.at AT TIME ZONE $2 = $1, others.at < last.at FROM last, others
$$;
CREATE TABLE calr_expected AS
SELECT DISTINCT ON (i) c.*, s.at AS expected_start, e.at AS expected_end,
	s.shown AND e.shown AS same, s.twice OR e.twice AS twice
FROM calr AS c,
	LATERAL (SELECT CASE WHEN extract(month FROM c.period) + extract(year FROM c.period) > 0
		THEN (extract(year FROM c.at) * 12 + extract(month FROM c.at)
			- extract(year FROM c.anchor) * 12 - extract(month FROM c.anchor))
			/ (extract(year FROM c.period) * 12 + extract(month FROM c.period))
		ELSE extract(epoch FROM c.at - c.anchor) / 86400 / extract(day FROM c.period) END AS k) AS near,
	generate_series(floor(near.k)::int - 2, floor(near.k)::int + 2) AS this,
	LATERAL first_instant(c.local_anchor + this * c.period, c.zone) AS s,
	LATERAL first_instant(c.local_anchor + (this + 1) * c.period, c.zone) AS e
WHERE s.at <= c.at
ORDER BY i, this DESC;

SELECT count(*) FILTER (WHERE same) > 3800 AS compared, count(*) FILTER (WHERE NOT same) > 0 AS skipped,
	count(*) FILTER (WHERE same AND twice) > 10 AS twice, count(*) AS cases
FROM calr_expected;
SELECT zone, local_anchor, period, at, period_start, period_end, expected_start, expected_end
FROM calr_expected
WHERE same AND (period_start, period_end) IS DISTINCT FROM (expected_start, expected_end);
SELECT count(*) AS not_in_their_period FROM calr WHERE (period_start <= at AND at < period_end) IS NOT TRUE;

DELETE FROM quota.limits WHERE provider = 'calr';
DROP TABLE calr, calr_expected;
DROP FUNCTION first_instant;
DELETE FROM quota.tenants WHERE tenant = 'calr';
DELETE FROM quota.providers WHERE provider = 'calr';
DELETE FROM quota.tiers WHERE tier = 'calr';
