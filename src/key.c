/*
 * key.c
 *		128-bit identities from SHA-256; see key.h for why two kinds.
 */
#include "key.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "port/pg_bswap.h"
#include "shmem.h"

/* Adds one part with its length; NULL counts as length -1. */
static void
hash_part(pg_cryptohash_ctx *ctx, const char *part)
{
	int32		len = part ? (int32) strlen(part) : -1;
	uint32		wire = pg_hton32((uint32) len);

	if (pg_cryptohash_update(ctx, (const uint8 *) &wire, sizeof(wire)) < 0 ||
		(len > 0 &&
		 pg_cryptohash_update(ctx, (const uint8 *) part, len) < 0))
		elog(ERROR, "could not compute hash");
}

/*
 * SHA-256 of prefix, space and parts.  Throws when out of memory.
 */
static void
hash_parts(const void *prefix, Size prefix_len, char space,
		   int n, const char *const *parts, uint8 out[PG_SHA256_DIGEST_LENGTH])
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		(prefix_len > 0 && pg_cryptohash_update(ctx, prefix, prefix_len) < 0) ||
		pg_cryptohash_update(ctx, (const uint8 *) &space, 1) < 0)
		elog(ERROR, "could not compute hash");
	for (int i = 0; i < n; i++)
		hash_part(ctx, parts[i]);
	if (pg_cryptohash_final(ctx, out, PG_SHA256_DIGEST_LENGTH) < 0)
		elog(ERROR, "could not compute hash");
	pg_cryptohash_free(ctx);
}

/* The key of a thing in shared memory.  Throws when out of memory. */
QuotaKey
quota_key(Oid database, Oid extension, char space,
		  int n, const char *const *parts)
{
	struct
	{
		uint8		secret[sizeof(quota_shared->secret)];
		Oid			database;
		Oid			extension;
	}			prefix;
	uint8		digest[PG_SHA256_DIGEST_LENGTH];
	QuotaKey	key;

	memcpy(prefix.secret, quota_shared->secret, sizeof(prefix.secret));
	prefix.database = database;
	prefix.extension = extension;
	hash_parts(&prefix, sizeof(prefix), space, n, parts, digest);
	memcpy(&key, digest, sizeof(key));
	return key;
}

/* The same in every cluster.  Throws when out of memory. */
void
quota_stable_hash(char space, int n, const char *const *parts, uint8 out[16])
{
	uint8		digest[PG_SHA256_DIGEST_LENGTH];

	hash_parts(NULL, 0, space, n, parts, digest);
	memcpy(out, digest, 16);
}

/*
 * What quota.jobs.flow holds.  Big-endian, so that a dump restored on other
 * hardware finds its rows.  Throws when out of memory.
 */
int64
quota_flow_hash(const char *provider, const char *tenant,
				const char *class_name, const char *endpoint)
{
	const char *parts[] = {provider, tenant, class_name, endpoint};
	uint8		hash[16];
	uint64		result = 0;

	quota_stable_hash(QUOTA_SPACE_FLOW, lengthof(parts), parts, hash);
	for (int i = 0; i < 8; i++)
		result = (result << 8) | hash[i];
	return (int64) result;
}
