/*-------------------------------------------------------------------------
 *
 * unit.h
 *	  A very small harness for tests of the pure parts of quota.
 *
 * The pure parts need no server, so their tests are plain programs: one
 * test_*.c per part, each with its own main().  `make unit` links every one
 * of them with the pure sources and runs it.
 *
 *		#include "unit.h"
 *		#include "bucket.h"
 *
 *		UNIT_TEST(empty_bucket_refuses)
 *		{
 *			CHECK(!bucket_take(...));
 *			CHECK_EQ(bucket_level(...), 0);
 *		}
 *
 *		int
 *		main(void)
 *		{
 *			UNIT_RUN(empty_bucket_refuses);
 *			UNIT_MAIN_END();
 *		}
 *
 * A test fails when at least one of its checks fails; a failed check says
 * where and goes on with the next one.  Each test prints "ok name" or
 * "not ok name", and the program ends with "# N passed, N failed" and exit
 * status 1 if anything failed.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#ifndef UNIT_H
#define UNIT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

static int	unit_passed = 0;	/* tests without a failed check */
static int	unit_failed = 0;	/* tests with one */
static int	unit_bad_checks = 0;	/* failed checks of the current test */

/*
 * A test that fails in a loop would flood the log: after this many failed
 * checks the rest of that test's are only counted.
 */
#define UNIT_MAX_REPORTS	10

static inline bool
unit_may_report(void)
{
	unit_bad_checks++;
	if (unit_bad_checks == UNIT_MAX_REPORTS + 1)
		printf("#   further failed checks of this test are not shown\n");
	return unit_bad_checks <= UNIT_MAX_REPORTS;
}

static inline void
unit_check(bool ok, const char *text, const char *file, int line)
{
	if (!ok && unit_may_report())
		printf("#   %s:%d: failed: %s\n", file, line, text);
}

static inline void
unit_check_eq(int64_t a, int64_t b, const char *a_text, const char *b_text,
			  const char *file, int line)
{
	if (a != b && unit_may_report())
		printf("#   %s:%d: %s is %lld, but %s is %lld\n", file, line,
			   a_text, (long long) a, b_text, (long long) b);
}

static inline void
unit_run(void (*test) (void), const char *name)
{
	unit_bad_checks = 0;
	test();
	if (unit_bad_checks == 0)
		unit_passed++;
	else
		unit_failed++;
	printf("%s %s\n", unit_bad_checks == 0 ? "ok" : "not ok", name);
	fflush(stdout);				/* keep what is known if the next one crashes */
}

static inline int
unit_end(void)
{
	printf("# %d passed, %d failed\n", unit_passed, unit_failed);
	return unit_failed == 0 ? 0 : 1;
}

/* define a test */
#define UNIT_TEST(name)		static void test_##name(void)

/* the condition holds; the two are equal, compared and shown as int64 */
#define CHECK(cond)			unit_check((cond), #cond, __FILE__, __LINE__)
#define CHECK_EQ(a, b) \
	unit_check_eq((int64_t) (a), (int64_t) (b), #a, #b, __FILE__, __LINE__)

/* run a test, in main(); and the last line of main() */
#define UNIT_RUN(name)		unit_run(test_##name, #name)
#define UNIT_MAIN_END()		return unit_end()

#endif							/* UNIT_H */
