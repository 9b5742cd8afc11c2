-- Waiting for work.
CREATE PROCEDURE quota_wait(provider text, timeout interval DEFAULT '1 minute')
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_wait';
COMMENT ON PROCEDURE quota_wait(text, interval) IS
'Returns when a job of the provider may be claimable, at once if one is, or after the timeout (real time, above 0, at most 366 days). One waiting session returns for each commit that enqueues, each release, refill, resume or change of configuration; call quota_dequeue then, and come back if it gives nothing. While it waits the session holds no snapshot and no lock, and can be cancelled at any moment. 25001 inside a transaction block or function: call it outside. 42704 for an unknown provider, 55000 when the extension is dropped meanwhile.';

CREATE PROCEDURE quota_wait(providers text[], timeout interval DEFAULT '1 minute')
	LANGUAGE C AS 'MODULE_PATHNAME', 'quota_wait_any';
COMMENT ON PROCEDURE quota_wait(text[], interval) IS
'The same for a job of any of 1 to 16 providers. 54000 for more.';

REVOKE ALL ON PROCEDURE quota_wait(text, interval), quota_wait(text[], interval)
	FROM PUBLIC;
