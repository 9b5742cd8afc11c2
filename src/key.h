/*
 * key.h
 *		Identities of 128 bits.  Two uses of SHA-256, cut to what is needed:
 *		keyed with this cluster's secret for shared memory (QuotaKey: nobody can
 *		search for two names that collide), unkeyed for what is stored in rows
 *		and must stay the same in every cluster (account uuid, flow hash).
 *		Every part is hashed with its length, so that ("ab","c") and ("a","bc")
 *		differ; NULL differs from "".
 */
#ifndef QUOTA_KEY_H
#define QUOTA_KEY_H

#include "quota.h"

/* parts is an array of n C strings, NULL allowed; may throw (out of memory) */
extern QuotaKey quota_key(Oid database, Oid extension, char space,
						  int n, const char *const *parts);
extern void quota_stable_hash(char space, int n, const char *const *parts,
							  uint8 out[16]);

/* name spaces: one letter each, so that equal parts of different things differ */
#define QUOTA_SPACE_SLOT	'S' /* provider */
#define QUOTA_SPACE_BUCKET	'B' /* provider, limit, kind, then one part per word of
								 * "per"; of an allowance: account in hex */
#define QUOTA_SPACE_TENANT	'T' /* provider, tenant */
#define QUOTA_SPACE_SHARE	'H' /* provider, tenant, class */
#define QUOTA_SPACE_FLOW	'F' /* provider, tenant, class, endpoint */
#define QUOTA_SPACE_MARK	'M' /* as QUOTA_SPACE_BUCKET; stable */
#define QUOTA_SPACE_ACCOUNT 'A' /* provider, limit, words of "per"; stable */

/* quota.jobs.flow: first 64 bits of the stable hash of
 * (provider, tenant, class, endpoint) in space 'F' */
extern int64 quota_flow_hash(const char *provider, const char *tenant,
							 const char *class_name, const char *endpoint);

#endif							/* QUOTA_KEY_H */
