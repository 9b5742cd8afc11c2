/*
 * class_order.h
 *		Which class goes next: pure arithmetic of reserves, ageing and rank.  No
 *		server headers, no locks: callers hold whatever lock protects the
 *		structure.  class_order.c tells the rules.
 */
#ifndef QUOTA_CLASS_ORDER_H
#define QUOTA_CLASS_ORDER_H

#include "fair.h"

#define CLASS_ORDER_MAX		16

/* Service by age takes at most one part in so many of what is dispatched. */
#define CLASS_AGE_PARTS		5

#define CLASS_NO_DEADLINE	INT64_MAX

/* Why it is a class's turn. */
typedef enum ClassWhy
{
	CLASS_BY_RESERVE,
	CLASS_BY_AGE,
	CLASS_BY_RANK
} ClassWhy;

/* One class; all zero when new.  The caller sets "used" and "deadline_ns". */
typedef struct ClassPlace
{
	bool		used;
	bool		ready;			/* between class_join() and class_leave() */
	int			rank;			/* lower first */
	int			reserve_milli;	/* 0 to 1000: part of all that is dispatched */
	int64_t		deadline_ns;	/* its oldest job has waited too long from then
								 * on; CLASS_NO_DEADLINE = never */
	fair_time	due;			/* total at which its next job is due by reserve */
	fair_time	turn;			/* start of its next job among its equals */
	fair_time	dispatched;		/* start of its last one */
} ClassPlace;

typedef struct ClassOrder
{
	fair_time	total;			/* cost dispatched so far */
	fair_time	age_due;		/* total at which age may decide again */
	bool		ageing;			/* some class was too old at the last pick */
	ClassPlace	place[CLASS_ORDER_MAX];
} ClassOrder;

/* What class_charge() did, for an exact undo. */
typedef struct ClassCharge
{
	fair_time	moved;			/* due */
	int64_t		cost;
	int			reserve_milli;	/* under which it was moved */
	bool		aged;
} ClassCharge;

extern void class_set(ClassOrder *order, int i, int rank, int reserve_milli);
extern void class_forget(ClassOrder *order, int i);
extern void class_join(ClassOrder *order, int i);
extern void class_leave(ClassOrder *order, int i);
extern bool class_precedes(const ClassOrder *order, int a, int b);
extern int	class_pick(ClassOrder *order, int64_t now_ns, ClassWhy *why);
extern ClassCharge class_charge(ClassOrder *order, int i, int64_t cost,
								ClassWhy why, bool more);
extern void class_undo(ClassOrder *order, int i, const ClassCharge *charge);

#endif							/* QUOTA_CLASS_ORDER_H */
