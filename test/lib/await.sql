-- For tests of what a background worker writes; read by \i.

-- Waits until the worker has done what is due.
CREATE PROCEDURE await(condition text) LANGUAGE plpgsql AS $$
DECLARE
	done boolean;
BEGIN
	PERFORM quota_clock_advance('10 s');
	FOR i IN 1..1200 LOOP
		COMMIT;
		EXECUTE 'SELECT ' || condition INTO done;
		EXIT WHEN done;
		PERFORM pg_sleep(0.05);
		-- a worker may have looked just before, and not be wanted yet
		IF i % 100 = 0 THEN
			PERFORM quota_clock_advance('10 s');
		END IF;
	END LOOP;
	IF NOT done THEN
		RAISE WARNING 'not yet: %', condition;
	END IF;
END $$;
