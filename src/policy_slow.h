/*
 * policy_slow.h
 *		Which limits are slow: see mark.c.
 */
#ifndef QUOTA_POLICY_SLOW_H
#define QUOTA_POLICY_SLOW_H

#include "policy_plan.h"

/*
 * The limit is slow for this tenant: now, or with any of the two overrides left
 * out, since one that is deleted leaves no trace.
 */
extern bool policy_is_slow(const PolicySource *s, const PolicyLimit *limit,
						   const PolicyOverride *tier,
						   const PolicyOverride *tenant);

/*
 * Until when units may have been taken that no mark knows of; PG_INT64_MIN = never.
 * remade_ns is what the limit's own rows say.
 */
extern int64 policy_emptied_ns(const PolicySource *s, const PolicyLimit *limit,
							   int64 remade_ns);

#endif							/* QUOTA_POLICY_SLOW_H */
