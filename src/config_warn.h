/*
 * config_warn.h
 *		Fractions of an allowance at which it warns.
 */
#ifndef QUOTA_CONFIG_WARN_H
#define QUOTA_CONFIG_WARN_H

#include "config.h"
#include "policy.h"

/*
 * Reads quota.limits.warn_at, of 1000: how many there are, at most QUOTA_MAX_WARNINGS,
 * as a constraint has it.
 */
extern int	config_warn_at(const ConfigScan *scan, int column, int32 *milli);

#endif							/* QUOTA_CONFIG_WARN_H */
