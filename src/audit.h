/*
 * audit.h
 *		Between the parts of quota_audit().
 */
#ifndef QUOTA_AUDIT_H
#define QUOTA_AUDIT_H

#include "quota.h"

#include "nodes/execnodes.h"

/* Columns of its result. */
enum
{
	AUDIT_PROBLEM,
	AUDIT_PROVIDER,
	AUDIT_LIMIT_NAME,
	AUDIT_TENANT,
	AUDIT_PERMIT,
	AUDIT_DETAIL,
	AUDIT_EXPECTED,
	AUDIT_ACTUAL,
	N_AUDIT
};

/* Compares counts of unfinished jobs with their rows.  On a primary; may throw. */
extern void audit_queue(ReturnSetInfo *result);

/* Compares slow limits with their rows of quota.marks.  On a primary; may throw. */
extern void audit_marks(ReturnSetInfo *result);

#endif							/* QUOTA_AUDIT_H */
