/*
 * policy_job.c
 *		What the class and the provider of a job say of its attempts and of its end.
 *
 * The class's row goes before the provider's.  Names without a row get what the
 * columns of quota.providers have by default: a restore may load jobs first, and
 * a provider's row may go while jobs of it are left.
 */
#include "policy_cache.h"

#define DEFAULT_MAX_ATTEMPTS 5
#define DEFAULT_BASE_NS (1 * QUOTA_NS_PER_S)
#define DEFAULT_MAX_NS (300 * QUOTA_NS_PER_S)

/* See policy.h. */
QuotaJobPolicy
quota_job_policy(const char *provider, const char *class_name)
{
	const PolicyRules *rules = policy_rules();
	const PolicyProvider *p = policy_find(rules->providers, provider);
	const PolicyClass *c = policy_find(rules->classes, class_name);
	QuotaJobPolicy policy = {0};

	policy.max_attempts = p ? p->max_attempts : DEFAULT_MAX_ATTEMPTS;
	policy.retry_base_ns = p ? p->retry_base_ns : DEFAULT_BASE_NS;
	policy.retry_max_ns = p ? p->retry_max_ns : DEFAULT_MAX_NS;
	policy.notifies = p && p->notify_channel != NULL;
	if (c == NULL)
		return policy;
	policy.start_within_ns = c->start_within_ns;
	if (c->max_attempts > 0)
		policy.max_attempts = c->max_attempts;
	if (c->retry_base_ns > 0)
		policy.retry_base_ns = c->retry_base_ns;
	if (c->retry_max_ns > 0)
		policy.retry_max_ns = c->retry_max_ns;
	return policy;
}
