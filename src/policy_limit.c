/*
 * policy_limit.c
 *		What rows of quota.limits say.
 */
#include "policy_limit.h"

#include "config_calendar.h"
#include "config_warn.h"
#include "policy_amount.h"

/* The kind a word of quota.limits.kind means. */
static QuotaKind
kind_of(const char *word)
{
	for (int kind = QUOTA_TOKEN_BUCKET; kind <= QUOTA_ALLOWANCE; kind++)
	{
		if (strcmp(word, quota_kind_name(kind)) == 0)
			return kind;
	}
	elog(ERROR, "invalid kind of limit \"%s\"", word);
}

/* What a word of quota.limits.enforcement means. */
static QuotaEnforcement
enforcement_of(const char *word)
{
	for (int e = QUOTA_HARD; e <= QUOTA_SHADOW; e++)
	{
		if (strcmp(word, quota_enforcement_name(e)) == 0)
			return e;
	}
	elog(ERROR, "invalid enforcement of limit \"%s\"", word);
}

/* What a word of quota.limits.settle_over means. */
static SettleOver
settle_over_of(const char *word)
{
	return strcmp(word, "cap") == 0 ? SETTLE_CAP
		: strcmp(word, "refuse") == 0 ? SETTLE_REFUSE : SETTLE_DEBT;
}

/* The fields of time that mean something for the limit's kind. */
static void
read_period(PolicyLimit *l, const ConfigScan *scan)
{
	l->anchor_us = config_int64(scan, LIMITS_ANCHOR, 0);
	if (l->kind == QUOTA_ALLOWANCE)
		l->calendar = config_calendar(scan);
	else
		l->period_ns = config_interval_ns(scan, LIMITS_PERIOD);
}

/* The lower safety of an external limit and another provider it is for. */
static void
add_safety(PolicyLimit *l, const PolicyProvider *p)
{
	l->safety = l->safety == NULL ? p->safety : policy_smaller(l->safety, p->safety);
	l->safety_changed_ns = Max(l->safety_changed_ns, p->changed_ns);
}

/* How much of an external limit is used; p NULL: it is of an account. */
static void
read_safety(PolicyLimit *l, const PolicyRules *rules, const PolicyProvider *p)
{
	HASH_SEQ_STATUS status;
	const PolicyProvider *other;

	if (p)
	{
		add_safety(l, p);
		return;
	}
	hash_seq_init(&status, rules->providers);
	while ((other = hash_seq_search(&status)) != NULL)
		if (strcmp(other->account, l->account) == 0)
			add_safety(l, other);
}

/* See policy_limit.h; only the kind's own fields of time are set. */
void
policy_read_limit(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyLimit *l = palloc0(sizeof(PolicyLimit));
	PolicyProvider *p = NULL;

	l->provider = config_text(scan, LIMITS_PROVIDER);
	if (l->provider)
	{
		p = hash_search(rules->providers, l->provider, HASH_FIND, NULL);
		if (p == NULL)
			return;
	}
	l->account = config_text(scan, LIMITS_ACCOUNT);
	l->name = config_text(scan, LIMITS_NAME);
	l->endpoint = config_text(scan, LIMITS_ENDPOINT);
	l->per = config_per(scan, LIMITS_PER);
	l->unit = config_text(scan, LIMITS_UNIT);
	l->kind = kind_of(config_text(scan, LIMITS_KIND));
	l->amount = config_numeric(scan, LIMITS_AMOUNT);
	read_period(l, scan);
	l->burst = config_int64(scan, LIMITS_BURST, -1);
	l->per_seat = config_bool(scan, LIMITS_PER_SEAT, false);
	l->external = (p || l->account) &&
		config_bool(scan, LIMITS_EXTERNAL, (l->per & PER_TENANT) == 0);
	if (l->external)
		read_safety(l, rules, p);
	l->enforcement = enforcement_of(config_text(scan, LIMITS_ENFORCEMENT));
	l->lifetime_ns = config_interval_ns(scan, LIMITS_PERMIT_LIFETIME);
	l->settle_over = settle_over_of(config_text(scan, LIMITS_SETTLE_OVER));
	l->nwarnings = config_warn_at(scan, LIMITS_WARN_AT, l->warn_milli);
	l->late_charges = strcmp(config_text(scan, LIMITS_SETTLE_LATE), "charge_now") == 0;
	l->adaptive = config_bool(scan, LIMITS_ADAPTIVE, false);
	l->adaptive_floor_milli =
		(int32) policy_times_1000(config_numeric(scan, LIMITS_ADAPTIVE_FLOOR), 1000);
	l->adaptive_step_milli =
		(int32) policy_times_1000(config_numeric(scan, LIMITS_ADAPTIVE_STEP), 1000);
	l->young = config_is_young(scan, LIMITS_CREATED_EPOCH);
	l->changed_ns = config_changed_ns(scan, LIMITS_CHANGED_EPOCH);
	l->remade_ns = config_remade_ns(scan, LIMITS_CHANGED_EPOCH);

	if (p)
	{
		p->limits = lappend(p->limits, l);
		p->learns |= l->adaptive;
	}
	else
	{
		rules->across = lappend(rules->across, l);
		rules->adaptive_across |= l->adaptive;
	}
}
