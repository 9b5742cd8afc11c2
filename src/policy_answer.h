/*
 * policy_answer.h
 *		What rows of quota.answers say.
 */
#ifndef QUOTA_POLICY_ANSWER_H
#define QUOTA_POLICY_ANSWER_H

#include "config.h"
#include "feedback.h"
#include "policy_load.h"

/* A row of quota.answers, for the rules. */
extern void policy_read_answer(PolicyRules *rules, const ConfigScan *scan);

/*
 * The rows for answers of a provider, palloc'd.  May throw when out of memory.
 */
extern FeedbackRule *policy_answer_rules(const char *provider, int *n);

#endif							/* QUOTA_POLICY_ANSWER_H */
