/*
 * portion_claims.c
 *		Claims on one limit, ordered by turn: a treap (Seidel and Aragon,
 *		Algorithmica 16, 1996) whose nodes sum up what is below them, so that adding,
 *		removing and "how much is claimed before this turn" take O(log n) expected.
 *
 * The nodes are the portions themselves: nothing is allocated.  Recursion is as deep
 * as the tree.
 */
#include "portion_claims.h"

#include <stddef.h>

#define SUM_MAX (INT64_MAX / 4)

/* The order of claims: by turn, and by address where that is the same. */
static bool
precedes(const Portion *a, const Portion *b)
{
	return a->turn != b->turn ? a->turn < b->turn : a < b;
}

/* Of two sums below SUM_MAX. */
static int64_t
add(int64_t a, int64_t b)
{
	return a + b < SUM_MAX ? a + b : SUM_MAX;
}

/* When the claim was made that will lapse; INT64_MIN = it lasts. */
static int64_t
made_ns(const Portion *p)
{
	return p->lasts ? INT64_MIN : p->claim_ns;
}

/* The node's sums follow its children's. */
static void
update(Portion *p)
{
	p->sum = p->claim < SUM_MAX ? p->claim : SUM_MAX;
	p->lasting = p->lasts ? p->sum : 0;
	p->newest_ns = made_ns(p);
	for (int i = 0; i < 2; i++)
	{
		const Portion *child = i == 0 ? p->left : p->right;

		if (child == NULL)
			continue;
		p->sum = add(p->sum, child->sum);
		p->lasting = add(p->lasting, child->lasting);
		if (child->newest_ns > p->newest_ns)
			p->newest_ns = child->newest_ns;
	}
}

/* All of the tree that precede p, and all others. */
static void
split(Portion *tree, const Portion *p, Portion **before, Portion **after)
{
	if (tree == NULL)
	{
		*before = *after = NULL;
		return;
	}
	if (precedes(tree, p))
	{
		split(tree->right, p, &tree->right, after);
		*before = tree;
	}
	else
	{
		split(tree->left, p, before, &tree->left);
		*after = tree;
	}
	update(tree);
}

/* One tree of two, of which the first precedes the second. */
static Portion *
join(Portion *a, Portion *b)
{
	if (a == NULL || b == NULL)
		return a ? a : b;
	if (a->priority > b->priority)
	{
		a->right = join(a->right, b);
		update(a);
		return a;
	}
	b->left = join(a, b->left);
	update(b);
	return b;
}

/* The tree with p in it. */
static Portion *
insert(Portion *tree, Portion *p)
{
	if (tree == NULL || p->priority > tree->priority)
	{
		split(tree, p, &p->left, &p->right);
		update(p);
		return p;
	}
	if (precedes(p, tree))
		tree->left = insert(tree->left, p);
	else
		tree->right = insert(tree->right, p);
	update(tree);
	return tree;
}

/* The tree without p. */
static Portion *
erase(Portion *tree, Portion *p)
{
	if (tree == p)
		return join(p->left, p->right);
	if (precedes(p, tree))
		tree->left = erase(tree->left, p);
	else
		tree->right = erase(tree->right, p);
	update(tree);
	return tree;
}

/* See portion_claims.h. */
void
claims_add(Portions *ps, Portion *p, int64_t units, int64_t claim_ns)
{
	claims_remove(ps, p);
	p->claims = true;
	p->lasts = p->waits > 0;
	p->claim = units;
	p->claim_ns = claim_ns;
	ps->seed = ps->seed * 1664525u + 1013904223u;
	p->priority = ps->seed ^ ps->seed >> 16;
	ps->claims = insert(ps->claims, p);
}

/* See portion_claims.h. */
void
claims_remove(Portions *ps, Portion *p)
{
	if (!p->claims)
		return;
	ps->claims = erase(ps->claims, p);
	p->claims = false;
	p->left = p->right = NULL;
}

/* See portion_claims.h. */
ClaimsBefore
claims_before(const Portions *ps, fair_time turn)
{
	ClaimsBefore found = {0, 0, INT64_MIN};
	const Portion *node = ps->claims;

	while (node != NULL)
	{
		const Portion *below = node->left;

		if (node->turn >= turn)
		{
			node = below;
			continue;
		}
		found.units = add(found.units, node->claim);
		if (node->lasts)
			found.lasting = add(found.lasting, node->claim);
		if (made_ns(node) > found.newest_ns)
			found.newest_ns = made_ns(node);
		if (below != NULL)
		{
			found.units = add(found.units, below->sum);
			found.lasting = add(found.lasting, below->lasting);
			if (below->newest_ns > found.newest_ns)
				found.newest_ns = below->newest_ns;
		}
		node = node->right;
	}
	return found;
}

/* See portion_claims.h. */
const Portion *
claims_soonest(const Portions *ps, int64_t since_ns)
{
	const Portion *node = ps->claims;

	while (node != NULL)
	{
		if (node->left != NULL &&
			(node->left->lasting > 0 || node->left->newest_ns >= since_ns))
			node = node->left;
		else if (node->lasts || node->claim_ns >= since_ns)
			break;
		else
			node = node->right;
	}
	return node;
}
