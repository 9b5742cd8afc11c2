/*
 * job_refresh.h
 *		Bringing the scheduler up to date with the configuration.
 */
#ifndef QUOTA_JOB_REFRESH_H
#define QUOTA_JOB_REFRESH_H

#include "quota.h"

/*
 * Weights of tenants and ranks of classes that commits have marked as stale are
 * read again, and flows parked for what may have changed are made ready.  No lock
 * held; throws.
 */
extern void job_refresh(uint32 slot);

#endif							/* QUOTA_JOB_REFRESH_H */
