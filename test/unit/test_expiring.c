/*-------------------------------------------------------------------------
 *
 * test_expiring.c
 *	  Grants that expire: examples, and random histories in which calls are settled,
 *	  refunded and rolled back at any later time, against a model that spends one
 *	  unit after another, instant by instant.
 *
 * Copyright (c) 2026, the quota authors
 *
 *-------------------------------------------------------------------------
 */
#include "unit.h"
#include "random.h"
#include "expiring.h"

#include <string.h>

#define HISTORIES	1000
#define INSTANTS	60
#define MAX_GRANTS	9
#define MAX_CHARGES 80

/* An account: its grants, and where they are. */
typedef struct Account
{
	Expiring	grant[EXPIRING_MAX];
	Expiring   *list[EXPIRING_MAX];
	int			n;
} Account;

static void
give(Account *a, int64_t at, int64_t until, int64_t amount, bool given)
{
	Expiring   *g = &a->grant[a->n];

	memset(g, 0, sizeof(*g));
	g->at_us = at;
	g->until_us = until;
	g->amount = amount;
	g->given = given;
	a->list[a->n++] = g;
}

static void
use(Account *a, int64_t at, int64_t n)
{
	ExpiringSpan *span = expiring_span(a->list, a->n, at);

	if (span != NULL)
		span->spent += n;
}

static int64_t
gone(const Account *a, int64_t now)
{
	int64_t		next;

	return expiring_gone(a->list, a->n, now, &next);
}

/* ---------- examples ---------- */

UNIT_TEST(what_is_not_spent_is_gone_at_its_instant)
{
	Account		a = {.n = 0};
	int64_t		next;

	give(&a, 10, 20, 100, true);
	use(&a, 12, 30);
	CHECK_EQ(gone(&a, 19), 0);
	CHECK_EQ(gone(&a, 20), 70);
	(void) expiring_gone(a.list, a.n, 19, &next);
	CHECK_EQ(next, 20);
	(void) expiring_gone(a.list, a.n, 20, &next);
	CHECK_EQ(next, EXPIRING_NEVER);
}

UNIT_TEST(use_before_and_after_is_not_of_the_grant)
{
	Account		a = {.n = 0};

	use(&a, 9, 40);
	give(&a, 10, 20, 100, true);
	use(&a, 10, 1);
	use(&a, 19, 2);
	use(&a, 20, 50);
	CHECK_EQ(gone(&a, 30), 97);
}

UNIT_TEST(the_one_that_expires_soonest_is_spent_first)
{
	Account		a = {.n = 0};
	int64_t		left[3];

	give(&a, 1, 50, 10, true);
	give(&a, 2, 20, 10, true);
	give(&a, 3, 20, 10, true);
	use(&a, 5, 14);
	expiring_left(a.list, a.n, left);
	CHECK_EQ(left[0], 10);
	CHECK_EQ(left[1], 0);
	CHECK_EQ(left[2], 6);
	use(&a, 20, 3);
	CHECK_EQ(gone(&a, 20), 6);
	CHECK_EQ(gone(&a, 50), 13);
}

UNIT_TEST(what_returns_later_goes_where_it_came_from)
{
	Account		a = {.n = 0};

	give(&a, 10, 20, 10, true);
	use(&a, 15, 30);
	CHECK_EQ(gone(&a, 20), 0);
	use(&a, 15, -25);			/* 20 were of the allowance, 5 of the grant */
	CHECK_EQ(gone(&a, 20), 5);
}

UNIT_TEST(a_grant_that_rolled_back_leaves_what_it_counted)
{
	Account		a = {.n = 0};

	give(&a, 10, 30, 10, true);
	give(&a, 12, 20, 10, false);
	use(&a, 13, 4);
	use(&a, 20, 3);
	CHECK_EQ(gone(&a, 30), 3);
	expiring_remove_last(a.list, a.n);
	a.n--;
	CHECK_EQ(gone(&a, 30), 3);
	use(&a, 25, 1);
	CHECK_EQ(gone(&a, 30), 2);
}

/* ---------- against a model ---------- */

typedef struct Charge
{
	int64_t		at;
	int64_t		n;
} Charge;

/* One unit after another, in order of time. */
static void
model_left(const Account *a, const Charge *charges, int ncharges, int64_t *left)
{
	for (int i = 0; i < a->n; i++)
		left[i] = a->grant[i].given ? a->grant[i].amount : 0;
	for (int64_t t = 0; t < INSTANTS; t++)
		for (int c = 0; c < ncharges; c++)
			for (int64_t unit = 0; charges[c].at == t && unit < charges[c].n; unit++)
			{
				int			best = -1;

				for (int i = 0; i < a->n; i++)
				{
					const Expiring *g = &a->grant[i];

					if (left[i] == 0 || t < g->at_us || t >= g->until_us)
						continue;
					if (best < 0 || g->until_us < a->grant[best].until_us ||
						(g->until_us == a->grant[best].until_us &&
						 g->at_us < a->grant[best].at_us))
						best = i;
				}
				if (best >= 0)
					left[best]--;
			}
}

/* The last grant is taken back. */
static void
take_back(Account *a)
{
	expiring_remove_last(a->list, a->n);
	a->n--;
}

UNIT_TEST(random_histories_agree_with_a_model)
{
	for (int h = 0; h < HISTORIES; h++)
	{
		Account		a = {.n = 0};
		Charge		charges[MAX_CHARGES];
		int			ncharges = 0;
		int64_t		now = 0;
		bool		open = false;	/* the last grant is not given yet */

		while (now < INSTANTS - 1)
		{
			int64_t		left[EXPIRING_MAX];
			int64_t		expected[EXPIRING_MAX];
			int64_t		sum = 0;

			switch (random_below(8))
			{
				case 0:
					if (a.n == MAX_GRANTS || open)
						break;
					/* later than every charge */
					now++;
					open = random_below(3) == 0;
					give(&a, now, now + 1 + random_below(25), 1 + random_below(20), !open);
					break;
				case 1:
					if (open && random_below(2) == 0)
						take_back(&a);
					else if (open)
						a.grant[a.n - 1].given = true;
					open = false;
					break;
				case 2:
					now += random_below(4);
					break;
				case 3:
				case 4:
					if (ncharges == MAX_CHARGES)
						break;
					charges[ncharges].at = now;
					charges[ncharges].n = random_below(12);
					use(&a, now, charges[ncharges].n);
					ncharges++;
					break;
				default:
					if (ncharges == 0)
						break;
					else
					{
						/* at most what is there returns, or more is used */
						Charge	   *c = &charges[random_below(ncharges)];
						int64_t		diff = random_below(c->n + 4) - c->n;

						use(&a, c->at, diff);
						c->n += diff;
					}
			}
			if (a.n == 0)
				continue;
			expiring_left(a.list, a.n, left);
			model_left(&a, charges, ncharges, expected);
			for (int i = 0; i < a.n; i++)
			{
				CHECK_EQ(left[i], expected[i]);
				if (a.grant[i].until_us <= now)
					sum += expected[i];
			}
			CHECK_EQ(gone(&a, now), sum);
		}
	}
}

int
main(void)
{
	UNIT_RUN(what_is_not_spent_is_gone_at_its_instant);
	UNIT_RUN(use_before_and_after_is_not_of_the_grant);
	UNIT_RUN(the_one_that_expires_soonest_is_spent_first);
	UNIT_RUN(what_returns_later_goes_where_it_came_from);
	UNIT_RUN(a_grant_that_rolled_back_leaves_what_it_counted);
	UNIT_RUN(random_histories_agree_with_a_model);
	UNIT_MAIN_END();
}
