/*
 * key.c
 *		Identities of 128 bits; see key.h for why two kinds.
 */
#include "key.h"

#include "common/cryptohash.h"
#include "common/sha2.h"
#include "port/pg_bswap.h"
#include "shmem.h"
#include "siphash.h"

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

/* See key.h. */
QuotaKey
quota_key(Oid database, Oid extension, char space,
		  int n, const char *const *parts)
{
	const Oid	prefix[] = {database, extension};
	SipHash		hash;
	QuotaKey	key;

	siphash_init(&hash, quota_shared->secret);
	siphash_add(&hash, prefix, sizeof(prefix));
	siphash_add(&hash, &space, 1);
	for (int i = 0; i < n; i++)
	{
		int32		len = parts[i] ? (int32) strlen(parts[i]) : -1;

		siphash_add(&hash, &len, sizeof(len));
		if (len > 0)
			siphash_add(&hash, parts[i], (Size) len);
	}
	siphash_final(&hash, key.w);
	return key;
}

/* The same in every cluster.  Throws when out of memory. */
void
quota_stable_hash(char space, int n, const char *const *parts, uint8 out[16])
{
	pg_cryptohash_ctx *ctx = pg_cryptohash_create(PG_SHA256);
	uint8		digest[PG_SHA256_DIGEST_LENGTH];

	if (ctx == NULL || pg_cryptohash_init(ctx) < 0 ||
		pg_cryptohash_update(ctx, (const uint8 *) &space, 1) < 0)
		elog(ERROR, "could not compute hash");
	for (int i = 0; i < n; i++)
		hash_part(ctx, parts[i]);
	if (pg_cryptohash_final(ctx, digest, sizeof(digest)) < 0)
		elog(ERROR, "could not compute hash");
	pg_cryptohash_free(ctx);
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
