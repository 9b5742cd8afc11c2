/*
 * expiring.h
 *		Grants that expire, and what was spent of them.  Pure arithmetic; nothing here
 *		allocates or throws.
 *
 * THE RULE
 *
 * A grant is there from the instant it was given (at) until it expires, [at, until).
 * What calls use, and adjustments take, at an instant is spent of the grants that are
 * there then: of the one that expires soonest first, of two that expire together the
 * older one first; and what exceeds them all, of the allowance.  What a call uses
 * counts at the instant it was admitted, whenever it is settled, released, refunded or
 * lost.  What of a grant is not spent when it expires is gone:
 *
 *		gone(grant) = amount - spent of it in [at, until)
 *
 * So the order in which entries came does not matter, only what they come to at each
 * instant.  It follows that credits which are held when a grant expires stay good; and
 * that those which come back later, and had been spent of it, are gone as well, while
 * those which had been spent of the allowance return to it.  What was used before a
 * grant was given is not spent of it, nor is a debt paid by it.
 *
 * Instants at which something changes (each at, each until) divide time into spans;
 * of each span it is enough to know the sum.  Nothing is known of the time before the
 * first one, as nothing is there then.
 */
#ifndef QUOTA_EXPIRING_H
#define QUOTA_EXPIRING_H

#include <stdbool.h>
#include <stdint.h>

/* Of one account, and of one period. */
#define EXPIRING_MAX 64

#define EXPIRING_NEVER INT64_MAX

/* From one instant to the next one of the account. */
typedef struct ExpiringSpan
{
	int64_t		spent;			/* units that were used in it */
	int64_t		lapsed;			/* of these: of lost holds, not used any more */
} ExpiringSpan;

typedef struct Expiring
{
	int64_t		at_us;			/* no two of an account have the same */
	int64_t		until_us;		/* > at_us */
	int64_t		amount;			/* > 0 */
	bool		given;			/* else its transaction is open: it only divides time */
	ExpiringSpan from_at;		/* begins with at_us, */
	ExpiringSpan from_until;	/* and with until_us */
} Expiring;

/* The span that an instant is in; NULL = it is before the first one. */
extern ExpiringSpan *expiring_span(Expiring *const *grants, int n, int64_t at_us);

/* What is left of each grant, now or when it expired. */
extern void expiring_left(Expiring *const *grants, int n, int64_t *left);

/* What is gone of all of them, and when (*next_us) the next one expires. */
extern int64_t expiring_gone(Expiring *const *grants, int n, int64_t now_us,
							 int64_t *next_us);

/* Removes the last of them, which was never given: what it counted is not lost. */
extern void expiring_remove_last(Expiring *const *grants, int n);

#endif							/* QUOTA_EXPIRING_H */
