/*
 * Rights: to ask for a call is for everybody who may connect, so EXECUTE on the
 * functions that decide and settle stays with PUBLIC.  The functions of the queue,
 * those that write credits by hand and the views' are revoked in the files that
 * make them; they, and reading and changing configuration, are the owner's to
 * grant.
 */
REVOKE ALL ON SCHEMA quota FROM PUBLIC;
