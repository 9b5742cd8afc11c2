/*
 * test_siphash.c
 *	  SipHash against the values of its authors' implementation.
 */
#include "unit.h"

#include "siphash.h"

/* The input 00, 01, 02, ... of so many bytes, with the key 00 to 0f. */
static void
hash(int len, int piece, uint64_t out[2])
{
	uint8_t		bytes[64];
	SipHash		h;

	for (int i = 0; i < 64; i++)
		bytes[i] = (uint8_t) i;
	siphash_init(&h, bytes);
	for (int i = 0; i < len; i += piece)
		siphash_add(&h, bytes + i, piece < len - i ? piece : len - i);
	siphash_end(&h, out);
}

UNIT_TEST(known_values)
{
	uint64_t	out[2];

	hash(0, 1, out);
	CHECK(out[0] == UINT64_C(0xe6a825ba047f81a3));
	CHECK(out[1] == UINT64_C(0x930255c71472f66d));
	hash(1, 1, out);
	CHECK(out[0] == UINT64_C(0x44af996bd8c187da));
	CHECK(out[1] == UINT64_C(0x45fc229b11597634));
	hash(7, 1, out);
	CHECK(out[0] == UINT64_C(0x53c1dbd8beebf1a1));
	CHECK(out[1] == UINT64_C(0x3982f01fa64ab8c0));
	hash(8, 1, out);
	CHECK(out[0] == UINT64_C(0x61f55862baa9623b));
	CHECK(out[1] == UINT64_C(0xb49714f364e2830f));
	hash(15, 1, out);
	CHECK(out[0] == UINT64_C(0x11a8b03399e99354));
	CHECK(out[1] == UINT64_C(0xd9c3cf970fec087e));
	hash(63, 1, out);
	CHECK(out[0] == UINT64_C(0x4a83502f77d15051));
	CHECK(out[1] == UINT64_C(0x7cbd3f979a063e50));
}

UNIT_TEST(pieces_make_no_difference)
{
	for (int len = 0; len < 64; len++)
	{
		uint64_t	whole[2];

		hash(len, 64, whole);
		for (int piece = 1; piece < 20; piece++)
		{
			uint64_t	out[2];

			hash(len, piece, out);
			CHECK(out[0] == whole[0] && out[1] == whole[1]);
		}
	}
}

int
main(void)
{
	UNIT_RUN(known_values);
	UNIT_RUN(pieces_make_no_difference);
	UNIT_MAIN_END();
}
