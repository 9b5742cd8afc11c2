/*
 * policy_limit.h
 *		What rows of quota.limits say.
 */
#ifndef QUOTA_POLICY_LIMIT_H
#define QUOTA_POLICY_LIMIT_H

#include "config.h"
#include "policy_load.h"

/*
 * A row of quota.limits, for the rules, which have all providers; passed over when its
 * own is not among them.
 */
extern void policy_read_limit(PolicyRules *rules, const ConfigScan *scan);

#endif							/* QUOTA_POLICY_LIMIT_H */
