/*
 * change.h
 *		Configuration changes of the open transaction, between the triggers that
 *		note them, the caches that must not outlive them, and the end of the
 *		transaction.  What others need of it is in policy.h.
 */
#ifndef QUOTA_CHANGE_H
#define QUOTA_CHANGE_H

#include "policy.h"

/* ---- change_count.c ---- */

/* Indexes into quota_shared->generations. */
extern uint32 change_global_generation(Oid extension);
extern uint32 change_tenant_generation(Oid extension, const char *tenant);
/* How often what this one stands for has changed. */
extern uint64 change_count(uint32 generation);
/* Of what was read when these were the counts; tenant: by name, "" = nobody's. */
extern QuotaStamp change_stamp(Oid extension, const char *tenant, uint64 global_number,
							   uint64 tenant_number);

/* ---- change.c ---- */

typedef enum ChangeKind
{
	CHANGE_GLOBAL,				/* a row of a table that concerns everybody */
	CHANGE_WEIGHTS,				/* the same, and weights of many tenants */
	CHANGE_HINT,				/* concerns everybody, but no decision's outcome */
	CHANGE_TENANT_NEW,			/* a tenant inserted */
	CHANGE_TENANT				/* a row of a tenant, which may exist already */
} ChangeKind;

/* What it does to rates of limits. */
typedef enum ChangeRate
{
	CHANGE_NO_RATE,
	CHANGE_RATE,				/* some may have changed */
	CHANGE_RATE_DROPPED			/* by a row that is gone: none says when */
} ChangeRate;

/* Notes a change; tenant is NULL for the first three kinds.  May throw. */
extern void change_note(ChangeKind kind, const char *tenant, bool existing,
						ChangeRate rate);

/* The tenant was inserted by this very transaction. */
extern bool change_is_new(const char *tenant);

/*
 * What is loaded from rows may be kept while change_serial() stays what
 * change_load_serial() said right before the snapshot was taken.
 */
extern uint64 change_serial(void);
extern uint64 change_load_serial(void);

#endif							/* QUOTA_CHANGE_H */
