/*
 * siphash.c
 *		See siphash.h.
 */
#include "siphash.h"

#include <string.h>

#define ROTATE(x, bits) (((x) << (bits)) | ((x) >> (64 - (bits))))

/* Mixes the state. */
static void
rounds(uint64_t *v, int n)
{
	while (n-- > 0)
	{
		v[0] += v[1];
		v[2] += v[3];
		v[1] = ROTATE(v[1], 13) ^ v[0];
		v[3] = ROTATE(v[3], 16) ^ v[2];
		v[0] = ROTATE(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = ROTATE(v[1], 17) ^ v[2];
		v[3] = ROTATE(v[3], 21) ^ v[0];
		v[2] = ROTATE(v[2], 32);
	}
}

/* Adds 8 bytes. */
static void
compress(SipHash *hash, uint64_t word)
{
	hash->v[3] ^= word;
	rounds(hash->v, 2);
	hash->v[0] ^= word;
}

/* The first n bytes, at most 8, the lowest first, whatever the machine's order. */
static uint64_t
load(const uint8_t *bytes, size_t n)
{
	uint64_t	word = 0;

	for (size_t i = 0; i < n; i++)
		word |= (uint64_t) bytes[i] << (8 * i);
	return word;
}

/* See siphash.h. */
void
siphash_init(SipHash *hash, const uint8_t key[16])
{
	uint64_t	k0 = load(key, 8);
	uint64_t	k1 = load(key + 8, 8);

	hash->v[0] = k0 ^ UINT64_C(0x736f6d6570736575);
	hash->v[1] = k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
	hash->v[2] = k0 ^ UINT64_C(0x6c7967656e657261);
	hash->v[3] = k1 ^ UINT64_C(0x7465646279746573);
	hash->tail = 0;
	hash->length = 0;
}

/* See siphash.h. */
void
siphash_add(SipHash *hash, const void *bytes, size_t n)
{
	const uint8_t *next = bytes;

	while (n > 0)
	{
		size_t		have = hash->length % 8;
		size_t		take = n < 8 - have ? n : 8 - have;

		hash->tail |= load(next, take) << (8 * have);
		hash->length += take;
		next += take;
		n -= take;
		if (have + take < 8)
			break;
		compress(hash, hash->tail);
		hash->tail = 0;
	}
}

/* See siphash.h. */
void
siphash_final(SipHash *hash, uint64_t out[2])
{
	uint64_t   *v = hash->v;

	compress(hash, hash->tail | hash->length << 56);
	v[2] ^= 0xee;
	rounds(v, 4);
	out[0] = v[0] ^ v[1] ^ v[2] ^ v[3];
	v[1] ^= 0xdd;
	rounds(v, 4);
	out[1] = v[0] ^ v[1] ^ v[2] ^ v[3];
}
