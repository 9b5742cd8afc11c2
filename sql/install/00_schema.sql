\echo Use "CREATE EXTENSION quota" to load this file. \quit

CREATE SCHEMA quota;
COMMENT ON SCHEMA quota IS 'Tables and views of the extension "quota".';

