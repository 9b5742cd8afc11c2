/*
 * Rights: using quota is for everybody who may connect, so EXECUTE on the
 * functions that decide, and on the worker's, stays with PUBLIC unless the file
 * that made them revoked it; reading and changing configuration is the owner's to
 * grant.
 */
REVOKE ALL ON SCHEMA quota FROM PUBLIC;
