/*
 * policy_job.c
 *		What the configuration says of a job: of its attempts and of its end, and
 *		how many may wait.
 *
 * The class's row goes before the provider's.  Names without a row get what the
 * columns of quota.providers have by default: a restore may load jobs first, and
 * a provider's row may go while jobs of it are left.
 */
#include "policy_cache.h"

#include "change.h"
#include "config.h"

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

/* See policy.h. */
bool
quota_notifies(void)
{
	return policy_rules()->notifies;
}

/* See policy.h. */
const char *
quota_notify_channel(const char *provider)
{
	const PolicyProvider *p = policy_find(policy_rules()->providers, provider);

	return p ? p->notify_channel : NULL;
}

/* See policy.h. */
bool
quota_learns(const char *provider)
{
	const PolicyRules *rules = policy_rules();
	const PolicyProvider *p = policy_find(rules->providers, provider);

	return p != NULL && (p->learns || rules->adaptive_across);
}

/* ---- rules of jobs ---- */

/* What has no row, though its table is not empty. */
static const char *
missing_row(const PolicyRules *rules, const PolicyTenant *tenant,
			const PolicyProvider *provider, const PolicyClass *class_row)
{
	if (!tenant->exists && config_any_row(QUOTA_REL_TENANTS))
		return "tenant";
	if (provider == NULL && hash_get_num_entries(rules->providers) > 0)
		return "provider";
	if (class_row == NULL && hash_get_num_entries(rules->classes) > 0)
		return "class";
	return NULL;
}

/*
 * The part of the provider's room that is there for jobs of the class; at least
 * one place, unless there is none at all.
 */
static int32
class_room(int32 provider_most, const PolicyClass *class_row)
{
	int64		milli = class_row ? class_row->max_fill_milli : 1000;

	if (provider_most <= 0)
		return provider_most;
	return (int32) Max(provider_most * milli / 1000, 1);
}

/* See policy.h. */
void
quota_job_rules(const char *tenant, const char *provider,
				const char *class_name, QuotaJobRules *out)
{
	const PolicyRules *rules = policy_rules();
	const CachedTenant *cached = policy_tenant(rules, tenant);
	const PolicyTenant *t = &cached->tenant;
	const PolicyProvider *p = policy_find(rules->providers, provider);
	const PolicyClass *c = policy_find(rules->classes, class_name);
	const PolicyTier *tier = t->exists ? policy_find(rules->tiers, t->tier) : NULL;

	out->serial = 0;			/* should the next lines fail */
	out->stamp = change_stamp(rules->extension, tenant, rules->number,
							  cached->number);
	out->missing = missing_row(rules, t, p, c);
	out->tenant_most = !t->exists ? -1 : t->max_queued >= 0 ? t->max_queued
		: tier ? tier->max_queued : -1;
	out->provider_most = p ? p->max_queued : -1;
	out->class_most = class_room(out->provider_most, c);
	out->policy = quota_job_policy(provider, class_name);
	out->bounded = out->tenant_most >= 0 || out->provider_most >= 0;
	/* whether there is any other tenant moves no counter of this one */
	if (t->exists && p && c && cached->serial == rules->serial)
		out->serial = rules->serial;
}

/* See policy.h. */
bool
quota_job_rules_are_current(const QuotaJobRules *rules)
{
	return rules->serial != 0 && rules->serial == policy_serial() &&
		quota_stamp_is_current(&rules->stamp);
}
