/*
 * rules.h
 *		By which rules the meter of a bucket goes.  See rules.c.  The lock of the
 *		bucket's owner is held unless said otherwise.
 */
#ifndef QUOTA_RULES_H
#define QUOTA_RULES_H

#include "policy.h"
#include "shmem.h"

/* None of the rows that its rules were made of has changed since. */
extern bool rules_are_current(const QuotaBucket *b);

/* Brings the meter of a rate to now, unless its rules are not current. */
extern void rules_settle(QuotaBucket *b, int64 now_ns, TimestampTz wall_us);

/* The term's rules apply from now on, made of what the stamp says. */
extern void rules_apply(QuotaBucket *b, const QuotaTerm *term, const QuotaStamp *stamp,
						int64 now_ns, TimestampTz wall_us);

/* ---- no lock held; may throw, and replaces what policy_rules() has returned ---- */

/*
 * Lets a bucket of this database have the rules of today.  False when it is another
 * database's, or they change faster than they can be read.
 */
extern bool rules_renew(uint32 bucket);
/* The same for all of them, until real time until_ns; false when that was too early. */
extern bool rules_renew_all(int64 until_ns);

/* ---- for databases that this process is not connected to ---- */

/* Lets a worker of the slot's database renew all.  May be called locked. */
extern void rules_want_worker(uint32 slot);
/* The worker's part: returns when it is wanted again.  As rules_renew_all(). */
extern int64 rules_chore(uint32 database_slot, int64 until_ns);

/* Before a transaction that changes rates commits: see rules.c. */
extern void rules_before_change(void);

#endif							/* QUOTA_RULES_H */
