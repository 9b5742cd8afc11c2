/*
 * test_siphash.c
 *	  SipHash-2-4-128 against the vectors of its authors.
 */
#include "unit.h"

#include <string.h>

#include "siphash.h"

/* The hash of 0, 1, ... n - 1 with the key 0, 1, ... 15, added in pieces of so many bytes. */
static void
hash_count(int n, int piece, uint8_t out[16])
{
	uint8_t		key[16];
	uint8_t		input[64];
	uint64_t	words[2];
	SipHash		hash;

	for (int i = 0; i < 16; i++)
		key[i] = (uint8_t) i;
	for (int i = 0; i < n; i++)
		input[i] = (uint8_t) i;
	siphash_init(&hash, key);
	for (int i = 0; i < n; i += piece)
		siphash_add(&hash, input + i, (size_t) (n - i < piece ? n - i : piece));
	siphash_final(&hash, words);
	for (int i = 0; i < 16; i++)
		out[i] = (uint8_t) (words[i / 8] >> (8 * (i % 8)));
}

UNIT_TEST(hashes_are_those_of_the_reference)
{
	static const uint8_t expected[2][16] = {
		{0xa3, 0x81, 0x7f, 0x04, 0xba, 0x25, 0xa8, 0xe6, 0x6d, 0xf6, 0x72, 0x14, 0xc7, 0x55, 0x02, 0x93},
		{0xda, 0x87, 0xc1, 0xd8, 0x6b, 0x99, 0xaf, 0x44, 0x34, 0x76, 0x59, 0x11, 0x9b, 0x22, 0xfc, 0x45}
	};

	for (int n = 0; n < 2; n++)
	{
		uint8_t		out[16];

		hash_count(n, 64, out);
		CHECK(memcmp(out, expected[n], 16) == 0);
	}
}

UNIT_TEST(pieces_make_no_difference_and_every_byte_does)
{
	uint8_t		seen[64][16];

	for (int n = 0; n < 64; n++)
	{
		hash_count(n, 64, seen[n]);
		for (int piece = 1; piece < 20; piece++)
		{
			uint8_t		out[16];

			hash_count(n, piece, out);
			CHECK(memcmp(out, seen[n], 16) == 0);
		}
		for (int before = 0; before < n; before++)
			CHECK(memcmp(seen[before], seen[n], 16) != 0);
	}
}

int
main(void)
{
	UNIT_RUN(hashes_are_those_of_the_reference);
	UNIT_RUN(pieces_make_no_difference_and_every_byte_does);
	UNIT_MAIN_END();
}
