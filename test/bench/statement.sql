-- Many decisions in one statement.
SELECT count(*) FILTER (WHERE (quota_acquire('tenant 1', :'provider', 'search')).admitted) FROM generate_series(1, :calls);
