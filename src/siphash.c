/*
 * siphash.c
 *		SipHash-2-4 with 128 bits of output; see siphash.h.  The same on every
 *		machine, whatever its order of bytes.
 */
#include "siphash.h"

static uint64_t
rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static void
mix(uint64_t v[4], int rounds)
{
	while (rounds-- > 0)
	{
		v[0] += v[1];
		v[1] = rotate(v[1], 13) ^ v[0];
		v[0] = rotate(v[0], 32);
		v[2] += v[3];
		v[3] = rotate(v[3], 16) ^ v[2];
		v[0] += v[3];
		v[3] = rotate(v[3], 21) ^ v[0];
		v[2] += v[1];
		v[1] = rotate(v[1], 17) ^ v[2];
		v[2] = rotate(v[2], 32);
	}
}

static void
add_word(SipHash *h, uint64_t word)
{
	h->v[3] ^= word;
	mix(h->v, 2);
	h->v[0] ^= word;
}

static uint64_t
word_at(const uint8_t *bytes)
{
	uint64_t	word = 0;

	for (int i = 0; i < 8; i++)
		word |= (uint64_t) bytes[i] << (8 * i);
	return word;
}

/* Begins a hash. */
void
siphash_init(SipHash *h, const uint8_t key[SIPHASH_KEY_LEN])
{
	uint64_t	k0 = word_at(key);
	uint64_t	k1 = word_at(key + 8);

	h->v[0] = k0 ^ UINT64_C(0x736f6d6570736575);
	h->v[1] = k1 ^ UINT64_C(0x646f72616e646f6d) ^ 0xee;
	h->v[2] = k0 ^ UINT64_C(0x6c7967656e657261);
	h->v[3] = k1 ^ UINT64_C(0x7465646279746573);
	h->word = 0;
	h->len = 0;
}

/* Adds bytes; in how many pieces they come makes no difference. */
void
siphash_add(SipHash *h, const void *data, size_t len)
{
	const uint8_t *bytes = data;

	for (size_t i = 0; i < len; i++)
	{
		h->word |= (uint64_t) bytes[i] << (8 * (h->len % 8));
		if (++h->len % 8 == 0)
		{
			add_word(h, h->word);
			h->word = 0;
		}
	}
}

/* The hash of all that was added; *h is used up. */
void
siphash_end(SipHash *h, uint64_t out[2])
{
	add_word(h, h->word | h->len << 56);
	h->v[2] ^= 0xee;
	mix(h->v, 4);
	out[0] = h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3];
	h->v[1] ^= 0xdd;
	mix(h->v, 4);
	out[1] = h->v[0] ^ h->v[1] ^ h->v[2] ^ h->v[3];
}
