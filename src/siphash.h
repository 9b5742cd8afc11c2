/*
 * siphash.h
 *		SipHash-2-4 with 128 bits of output (Aumasson and Bernstein, "SipHash: a
 *		fast short-input PRF", 2012): without the key nobody can find two inputs
 *		that collide, and a short input takes well under a microsecond.  Pure:
 *		no server headers.
 */
#ifndef QUOTA_SIPHASH_H
#define QUOTA_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

#define SIPHASH_KEY_LEN 16

typedef struct SipHash
{
	uint64_t	v[4];
	uint64_t	word;			/* bytes not yet mixed in, the first one lowest */
	uint64_t	len;			/* bytes added */
} SipHash;

extern void siphash_init(SipHash *h, const uint8_t key[SIPHASH_KEY_LEN]);
extern void siphash_add(SipHash *h, const void *data, size_t len);
extern void siphash_end(SipHash *h, uint64_t out[2]);

#endif							/* QUOTA_SIPHASH_H */
