/*
 * error.h
 *		One helper for every error a user can meet, so that wording, SQLSTATE
 *		and hint are the same everywhere.  Listed in test errors.sql.
 */
#ifndef QUOTA_ERROR_H
#define QUOTA_ERROR_H

#include "quota.h"

extern void quota_error_not_loaded(void) pg_attribute_noreturn();
extern void quota_error_no_extension(void) pg_attribute_noreturn();
extern void quota_error_null(const char *argument) pg_attribute_noreturn();
/* kind: "tenant", "provider", "class", "limit", "tier", "job"; 42704 */
extern void quota_error_no_such(const char *kind, const char *name) pg_attribute_noreturn();
extern void quota_error_range(const char *argument, int64 value, int64 min,
							  int64 max) pg_attribute_noreturn();	/* 22023 */
extern void quota_error_units(const char *detail) pg_attribute_noreturn();	/* 22023 */
extern void quota_error_too_long(const char *argument, int length) pg_attribute_noreturn(); /* 22023 */
extern void quota_error_commit_first(const char *what) pg_attribute_noreturn(); /* 55000 */
extern void quota_error_prepare(void) pg_attribute_noreturn();	/* 0A000 */
extern void quota_error_too_many_terms(const char *tenant, const char *provider) pg_attribute_noreturn();	/* 54000 */
extern void quota_error_permit(int64 permit) pg_attribute_noreturn();	/* 55000: not open */
extern void quota_error_permit_busy(int64 permit) pg_attribute_noreturn();	/* 55P03 */
extern void quota_error_stale_lease(int64 job, int attempt) pg_attribute_noreturn();	/* 55000 */
extern void quota_error_job_busy(int64 job) pg_attribute_noreturn();	/* 55P03 */

extern void quota_error_tenant_buckets(const char *tenant, int ceiling) pg_attribute_noreturn();	/* 53400 */

#endif							/* QUOTA_ERROR_H */
