/*
 * siphash.h
 *		SipHash-2-4 with 128 bits: a keyed hash of short strings (Aumasson and
 *		Bernstein, INDOCRYPT 2012).  Pure, like bucket.h: no server headers.
 *
 * Who does not know the key can't find two inputs with the same hash, nor tell
 * hashes from chance.
 */
#ifndef QUOTA_SIPHASH_H
#define QUOTA_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

typedef struct SipHash
{
	uint64_t	v[4];
	uint64_t	tail;			/* bytes that don't make 8 yet, lowest first */
	uint64_t	length;			/* of all that was added */
} SipHash;

extern void siphash_init(SipHash *hash, const uint8_t key[16]);
extern void siphash_add(SipHash *hash, const void *bytes, size_t n);
/* Ends it. */
extern void siphash_final(SipHash *hash, uint64_t out[2]);

#endif							/* QUOTA_SIPHASH_H */
