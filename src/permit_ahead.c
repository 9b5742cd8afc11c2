/*
 * permit_ahead.c
 *		When permits in flight will have ended that nobody settles before.
 *
 * A bucket has its parts in a heap of which only the first to end is known; when
 * several must end, the parts are walked, but no more than LOOK_MOST of them: others
 * wait for the lock.  Any of them that are enough will have ended when the last of them
 * has, so what those seen say is so at the latest.  If they are not enough, all will
 * have ended by last_end_ns.
 */
#include "permit.h"

/* See above. */
#define LOOK_MOST 256

/* One that ends. */
typedef struct End
{
	int64		at_ns;
	int64		units;
} End;

/* For qsort(): the first to end first. */
static int
compare_ends(const void *a, const void *b)
{
	int64		x = ((const End *) a)->at_ns;
	int64		y = ((const End *) b)->at_ns;

	return (x > y) - (x < y);
}

/* The next node: those below it, beside it, then beside those above it; NULL = none. */
static const pairingheap_node *
next_node(const pairingheap_node *node)
{
	if (node->first_child != NULL)
		return node->first_child;
	while (node != NULL && node->next_sibling == NULL)
	{
		/* back to the first of the siblings, and up */
		while (node->prev_or_parent != NULL && node->prev_or_parent->next_sibling == node)
			node = node->prev_or_parent;
		node = node->prev_or_parent;
	}
	return node == NULL ? NULL : node->next_sibling;
}

/* When so many units of them have ended. */
static int64
enough_ended(End *ends, int n, int64 units)
{
	qsort(ends, n, sizeof(End), compare_ends);
	for (int i = 0; i < n; i++)
	{
		units -= ends[i].units;
		if (units <= 0)
			return ends[i].at_ns;
	}
	return QUOTA_NEVER;
}

/* See permit.h. */
int64
permit_bucket_end_of(const QuotaBucket *bucket, int64 units)
{
	End			ends[LOOK_MOST];
	int			n = 0;
	int64		seen = 0;

	if (bucket->used < units)
		return QUOTA_NEVER;
	for (const pairingheap_node *node = bucket->parts.ph_root;
		 node != NULL && n < LOOK_MOST; node = next_node(node))
	{
		const QuotaPart *part = pairingheap_const_container(QuotaPart, node, node);
		End			end = {quota_permits[part->permit].expires_ns, part->amount};

		seen += end.units;
		ends[n++] = end;
		/* it is the first to end */
		if (node == bucket->parts.ph_root && end.units >= units)
			return end.at_ns;
	}
	return seen < units ? bucket->last_end_ns : enough_ended(ends, n, units);
}
