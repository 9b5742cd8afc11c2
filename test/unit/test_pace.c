/*-------------------------------------------------------------------------
 *
 * test_pace.c
 *	  The moving estimate of how fast places of a queue get free.
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"

#include "pace.h"

#define S INT64_C(1000000000)

UNIT_TEST(nothing_known)
{
	Pace		pace = {0};

	CHECK_EQ(pace_wait(&pace, 1, 5 * S), PACE_UNKNOWN_NS);
	CHECK_EQ(pace_wait(&pace, 3, 5 * S), 3 * PACE_UNKNOWN_NS);
	pace_freed(&pace, 7, 5 * S);
	CHECK_EQ(pace_wait(&pace, 1, 9 * S), PACE_UNKNOWN_NS);
}

UNIT_TEST(steady)
{
	Pace		pace = {0};

	for (int i = 1; i <= 20; i++)
		pace_freed(&pace, 1, i * 2 * S);
	CHECK_EQ(pace_wait(&pace, 1, 40 * S), 2 * S);
	CHECK_EQ(pace_wait(&pace, 10, 41 * S), 20 * S);
}

/* a batch of n is n gaps of an n-th each */
UNIT_TEST(batches)
{
	Pace		pace = {0};

	for (int i = 1; i <= 5; i++)
		pace_freed(&pace, 50, i * 5 * S);
	CHECK_EQ(pace_wait(&pace, 1, 25 * S), S / 10);
}

/* one that is faster counts for an eighth */
UNIT_TEST(follows)
{
	Pace		pace = {0};

	pace_freed(&pace, 1, 8 * S);
	pace_freed(&pace, 1, 16 * S);
	CHECK_EQ(pace_wait(&pace, 1, 16 * S), 8 * S);
	pace_freed(&pace, 1, 16 * S);
	CHECK_EQ(pace_wait(&pace, 1, 16 * S), 7 * S);
	pace_freed(&pace, 1, 38 * S);
	CHECK_EQ(pace_wait(&pace, 1, 38 * S), 7 * S + 15 * S / 8);
}

/* an old estimate fades when nothing gets free any more */
UNIT_TEST(fades)
{
	Pace		pace = {0};

	pace_freed(&pace, 1, 1 * S);
	pace_freed(&pace, 1, 2 * S);
	CHECK_EQ(pace_wait(&pace, 1, 3 * S), S);
	CHECK_EQ(pace_wait(&pace, 1, 83 * S), 11 * S);
	CHECK_EQ(pace_wait(&pace, 1, 2 * S), S);
}

UNIT_TEST(bounds)
{
	Pace		pace = {0};

	pace_freed(&pace, 1, S);
	pace_freed(&pace, 1, S);
	CHECK_EQ(pace_wait(&pace, 1, S), PACE_MIN_NS);
	CHECK_EQ(pace_wait(&pace, 5, S), PACE_MIN_NS);
	CHECK_EQ(pace_wait(&pace, INT64_C(1) << 40, INT64_C(1) << 62), PACE_MAX_NS);
}

int
main(void)
{
	UNIT_RUN(nothing_known);
	UNIT_RUN(steady);
	UNIT_RUN(batches);
	UNIT_RUN(follows);
	UNIT_RUN(fades);
	UNIT_RUN(bounds);
	UNIT_MAIN_END();
}
