/*
 * error.h
 *		Errors that several files throw, one helper each, so that wording,
 *		SQLSTATE and hint are the same everywhere.  None returns; no lock is held.
 *		An error of one place is thrown there, in the same manner.
 */
#ifndef QUOTA_ERROR_H
#define QUOTA_ERROR_H

#include "quota.h"

/* 53Q00: the queue is full (place.c) */
#define QUOTA_ERRCODE_QUEUE_FULL	MAKE_SQLSTATE('5', '3', 'Q', '0', '0')

pg_noreturn extern void quota_error_not_loaded(void);
pg_noreturn extern void quota_error_no_extension(void);
pg_noreturn extern void quota_error_null(const char *argument);
/* kind: "tenant", "provider", "class", "limit", "tier", "job"; 42704 */
pg_noreturn extern void quota_error_no_such(const char *kind, const char *name);
pg_noreturn extern void quota_error_range(const char *argument, int64 value, int64 min,
							  int64 max);	/* 22023 */
pg_noreturn extern void quota_error_units(const char *detail);	/* 22023 */
pg_noreturn extern void quota_error_too_long(const char *argument, int length); /* 22023 */
pg_noreturn extern void quota_error_commit_first(const char *what); /* 55000 */
pg_noreturn extern void quota_error_prepare(void);	/* 0A000 */
pg_noreturn extern void quota_error_too_many_terms(const char *tenant, const char *provider);	/* 54000 */
pg_noreturn extern void quota_error_permit(int64 permit);	/* 55000: not open */
pg_noreturn extern void quota_error_permit_expired(int64 permit, bool refund);	/* 55000 */
pg_noreturn extern void quota_error_permit_busy(int64 permit);	/* 55P03 */
pg_noreturn extern void quota_error_stale_lease(int64 job, int attempt);	/* 55000 */
pg_noreturn extern void quota_error_in_transaction(const char *procedure);	/* 25001 */
pg_noreturn extern void quota_error_job_busy(int64 job);	/* 55P03 */
pg_noreturn extern void quota_error_no_zone(const char *limit_name, const char *zone);	/* 55000 */
pg_noreturn extern void quota_error_tenant_permits(const char *tenant);	/* 53400 */
pg_noreturn extern void quota_error_tenant_buckets(const char *tenant, int ceiling);	/* 53400 */

#endif							/* QUOTA_ERROR_H */
