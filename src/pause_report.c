/*
 * pause_report.c
 *		Pauses that a provider's answer asks for; see pause.c.
 */
#include "pause_table.h"

#include "event.h"
#include "miscadmin.h"
#include "policy_cache.h"
#include "utils/timestamp.h"
#include "worker.h"

/* Of a provider without a row: the default of quota.providers.cooldown. */
#define DEFAULT_COOLDOWN_NS (30 * QUOTA_NS_PER_S)

/* See pause.h. */
PauseEnd
pause_until(TimestampTz wall_us)
{
	PauseEnd	end = {false, wall_us};

	return end;
}

/* See pause.h. */
PauseEnd
pause_for(int64 ns)
{
	PauseEnd	end = {true, quota_steady_of(quota_now_ns() + ns)};

	return end;
}

/* See pause.h. */
PauseEnd
pause_open_ended(void)
{
	return pause_until(DT_NOEND);
}

/* See pause.h. */
int64
pause_cooldown_ns(const char *provider)
{
	const PolicyProvider *p = policy_find(policy_rules()->providers, provider);

	return p ? p->cooldown_ns : DEFAULT_COOLDOWN_NS;
}

/* What there was of the scope, reported before; QUOTA_NO_INDEX. */
static uint32
find_reported(const PausePlace *place)
{
	uint32		i = pause_first(place);

	while (i != QUOTA_NO_INDEX &&
		   !(quota_pauses[i].reported && pause_is_of(&quota_pauses[i], place)))
		i = quota_pauses[i].chain;
	return i;
}

/*
 * The table fills, and so much of it is of reports for this tenant, or at this provider
 * for no tenant, that those of endpoints and connections are to become wider.
 */
static bool
has_its_part(const PausePlace *place)
{
	int			n = 0;

	if (place->of != PAUSE_OF_CALLS || (!place->endpoint[0] && !place->connection[0]) ||
		quota_shared->pauses_used < pause_narrow_places() / 2)
		return false;
	for (uint32 i = 0; i < (uint32) pause_places(); i++)
	{
		const QuotaPause *p = &quota_pauses[i];

		n += p->used && p->reported && strcmp(p->tenant, place->tenant) == 0 &&
			(place->tenant[0] ? p->database_slot == place->database_slot
			 : p->owner == place->owner);
	}
	return n >= pause_narrow_places() / 8;
}

/* A place for it, of the scope or the next wider one; QUOTA_NO_INDEX = none. */
static uint32
find_place(PausePlace *place, int64 now_ns)
{
	for (;;)
	{
		uint32		index = find_reported(place);

		if (index == QUOTA_NO_INDEX && !has_its_part(place))
			index = pause_make(place, now_ns);
		if (index != QUOTA_NO_INDEX)
			return index;
		if (place->endpoint[0])
			place->endpoint = "";
		else if (place->connection[0])
			place->connection = "";
		else if (place->tenant[0])
			place->tenant = "";
		else if (place->of == PAUSE_OF_LIMIT && place->owner != place->database_slot)
		{
			place->of = PAUSE_OF_CALLS;
			place->subject = "";
		}
		else
			return QUOTA_NO_INDEX;
	}
}

/* What is known of a report beside its scope. */
typedef struct Report
{
	PauseEnd	end;
	const char *reason;
	const char *role;
} Report;

/* It holds from now on; the lock is held.  True when it begins, and was not there. */
static bool
apply(uint32 index, const Report *report, int64 now_ns, TimestampTz wall_us)
{
	QuotaPause *p = &quota_pauses[index];
	bool		begins = !p->reported || !pause_is_on(p, now_ns, wall_us);
	QuotaPause	asked;

	asked.end = report->end;
	pg_atomic_init_u64(&asked.over_ns, 0);
	if (!begins && pause_end_ns(p, now_ns, wall_us) >=
		pause_end_ns(&asked, now_ns, wall_us))
	{
		/* as it is; but a resume that is not committed yet must not end it */
		p->version++;
		p->unwritten = true;
		return false;
	}
	if (!p->reported)
		p->id = pause_new_id();
	p->reported = p->unwritten = true;
	p->version++;
	p->end = report->end;
	pause_copy(p->reason, report->reason);
	strlcpy(p->set_by, report->role, sizeof(p->set_by));
	if (begins)
	{
		p->told = p->resumed = false;
		p->since_us = wall_us;
		p->since_ns = now_ns;
		pg_atomic_write_u64(&p->seen_ns, (uint64) now_ns);
		pg_atomic_write_u64(&p->over_ns, 0);
	}
	return begins;
}

/* Tells that it has begun. */
static void
tell(const QuotaPause *p)
{
	char		scope[PAUSE_SCOPE_LEN];
	char		detail[PAUSE_SCOPE_LEN + QUOTA_NAME_LEN + 100];
	TimestampTz until_us = pause_end_us(p, quota_now_ns(), quota_wall_us());

	pause_words(p, scope);
	snprintf(detail, sizeof(detail), "%s, until %s, reported by %s%s%s", scope,
			 until_us == DT_NOEND ? "it is resumed" : timestamptz_to_str(until_us),
			 p->set_by, p->reason[0] ? ": " : "", p->reason);
	quota_event(MyDatabaseId, "pause", quota_slots[p->owner].provider, p->tenant, detail);
}

/* See pause.h. */
void
pause_report(const PauseScope *scope, PauseEnd end, const char *reason)
{
	/* the role may have been dropped since the session began */
	const char *role = GetUserNameFromId(GetUserId(), true);
	Report		report = {end, reason, role ? role : ""};
	PausePlace	place;
	QuotaPause	begun;
	bool		begins = false;
	uint32		index;
	int64		now_ns;

	pause_load();
	place = pause_place(scope);
	LWLockAcquire(quota_shared->pause_lock, LW_EXCLUSIVE);
	now_ns = quota_now_ns();
	index = find_place(&place, now_ns);
	if (index != QUOTA_NO_INDEX)
	{
		begins = apply(index, &report, now_ns, quota_wall_us());
		begun = quota_pauses[index];
	}
	LWLockRelease(quota_shared->pause_lock);
	/* a limit across providers, of which there may be any number */
	if (index == QUOTA_NO_INDEX)
		quota_table_full("pause", "quota.max_tenants", pause_places());
	if (begins)
		tell(&begun);
	quota_work_due(place.database_slot, now_ns);
}
