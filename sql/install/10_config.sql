/*
 * Configuration: plain tables for INSERT, UPDATE and DELETE.  The next decision
 * after COMMIT obeys.
 *
 * Column numbers must agree with src/config.h.  There are no foreign keys: rows
 * may be restored in any order, and one that does not belong to any other has
 * no effect.
 */

CREATE TABLE quota.tiers (
	tier text PRIMARY KEY,
	weight numeric NOT NULL DEFAULT 1,
	max_in_flight integer,
	max_queued integer,
	CONSTRAINT tiers_tier_length CHECK (pg_catalog.octet_length(tier) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tier) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tiers_weight_range CHECK (weight OPERATOR(pg_catalog.>=) 0.001
		AND weight OPERATOR(pg_catalog.<=) 1000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(weight)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT tiers_max_in_flight_range CHECK (max_in_flight OPERATOR(pg_catalog.>=) 0),
	CONSTRAINT tiers_max_queued_range CHECK (max_queued OPERATOR(pg_catalog.>=) 0)
) USING heap;
COMMENT ON TABLE quota.tiers IS 'Tiers (plans) of tenants.';
COMMENT ON COLUMN quota.tiers.tier IS 'Name of the tier.';
COMMENT ON COLUMN quota.tiers.weight IS 'Share of what is scarce, compared with the weights of other tenants: 0.001 to 1000000, at most three decimals.';
COMMENT ON COLUMN quota.tiers.max_in_flight IS 'Calls a tenant may have in flight at one provider; NULL = no limit, 0 = none.';
COMMENT ON COLUMN quota.tiers.max_queued IS 'Unfinished jobs (waiting or running) a tenant may have at one provider; NULL = no limit, 0 = none.';

CREATE TABLE quota.tenants (
	tenant text PRIMARY KEY,
	tier text NOT NULL,
	seats integer NOT NULL DEFAULT 1,
	weight numeric,
	max_in_flight integer,
	max_queued integer,
	suspended boolean NOT NULL DEFAULT false,
	created_epoch bigint NOT NULL DEFAULT 0,
	changed_epoch bigint NOT NULL DEFAULT 0,
	changed_ns bigint NOT NULL DEFAULT 0,
	CONSTRAINT tenants_tenant_length CHECK (pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tenants_tier_length CHECK (pg_catalog.octet_length(tier) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tier) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tenants_seats_range CHECK (seats OPERATOR(pg_catalog.>=) 1),
	CONSTRAINT tenants_weight_range CHECK (weight OPERATOR(pg_catalog.>=) 0.001
		AND weight OPERATOR(pg_catalog.<=) 1000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(weight)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT tenants_max_in_flight_range CHECK (max_in_flight OPERATOR(pg_catalog.>=) 0),
	CONSTRAINT tenants_max_queued_range CHECK (max_queued OPERATOR(pg_catalog.>=) 0)
) USING heap;
COMMENT ON TABLE quota.tenants IS 'Tenants: whoever shares the providers.';
COMMENT ON COLUMN quota.tenants.tenant IS 'Name of the tenant.';
COMMENT ON COLUMN quota.tenants.tier IS 'Its tier, a row of quota.tiers.';
COMMENT ON COLUMN quota.tenants.seats IS 'Multiplies the limits with per_seat.';
COMMENT ON COLUMN quota.tenants.weight IS 'Instead of the tier''s weight; NULL = as the tier says.';
COMMENT ON COLUMN quota.tenants.max_in_flight IS 'Instead of the tier''s max_in_flight; NULL = as the tier says.';
COMMENT ON COLUMN quota.tenants.max_queued IS 'Instead of the tier''s max_queued; NULL = as the tier says.';
COMMENT ON COLUMN quota.tenants.suspended IS 'Its calls are refused and its jobs wait; it may still enqueue.';
COMMENT ON COLUMN quota.tenants.created_epoch IS 'Internal: between which crashes the row was inserted.';
COMMENT ON COLUMN quota.tenants.changed_epoch IS 'Internal: between which crashes tier or seats last changed.';
COMMENT ON COLUMN quota.tenants.changed_ns IS 'Internal: when tier or seats last changed, by the clock of rates.';

CREATE TABLE quota.providers (
	provider text PRIMARY KEY,
	account text,
	safety numeric NOT NULL DEFAULT 0.9,
	share_unit text NOT NULL DEFAULT 'request',
	max_queued integer,
	max_attempts integer NOT NULL DEFAULT 5,
	retry_base interval NOT NULL DEFAULT '1 second',
	retry_max interval NOT NULL DEFAULT '5 minutes',
	lost_permit text NOT NULL DEFAULT 'charge',
	lease interval NOT NULL DEFAULT '60 seconds',
	notify_channel text,
	burst_multiplier numeric NOT NULL DEFAULT 2,
	share_reserve numeric NOT NULL DEFAULT 0.5,
	active_window interval,
	retry_share numeric,
	retry_floor integer NOT NULL DEFAULT 10,
	cooldown interval NOT NULL DEFAULT '30 seconds',
	created_epoch bigint NOT NULL DEFAULT 0,
	changed_epoch bigint NOT NULL DEFAULT 0,
	changed_ns bigint NOT NULL DEFAULT 0,
	CONSTRAINT providers_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT providers_account_length CHECK (pg_catalog.octet_length(account) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(account) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT providers_safety_range CHECK (safety OPERATOR(pg_catalog.>) 0::numeric
		AND safety OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(safety)) OPERATOR(pg_catalog.<=) 6),
	CONSTRAINT providers_share_unit_length CHECK (pg_catalog.octet_length(share_unit) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(share_unit) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT providers_max_queued_range CHECK (max_queued OPERATOR(pg_catalog.>=) 0),
	CONSTRAINT providers_max_attempts_range CHECK (max_attempts OPERATOR(pg_catalog.>=) 1),
	CONSTRAINT providers_retry_base_range CHECK (retry_base OPERATOR(pg_catalog.>) '0'::interval
		AND retry_base OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT providers_retry_max_range CHECK (retry_max OPERATOR(pg_catalog.>=) retry_base
		AND retry_max OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT providers_lost_permit_word CHECK (lost_permit OPERATOR(pg_catalog.=) ANY (ARRAY['charge', 'refund'])),
	CONSTRAINT providers_lease_range CHECK (lease OPERATOR(pg_catalog.>) '0'::interval
		AND lease OPERATOR(pg_catalog.<=) '24 hours'::interval),
	CONSTRAINT providers_notify_channel_length CHECK (pg_catalog.octet_length(notify_channel) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(notify_channel) OPERATOR(pg_catalog.<=) 63),
	CONSTRAINT providers_burst_multiplier_range CHECK (burst_multiplier OPERATOR(pg_catalog.>=) 0::numeric
		AND burst_multiplier OPERATOR(pg_catalog.<=) 1000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(burst_multiplier)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT providers_share_reserve_range CHECK (share_reserve OPERATOR(pg_catalog.>=) 0::numeric
		AND share_reserve OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(share_reserve)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT providers_active_window_range CHECK (active_window OPERATOR(pg_catalog.>) '0'::interval
		AND active_window OPERATOR(pg_catalog.<=) '60 seconds'::interval),
	CONSTRAINT providers_retry_share_range CHECK (retry_share OPERATOR(pg_catalog.>=) 0::numeric
		AND retry_share OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(retry_share)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT providers_retry_floor_range CHECK (retry_floor OPERATOR(pg_catalog.>=) 1),
	CONSTRAINT providers_cooldown_range CHECK (cooldown OPERATOR(pg_catalog.>) '0'::interval
		AND cooldown OPERATOR(pg_catalog.<=) '24 hours'::interval)
) USING heap;
COMMENT ON TABLE quota.providers IS 'Providers: each is one identity that a third party meters, such as an OAuth app or an API key.';
COMMENT ON COLUMN quota.providers.provider IS 'Name of the provider.';
COMMENT ON COLUMN quota.providers.account IS 'What the third party bills and may exhaust; several providers may belong to it. NULL = the provider''s own name. Limits of the account (quota.limits.account) count the calls of all of them; another account acts on the next decision after COMMIT, and what calls took of limits of the old one stays there.';
COMMENT ON COLUMN quota.providers.safety IS 'Fraction of what the provider documents that is used (external limits): above 0 to 1, at most six decimals.';
COMMENT ON COLUMN quota.providers.share_unit IS 'Unit in which tenants'' shares of this provider are counted.';
COMMENT ON COLUMN quota.providers.max_queued IS 'Unfinished jobs (waiting or running) of all tenants together; NULL = no limit, 0 = none.';
COMMENT ON COLUMN quota.providers.max_attempts IS 'Attempts of a job that does not say how many, unless its class does.';
COMMENT ON COLUMN quota.providers.retry_base IS 'A failed job is tried again after a random time up to this, doubled with each attempt.';
COMMENT ON COLUMN quota.providers.retry_max IS 'Longest time before a retry.';
COMMENT ON COLUMN quota.providers.lost_permit IS 'What happens to credits of a call that nobody settled before its permit''s lifetime was over: charge (they stay spent) or refund (they return at that very instant). What is said when the call is admitted holds for it.';
COMMENT ON COLUMN quota.providers.lease IS 'How long a worker may keep a job unless it says otherwise; at most 24 hours.';
COMMENT ON COLUMN quota.providers.notify_channel IS 'Channel (1 to 63 bytes) on which a background worker tells, by NOTIFY, of every job that has finished, once that has committed, such as {"id": 7, "state": "succeeded", "provider": "llm", "tenant": "acme"}; NULL = none. Best effort, mostly within two seconds: a restart of the server loses what was not sent yet, a worker that dies may send some again, and what comes while 4096 wait to be sent is told as {"provider": "llm", "lost": 12}.';
COMMENT ON COLUMN quota.providers.burst_multiplier IS 'Of a limit that tenants share: a tenant that asks for less than its share may save up what this times its share of one period comes to, and one call at least: 0 to 1000, at most three decimals.';
COMMENT ON COLUMN quota.providers.share_reserve IS 'Part of such a limit''s capacity that direct calls beyond their tenant''s share leave, while other tenants were refused within active_window: 0 to 1, at most three decimals. 0 = shares are not heeded at all, first come, first served.';
COMMENT ON COLUMN quota.providers.active_window IS 'A tenant that asked within it counts where a limit is shared out: above 0 to 60 seconds; NULL = one period of the limit, at least 1 second and at most 60.';
COMMENT ON COLUMN quota.providers.retry_share IS 'Retry budget: retries may be this share of the first attempts of the last ten seconds, beside retry_floor, of the provider and of each of its tenants: 0 to 1, at most three decimals, such as 0.2; NULL = no budget. A call is a retry when it says so (attempt above 1), a job when it has used an attempt. A retry that is not in both budgets is refused as retry_budget; retries of jobs wait while the others of their flow go on. Counted by seconds of the clock of rates, the present one and the nine before; in any interval that touches d seconds retries are at most retry_floor x (d / 10, rounded up) + retry_share x the first attempts made in it and in the nine seconds before.';
COMMENT ON COLUMN quota.providers.retry_floor IS 'Retry budget: retries in ten seconds that are in it whatever the first attempts, of the provider and of each of its tenants; at least 1. After a crash they count as made.';
COMMENT ON COLUMN quota.providers.cooldown IS 'How long calls are paused after an answer that refuses for now without saying until when, such as a 429 without Retry-After: above 0 to 24 hours.';
COMMENT ON COLUMN quota.providers.created_epoch IS 'Internal: between which crashes the row was inserted.';
COMMENT ON COLUMN quota.providers.changed_epoch IS 'Internal: between which crashes safety or account last changed.';
COMMENT ON COLUMN quota.providers.changed_ns IS 'Internal: when safety or account last changed, by the clock of rates.';

CREATE TABLE quota.classes (
	class text PRIMARY KEY,
	rank integer NOT NULL,
	reserve numeric NOT NULL DEFAULT 0,
	max_wait interval,
	start_within interval,
	max_fill numeric NOT NULL DEFAULT 1,
	max_attempts integer,
	retry_base interval,
	retry_max interval,
	headroom numeric NOT NULL DEFAULT 0,
	on_exhausted text NOT NULL DEFAULT 'wait',
	CONSTRAINT classes_class_length CHECK (pg_catalog.octet_length(class) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(class) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT classes_rank_range CHECK (rank OPERATOR(pg_catalog.>=) 0),
	CONSTRAINT classes_reserve_range CHECK (reserve OPERATOR(pg_catalog.>=) 0::numeric
		AND reserve OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(reserve)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT classes_max_wait_range CHECK (max_wait OPERATOR(pg_catalog.>) '0'::interval
		AND max_wait OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT classes_start_within_range CHECK (start_within OPERATOR(pg_catalog.>) '0'::interval
		AND start_within OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT classes_max_fill_range CHECK (max_fill OPERATOR(pg_catalog.>) 0::numeric
		AND max_fill OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(max_fill)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT classes_max_attempts_range CHECK (max_attempts OPERATOR(pg_catalog.>=) 1),
	CONSTRAINT classes_retry_base_range CHECK (retry_base OPERATOR(pg_catalog.>) '0'::interval
		AND retry_base OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT classes_retry_max_range CHECK (retry_max OPERATOR(pg_catalog.>) '0'::interval
		AND retry_max OPERATOR(pg_catalog.>=) coalesce(retry_base, retry_max)
		AND retry_max OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT classes_on_exhausted_word CHECK (on_exhausted OPERATOR(pg_catalog.=) ANY (ARRAY['wait', 'fail'])),
	CONSTRAINT classes_headroom_range CHECK (headroom OPERATOR(pg_catalog.>=) 0::numeric
		AND headroom OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(headroom)) OPERATOR(pg_catalog.<=) 3)
) USING heap;
COMMENT ON TABLE quota.classes IS 'Work classes, at most 16. Inserting one that came with the extension updates its row.';
COMMENT ON COLUMN quota.classes.class IS 'Name of the class. interactive, event and batch come with the extension; a call or job without a class is of class event.';
COMMENT ON COLUMN quota.classes.rank IS 'Jobs of a class with a lower rank go first.';
COMMENT ON COLUMN quota.classes.reserve IS 'Part of what a provider''s jobs cost that this class gets at least while it has work that may run, whatever its rank: 0 to 1, at most three decimals; at most 1 over all classes.';
COMMENT ON COLUMN quota.classes.max_wait IS 'Once a job has waited longer than this its class goes before lower ranks, for at most a fifth of what is dispatched; NULL = never.';
COMMENT ON COLUMN quota.classes.start_within IS 'start_before of jobs that give none: so long after their creation or run_at, whichever is later; NULL = none.';
COMMENT ON COLUMN quota.classes.max_fill IS 'New jobs of this class are refused once the provider''s max_queued is used up to this part: above 0 to 1, at most three decimals.';
COMMENT ON COLUMN quota.classes.max_attempts IS 'Attempts of a job that does not say how many; NULL = as the provider says.';
COMMENT ON COLUMN quota.classes.retry_base IS 'Instead of the provider''s retry_base; NULL = as the provider says. Above the retry_max of a provider it is refused (23514), unless the class has a retry_max of its own.';
COMMENT ON COLUMN quota.classes.retry_max IS 'Instead of the provider''s retry_max, also where that provider''s retry_base is above it; NULL = as the provider says.';
COMMENT ON COLUMN quota.classes.headroom IS 'Part of the capacity of every limit, but for allowances, that calls and jobs of this class leave to classes with less headroom: 0 to 1, at most three decimals. Rounded up to whole units, and never so much that a call would not fit an idle limit; where the capacity is less than two calls, a call is refused instead while one of a class with less headroom was refused within the time in which the limit refills by one call (concurrency: within a second).';
COMMENT ON COLUMN quota.classes.on_exhausted IS 'What becomes of jobs of this class for which an allowance has nothing left in its period, even if all that is held came back: they wait for the next period, or fail when their turn comes, with the limit and the end of its period as the error. While open holds keep them, they wait until the first of these has ended. quota_acquire_wait of such a class does not wait then either.';
INSERT INTO quota.classes (class, rank, reserve, max_fill, headroom) VALUES
	('interactive', 1, 0, 1, 0), ('event', 2, 0, 0.95, 0), ('batch', 3, 0.05, 0.9, 0.1);

CREATE TABLE quota.limits (
	provider text,
	name text NOT NULL,
	account text,
	endpoint text,
	per text[] NOT NULL DEFAULT '{}',
	unit text NOT NULL DEFAULT 'request',
	kind text NOT NULL DEFAULT 'token_bucket',
	amount numeric,
	period interval,
	burst bigint,
	anchor timestamptz,
	time_zone text,
	per_seat boolean NOT NULL DEFAULT false,
	external boolean,
	enforcement text NOT NULL DEFAULT 'hard',
	permit_lifetime interval NOT NULL DEFAULT '60 seconds',
	settle_over text NOT NULL DEFAULT 'debt',
	settle_late text NOT NULL DEFAULT 'refuse',
	warn_at numeric[],
	adaptive boolean NOT NULL DEFAULT false,
	adaptive_floor numeric NOT NULL DEFAULT 0.1,
	adaptive_step numeric NOT NULL DEFAULT 0.05,
	created_epoch bigint NOT NULL DEFAULT 0,
	changed_epoch bigint NOT NULL DEFAULT 0,
	changed_ns bigint NOT NULL DEFAULT 0,
	CONSTRAINT limits_key UNIQUE NULLS NOT DISTINCT (provider, name),
	CONSTRAINT limits_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT limits_name_length CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT limits_name_reserved CHECK (name OPERATOR(pg_catalog.<>) ALL (ARRAY['max_in_flight', 'retry_budget', 'tenant_retry_budget'])),
	CONSTRAINT limits_account_length CHECK (pg_catalog.octet_length(account) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(account) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT limits_account_without_provider CHECK (account IS NULL OR provider IS NULL),
	CONSTRAINT limits_endpoint_length CHECK (pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT limits_per_words CHECK (per OPERATOR(pg_catalog.<@)
		ARRAY['tenant', 'user', 'connection', 'resource', 'endpoint', 'class']),
	CONSTRAINT limits_unit_length CHECK (pg_catalog.octet_length(unit) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(unit) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT limits_unit_of_concurrency CHECK (kind OPERATOR(pg_catalog.<>) 'concurrency'
		OR unit OPERATOR(pg_catalog.=) 'request'),
	CONSTRAINT limits_kind_word CHECK (kind OPERATOR(pg_catalog.=) ANY (ARRAY['token_bucket', 'leaky_bucket', 'fixed_window', 'sliding_window', 'concurrency', 'allowance'])),
	CONSTRAINT limits_amount_range CHECK (amount OPERATOR(pg_catalog.>=) 0::numeric
		AND amount OPERATOR(pg_catalog.<=) 1000000000000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(amount)) OPERATOR(pg_catalog.<=) 9),
	CONSTRAINT limits_period_range CHECK (period OPERATOR(pg_catalog.>) '0'::interval
		AND period OPERATOR(pg_catalog.<=) '100 years'::interval),
	CONSTRAINT limits_period_presence CHECK ((period IS NULL)
		OPERATOR(pg_catalog.=) (kind OPERATOR(pg_catalog.=) 'concurrency')),
	CONSTRAINT limits_burst_range CHECK (burst OPERATOR(pg_catalog.>=) 1
		AND burst OPERATOR(pg_catalog.<=) 1000000000000000),
	CONSTRAINT limits_burst_of_bucket CHECK (burst IS NULL
		OR kind OPERATOR(pg_catalog.=) ANY (ARRAY['token_bucket', 'leaky_bucket'])),
	CONSTRAINT limits_anchor_of_window_or_allowance CHECK (anchor IS NULL
		OR (kind OPERATOR(pg_catalog.=) ANY (ARRAY['fixed_window', 'allowance']) AND pg_catalog.isfinite(anchor))),
	CONSTRAINT limits_period_of_window_without_months CHECK (kind OPERATOR(pg_catalog.<>) 'fixed_window'
		OR (pg_catalog.date_part('year', period) OPERATOR(pg_catalog.=) 0::double precision
			AND pg_catalog.date_part('month', period) OPERATOR(pg_catalog.=) 0::double precision)),
	CONSTRAINT limits_time_zone_of_allowance CHECK (time_zone IS NULL
		OR kind OPERATOR(pg_catalog.=) 'allowance'),
	CONSTRAINT limits_per_seat_per_tenant CHECK (NOT per_seat
		OR per OPERATOR(pg_catalog.@>) ARRAY['tenant']),
	CONSTRAINT limits_external_of_provider CHECK (provider IS NOT NULL OR account IS NOT NULL
		OR external IS NOT TRUE),
	CONSTRAINT limits_enforcement_word CHECK (enforcement OPERATOR(pg_catalog.=) ANY (ARRAY['hard', 'soft', 'shadow'])),
	CONSTRAINT limits_permit_lifetime_range CHECK (permit_lifetime OPERATOR(pg_catalog.>) '0'::interval
		AND permit_lifetime OPERATOR(pg_catalog.<=) '1 year'::interval),
	CONSTRAINT limits_settle_over_word CHECK (settle_over OPERATOR(pg_catalog.=) ANY (ARRAY['debt', 'cap', 'refuse'])),
	CONSTRAINT limits_settle_over_of_allowance CHECK (settle_over OPERATOR(pg_catalog.=) 'debt'
		OR kind OPERATOR(pg_catalog.=) 'allowance'),
	CONSTRAINT limits_settle_late_word CHECK (settle_late OPERATOR(pg_catalog.=) ANY (ARRAY['refuse', 'charge_now'])),
	CONSTRAINT limits_settle_late_of_allowance CHECK (settle_late OPERATOR(pg_catalog.=) 'refuse'
		OR kind OPERATOR(pg_catalog.=) 'allowance'),
	CONSTRAINT limits_warn_at_range CHECK (pg_catalog.array_position(warn_at, NULL) IS NULL
		AND 0.001 OPERATOR(pg_catalog.<=) ALL (warn_at)
		AND 1000::numeric OPERATOR(pg_catalog.>=) ALL (warn_at)
		AND pg_catalog.cardinality(warn_at) OPERATOR(pg_catalog.<=) 8),
	CONSTRAINT limits_warn_at_of_allowance CHECK (warn_at IS NULL
		OR kind OPERATOR(pg_catalog.=) 'allowance'),
	CONSTRAINT limits_adaptive_of_rate_or_concurrency CHECK (NOT adaptive
		OR kind OPERATOR(pg_catalog.<>) 'allowance'),
	CONSTRAINT limits_adaptive_floor_range CHECK (adaptive_floor OPERATOR(pg_catalog.>=) 0.001
		AND adaptive_floor OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(adaptive_floor)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT limits_adaptive_step_range CHECK (adaptive_step OPERATOR(pg_catalog.>=) 0.001
		AND adaptive_step OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(adaptive_step)) OPERATOR(pg_catalog.<=) 3)
) USING heap;
ALTER TABLE quota.limits REPLICA IDENTITY FULL;
COMMENT ON TABLE quota.limits IS 'Limits: a call is admitted when every limit that matches it has room. Deleting an allowance is refused while a hold of it is open (55000; one of another transaction that has not committed is not in the way). Its entries stay, and the same limit (provider, name and per), inserted again, goes on with what was spent and granted in its current period.';
COMMENT ON INDEX quota.limits_key IS 'A provider has one limit of a name, and so have all limits without a provider together.';
COMMENT ON COLUMN quota.limits.provider IS 'Calls to this provider; NULL = the limit counts calls to all providers together, or to those of account.';
COMMENT ON COLUMN quota.limits.name IS 'Name of the limit. Limits without a provider have different names, whatever their accounts: provider NULL and the name say which one is meant in quota.tier_limits, quota.tenant_limits, quota.ledger and quota_grant.';
COMMENT ON COLUMN quota.limits.account IS 'Calls to the providers that belong to this account (quota.providers.account, or their own name) count together; only with provider NULL. NULL = of that provider, or of all. Changing it keeps what was spent.';
COMMENT ON COLUMN quota.limits.endpoint IS 'Calls to these endpoints: a pattern in which * stands for any text; NULL = all calls.';
COMMENT ON COLUMN quota.limits.per IS 'Every tenant, user, connection, resource, endpoint or class has a bucket of its own; several words: every combination; none: all share one. A limit per user, connection or resource does not apply to a call that names none; calls without an endpoint share a bucket of their own, calls without a class are of class event. Changing it makes other buckets, in which nothing is spent.';
COMMENT ON COLUMN quota.limits.unit IS 'What is counted; quota.costs says how much of it a call costs. Changing it keeps what was spent, as so many of the new unit.';
COMMENT ON COLUMN quota.limits.kind IS 'Each kind has buckets of its own; changing it and back finds the old ones. What each guarantees: token_bucket: in any interval of length d at most burst + amount / period x d. leaky_bucket (evenly paced): at most amount / period x d + burst, or + the dearest call if that is more; a call goes out as soon as what it costs, or all of burst, is there, and those after it wait for as long as it is worth; one call may cost up to a whole amount. fixed_window: in each window of a period at most amount; so in any interval of length d at most amount x (d / period, rounded down, + 2). sliding_window: in any interval as long as the period at most amount; up to an amount of 16 exactly that, of more what was used comes back up to 1/15 of the period late. concurrency: at no time more than amount calls between admission and the end of their permit. allowance: in no calendar period more than amount plus what was granted, kept in the ledger. Of leaky_bucket and the windows what is settled beyond the estimate is a debt: until it has leaked, its window ended, or it is a period old. After a crash a bucket holds what would have refilled since, a leaky one since the dearest call that quota.costs knows of the unit, or that costs a whole amount if it knows none (what a caller gave it beyond that is forgotten); a window that may have begun before counts as used up, and all of a sliding window as used at the restart. One that takes more than 60 seconds to refill, or whose window is longer, resumes from what quota.marks says instead.';
COMMENT ON COLUMN quota.limits.amount IS 'Units; NULL = no limit (quota.tier_limits and quota.tenant_limits may set one), 0 = closed. At most 1e15, at most nine decimals, and a rate that is a fraction of 64-bit numbers.';
COMMENT ON COLUMN quota.limits.period IS 'token_bucket, leaky_bucket: time in which the amount refills; sliding_window: the length of the interval; both may name months, of 30 days each. fixed_window: the length of a window, without months, a day always counting 24 hours. allowance: n months (years) or n days (weeks) of the calendar in time_zone, or n hours, minutes and seconds that pass whatever clocks show; not a mixture (22023). concurrency: none.';
COMMENT ON COLUMN quota.limits.burst IS 'token_bucket: units that can be taken at once. NULL = the amount, or for an external limit half of what safety leaves out: amount x (1 - safety) / 2, at least 1. leaky_bucket: units by which calls may be early; NULL = 1. Others have none (23514).';
COMMENT ON COLUMN quota.limits.anchor IS 'allowance: a time when a period starts; NULL = 2000-01-01 00:00 in time_zone, a Saturday. Periods before and after are counted from it in local time: months after the 31st start on the 31st or the last day of a shorter month. One that would start at a time which clocks skip starts at the end of the gap, one at a time that comes twice at the first. A new anchor, period or time zone acts at once; while permits or transactions hold charges of the old period that one goes on until it ends. fixed_window: a time when a window starts; NULL = 2000-01-01 00:00 UTC. When the wall clock is stepped, or anchor or period is changed, a window may last up to two periods, never less than one.';
COMMENT ON COLUMN quota.limits.time_zone IS 'allowance: in whose local time days and months are counted, by a name as SET timezone takes it (Europe/Paris); NULL = UTC. A name this server does not know is refused (22023); if its time zone data is changed and lacks the name later, calls that meet the limit fail (55000). A session learns of changed data when it is started anew.';
COMMENT ON COLUMN quota.limits.per_seat IS 'The amount is multiplied by the tenant''s seats; needs per to include tenant.';
COMMENT ON COLUMN quota.limits.external IS 'The provider''s own rule: the provider''s safety applies, of a limit of an account the lowest of its providers. NULL = yes unless per includes tenant or the limit is across all providers.';
COMMENT ON COLUMN quota.limits.enforcement IS 'hard: refuses what it has no room for. soft: admits it with reason soft_limit, tells it once as an event of that kind (an allowance once a period; others again once they have recovered, a minute later at the earliest) and charges it as a debt: a rate owes at most what it allows in one period, or its capacity if that is more, calls in flight as many as have a permit (the last quarter of quota.max_permits is left to calls that limits have room for), an allowance in the ledger until the period ends. shadow: changes nothing and only counts what it would have refused (quota.stat_buckets.would_refuse) while charging itself with what it would have admitted, an allowance in memory only and without entries; calls in flight it sees only if they have a permit for other reasons. Changed at any time: what was spent is kept, but for what a shadow allowance counted.';
COMMENT ON COLUMN quota.limits.permit_lifetime IS 'A permit that nobody settled ends after this time.';
COMMENT ON COLUMN quota.limits.settle_over IS 'allowance: a call that is settled with more units than were held is charged all of it (debt: what is left may become negative, and blocks further calls until it is not), or no more than was held (cap), or cannot be settled with that (refuse, 22023). As it is when the call is settled. Of other kinds always debt, see quota_settle.';
COMMENT ON COLUMN quota.limits.settle_late IS 'allowance: a call whose permit has expired cannot be settled (refuse, 55000), or it is charged then, once, what it used, whatever is left, in the period it was admitted in (charge_now); what has returned or stayed spent when it expired counts towards that. All allowances that the call has drawn on must allow it. As it is when the call is settled.';
COMMENT ON COLUMN quota.limits.warn_at IS 'allowance: fractions of it, such as {0.5,0.8,1}, whose use up to there (holds included) is told as an event of kind budget_reached, each once in a period, by the call that reaches it; what settling or adjusting reaches is told by the next call. At most 8, 0.001 to 1000, in thousandths. A crash of the server in the period may have it told again.';
COMMENT ON COLUMN quota.limits.adaptive IS 'Not for an allowance (23514). How much of the amount is used follows what the provider says; the amount is the most that ever is, and bounds hold for it. It begins with half of it (adaptive_floor, if that is more), and again after a crash. When a window has passed (the period, at least 0.1 and at most 60 seconds; of calls in flight 1 second; it begins with a call) in which calls were refused by the limit and none by the provider, and half of what it allows was used, it rises by adaptive_step, but at most by a tenth of what it is. When the provider limits, a rate goes back to what had worked if it had just risen, else to 0.7 of what it is (0.95 at first, if that had worked for a window), empty, and rests for a tenth of a window and up to a quarter of that; between what has worked and what has not it then rises by halves, and tries more after 10, 20, 40, then every 80 windows. While it is below what did not work it waits for each rise, or try, ten times as long as the last refusal has paused calls (Retry-After, or the cooldown of the provider), except for the first rises after it fell to 0.7, which come after 1, 3, 9 windows; from the third on it rises by at most a twentieth. Where a row of quota.answers gives the scope, a refusal counts for limits that are kept by exactly that; else for those of the narrowest scope it may mean, or else of the next wider one, that the call met. Calls in flight follow overload in the same way, and latency: a window twice as slow, or more, than the long average takes it down by that ratio, at most to half. Every change is an event of kind adapted; see quota.stat_adaptive.';
COMMENT ON COLUMN quota.limits.adaptive_floor IS 'Part of the amount that is used in any case: 0.001 to 1, at most three decimals.';
COMMENT ON COLUMN quota.limits.adaptive_step IS 'Part of the amount by which it rises: 0.001 to 1, at most three decimals.';
COMMENT ON COLUMN quota.limits.created_epoch IS 'Internal: between which crashes the row was inserted.';
COMMENT ON COLUMN quota.limits.changed_epoch IS 'Internal: between which crashes the rate last changed.';
COMMENT ON COLUMN quota.limits.changed_ns IS 'Internal: when the rate last changed, by the clock of rates.';

CREATE TABLE quota.tier_limits (
	tier text NOT NULL,
	provider text,
	name text NOT NULL,
	amount numeric,
	burst bigint,
	multiplier numeric,
	changed_epoch bigint NOT NULL DEFAULT 0,
	changed_ns bigint NOT NULL DEFAULT 0,
	CONSTRAINT tier_limits_key UNIQUE NULLS NOT DISTINCT (tier, provider, name),
	CONSTRAINT tier_limits_tier_length CHECK (pg_catalog.octet_length(tier) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tier) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tier_limits_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tier_limits_name_length CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tier_limits_name_reserved CHECK (name OPERATOR(pg_catalog.<>) ALL (ARRAY['max_in_flight', 'retry_budget', 'tenant_retry_budget'])),
	CONSTRAINT tier_limits_amount_range CHECK (amount OPERATOR(pg_catalog.>=) 0::numeric
		AND amount OPERATOR(pg_catalog.<=) 1000000000000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(amount)) OPERATOR(pg_catalog.<=) 9),
	CONSTRAINT tier_limits_burst_range CHECK (burst OPERATOR(pg_catalog.>=) 1
		AND burst OPERATOR(pg_catalog.<=) 1000000000000000),
	CONSTRAINT tier_limits_multiplier_range CHECK (multiplier OPERATOR(pg_catalog.>) 0::numeric
		AND multiplier OPERATOR(pg_catalog.<=) 1000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(multiplier)) OPERATOR(pg_catalog.<=) 6)
) USING heap;
ALTER TABLE quota.tier_limits REPLICA IDENTITY FULL;
COMMENT ON TABLE quota.tier_limits IS 'What a limit is for the tenants of one tier. A row in which amount, burst and multiplier are NULL exempts them; a limit whose per does not include tenant can have no other.';
COMMENT ON COLUMN quota.tier_limits.tier IS 'The tier.';
COMMENT ON INDEX quota.tier_limits_key IS 'A tier has one row for a limit.';
COMMENT ON COLUMN quota.tier_limits.provider IS 'Provider of the limit; NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.tier_limits.name IS 'Name of the limit.';
COMMENT ON COLUMN quota.tier_limits.amount IS 'Instead of the limit''s amount; NULL = as it is.';
COMMENT ON COLUMN quota.tier_limits.burst IS 'Instead of the limit''s burst (token_bucket, leaky_bucket); NULL = as it is.';
COMMENT ON COLUMN quota.tier_limits.multiplier IS 'Multiplies the amount of this row, or else of the limit; NULL = 1. Above 0, at most 1000000 and six decimals.';
COMMENT ON COLUMN quota.tier_limits.changed_epoch IS 'Internal: between which crashes the rate last changed.';
COMMENT ON COLUMN quota.tier_limits.changed_ns IS 'Internal: when the rate last changed, by the clock of rates.';

CREATE TABLE quota.tenant_limits (
	tenant text NOT NULL,
	provider text,
	name text NOT NULL,
	amount numeric,
	burst bigint,
	multiplier numeric,
	changed_epoch bigint NOT NULL DEFAULT 0,
	changed_ns bigint NOT NULL DEFAULT 0,
	CONSTRAINT tenant_limits_key UNIQUE NULLS NOT DISTINCT (tenant, provider, name),
	CONSTRAINT tenant_limits_tenant_length CHECK (pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(tenant) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tenant_limits_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tenant_limits_name_length CHECK (pg_catalog.octet_length(name) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(name) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT tenant_limits_name_reserved CHECK (name OPERATOR(pg_catalog.<>) ALL (ARRAY['max_in_flight', 'retry_budget', 'tenant_retry_budget'])),
	CONSTRAINT tenant_limits_amount_range CHECK (amount OPERATOR(pg_catalog.>=) 0::numeric
		AND amount OPERATOR(pg_catalog.<=) 1000000000000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(amount)) OPERATOR(pg_catalog.<=) 9),
	CONSTRAINT tenant_limits_burst_range CHECK (burst OPERATOR(pg_catalog.>=) 1
		AND burst OPERATOR(pg_catalog.<=) 1000000000000000),
	CONSTRAINT tenant_limits_multiplier_range CHECK (multiplier OPERATOR(pg_catalog.>) 0::numeric
		AND multiplier OPERATOR(pg_catalog.<=) 1000000::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(multiplier)) OPERATOR(pg_catalog.<=) 6)
) USING heap;
ALTER TABLE quota.tenant_limits REPLICA IDENTITY FULL;
CREATE INDEX tenant_limits_exempt ON quota.tenant_limits (provider, name)
	WHERE amount IS NULL AND burst IS NULL AND multiplier IS NULL;
COMMENT ON TABLE quota.tenant_limits IS 'What a limit is for one tenant, whatever its tier says. A row in which amount, burst and multiplier are NULL exempts it, such as a tenant with credentials of its own; a limit whose per does not include tenant can have no other.';
COMMENT ON INDEX quota.tenant_limits_exempt IS 'Limits from which some tenant is exempt.';
COMMENT ON INDEX quota.tenant_limits_key IS 'A tenant has one row for a limit; found by tenant.';
COMMENT ON COLUMN quota.tenant_limits.tenant IS 'The tenant.';
COMMENT ON COLUMN quota.tenant_limits.provider IS 'Provider of the limit; NULL for a limit across providers or of an account.';
COMMENT ON COLUMN quota.tenant_limits.name IS 'Name of the limit.';
COMMENT ON COLUMN quota.tenant_limits.amount IS 'Instead of the amount by the tier or the limit; NULL = as it is.';
COMMENT ON COLUMN quota.tenant_limits.burst IS 'Instead of the burst by the tier or the limit (token_bucket, leaky_bucket); NULL = as it is.';
COMMENT ON COLUMN quota.tenant_limits.multiplier IS 'Multiplies the amount of this row, or else of the tier or the limit; NULL = 1. Above 0, at most 1000000 and six decimals.';
COMMENT ON COLUMN quota.tenant_limits.changed_epoch IS 'Internal: between which crashes the rate last changed.';
COMMENT ON COLUMN quota.tenant_limits.changed_ns IS 'Internal: when the rate last changed, by the clock of rates.';

CREATE TABLE quota.costs (
	provider text NOT NULL,
	endpoint text,
	unit text NOT NULL,
	cost bigint NOT NULL,
	CONSTRAINT costs_key UNIQUE NULLS NOT DISTINCT (provider, endpoint, unit),
	CONSTRAINT costs_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT costs_endpoint_length CHECK (pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT costs_unit_length CHECK (pg_catalog.octet_length(unit) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(unit) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT costs_cost_range CHECK (cost OPERATOR(pg_catalog.>=) 0 AND cost OPERATOR(pg_catalog.<=) 1000000000)
) USING heap;
ALTER TABLE quota.costs REPLICA IDENTITY FULL;
COMMENT ON TABLE quota.costs IS 'What one call costs. Without a row it costs 1 request and nothing of any other unit.';
COMMENT ON INDEX quota.costs_key IS 'An endpoint has one cost in a unit.';
COMMENT ON COLUMN quota.costs.provider IS 'The provider.';
COMMENT ON COLUMN quota.costs.endpoint IS 'The endpoint, as calls name it (not a pattern); NULL = all that have no row of their own for this unit.';
COMMENT ON COLUMN quota.costs.unit IS 'Name of the unit: request, credit, input_token, ...';
COMMENT ON COLUMN quota.costs.cost IS 'Units of one call, 0 to 1000000000.';

CREATE TABLE quota.breakers (
	provider text NOT NULL,
	endpoint text,
	failure_ratio numeric NOT NULL DEFAULT 0.5,
	min_calls integer NOT NULL DEFAULT 20,
	window_time interval NOT NULL DEFAULT '30 seconds',
	window_calls integer,
	open_time interval NOT NULL DEFAULT '30 seconds',
	probes integer NOT NULL DEFAULT 3,
	probe_timeout interval NOT NULL DEFAULT '60 seconds',
	CONSTRAINT breakers_key UNIQUE NULLS NOT DISTINCT (provider, endpoint),
	CONSTRAINT breakers_provider_length CHECK (pg_catalog.octet_length(provider) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(provider) OPERATOR(pg_catalog.<=) 127),
	CONSTRAINT breakers_endpoint_length CHECK (pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.>=) 1
		AND pg_catalog.octet_length(endpoint) OPERATOR(pg_catalog.<=) 119),
	CONSTRAINT breakers_failure_ratio_range CHECK (failure_ratio OPERATOR(pg_catalog.>=) 0.001
		AND failure_ratio OPERATOR(pg_catalog.<=) 1::numeric
		AND pg_catalog.scale(pg_catalog.trim_scale(failure_ratio)) OPERATOR(pg_catalog.<=) 3),
	CONSTRAINT breakers_min_calls_range CHECK (min_calls OPERATOR(pg_catalog.>=) 1),
	CONSTRAINT breakers_window_time_range CHECK (window_time OPERATOR(pg_catalog.>=) '1 millisecond'::interval
		AND window_time OPERATOR(pg_catalog.<=) '1 day'::interval),
	CONSTRAINT breakers_window_calls_range CHECK (window_calls OPERATOR(pg_catalog.>=) min_calls
		AND window_calls OPERATOR(pg_catalog.<=) 100),
	CONSTRAINT breakers_open_time_range CHECK (open_time OPERATOR(pg_catalog.>) '0'::interval
		AND open_time OPERATOR(pg_catalog.<=) '1 day'::interval),
	CONSTRAINT breakers_probes_range CHECK (probes OPERATOR(pg_catalog.>=) 1 AND probes OPERATOR(pg_catalog.<=) 10),
	CONSTRAINT breakers_probe_timeout_range CHECK (probe_timeout OPERATOR(pg_catalog.>) '0'::interval
		AND probe_timeout OPERATOR(pg_catalog.<=) '1 day'::interval)
) USING heap;
ALTER TABLE quota.breakers REPLICA IDENTITY FULL;
COMMENT ON TABLE quota.breakers IS 'Circuit breakers: when too many calls fail, calls like them are refused as breaker_open for a while; then a few probes go out, and if these succeed all do. A call may match several; each stops what it matches only. What calls came to is learned from quota_report, quota_complete, and quota_settle and quota_fail with a status: failures are answers that say the provider is broken or overloaded, and none; what it rejects or limits says nothing of that. State and outcomes outlive a clean restart; after a crash a breaker is closed. See quota.stat_breakers.';
COMMENT ON INDEX quota.breakers_key IS 'An endpoint pattern has one breaker.';
COMMENT ON COLUMN quota.breakers.provider IS 'Calls to this provider.';
COMMENT ON COLUMN quota.breakers.endpoint IS 'Calls to these endpoints together: a pattern in which * stands for any text, at most 119 bytes; NULL = all calls. Decisions name the breaker by it, as "breaker" and the pattern.';
COMMENT ON COLUMN quota.breakers.failure_ratio IS 'It opens when this part of the calls in its window failed, or more: 0.001 to 1, at most three decimals; the same of its probes.';
COMMENT ON COLUMN quota.breakers.min_calls IS 'Calls that must have ended in the window before it may open.';
COMMENT ON COLUMN quota.breakers.window_time IS 'Calls count that have ended within this time, by the clock of rates and in steps of a tenth of it: 1 millisecond to 1 day.';
COMMENT ON COLUMN quota.breakers.window_calls IS 'And of these only so many, the last ones: min_calls to 100; NULL = all.';
COMMENT ON COLUMN quota.breakers.open_time IS 'How long it refuses all calls: above 0 to 1 day.';
COMMENT ON COLUMN quota.breakers.probes IS 'Calls that may be under way at a time after that, and that decide: 1 to 10.';
COMMENT ON COLUMN quota.breakers.probe_timeout IS 'A probe of which nothing was reported within this time makes place for another: above 0 to 1 day.';

SELECT pg_catalog.pg_extension_config_dump('quota.tiers', '');
SELECT pg_catalog.pg_extension_config_dump('quota.tenants', '');
SELECT pg_catalog.pg_extension_config_dump('quota.providers', '');
SELECT pg_catalog.pg_extension_config_dump('quota.classes', '');
SELECT pg_catalog.pg_extension_config_dump('quota.limits', '');
SELECT pg_catalog.pg_extension_config_dump('quota.tier_limits', '');
SELECT pg_catalog.pg_extension_config_dump('quota.tenant_limits', '');
SELECT pg_catalog.pg_extension_config_dump('quota.costs', '');
SELECT pg_catalog.pg_extension_config_dump('quota.breakers', '');

