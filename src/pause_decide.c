/*
 * pause_decide.c
 *		Pauses in a decision: which hold the call back, until when, and what they leave
 *		of the buckets.
 *
 * A pause holds back a call that everything it names is true of.  The call is found
 * by hash: a few searches, whatever else is paused; but pauses of endpoint patterns of a
 * provider are looked at one by one.
 *
 * The decision has the locks of its slots; pause_lock is taken shared for the search
 * alone, and what it found is this backend's copy (pause_seen).  See pause.c.
 *
 * BUCKETS.  While a provider may not be asked, its buckets fill up, and all that was
 * saved up would go out at once when the pause ends.  So those that lie in the pause's
 * scope begin empty then.  Nothing is done for that at its end: a decision that comes
 * within a minute lowers the bucket to what has refilled since (which it cannot
 * exceed anyhow once it was lowered), and one that comes later finds it full by
 * then.  Therefore only token and leaky buckets that refill within a minute are
 * emptied; windows have no burst beyond what they allow, and slow limits would lose
 * more than the pause is worth.
 *
 * A bucket lies in the scope of a pause if it counts no calls but those: of a
 * provider, all but those across providers; of an account, its limits too; of a
 * limit, its own; of a tenant, endpoint or connection, those of limits per tenant or
 * connection, of limits per endpoint or of just this endpoint or pattern.
 *
 * NOT_BEFORE of a paused call is the end of the last pause, or when the call fits the
 * buckets that are empty at such an end, if nobody else asks.  Those who are refused are
 * spread behind that as by a rate (spread.c).  Of a limit that says no for longer it is
 * that limit's.
 */
#include "decide.h"

#include "config.h"
#include "match.h"
#include "pause_table.h"
#include "spread.h"

PauseLook	pause_seen;

/* ---- what it empties ---- */

/* The bucket of the term counts no calls but those that are paused. */
static bool
is_in_scope(const QuotaPause *p, const QuotaPlan *plan, const QuotaTerm *t)
{
	if (p->of == PAUSE_OF_LIMIT)
		return t->slot == p->owner && strcmp(t->name, p->subject) == 0;
	if (t->slot != plan->slot)
		return p->of == PAUSE_OF_ACCOUNT && t->of_account != NULL;
	if (p->of == PAUSE_OF_ACCOUNT)
		return true;
	return (p->tenant[0] == '\0' || t->own) &&
		(p->connection[0] == '\0' || (t->per & PER_CONNECTION) != 0) &&
		(p->endpoint[0] == '\0' || (t->per & PER_ENDPOINT) != 0 ||
		 (t->pattern != NULL && strcmp(t->pattern, p->endpoint) == 0));
}

/* It refills within a minute, and holds what it has saved up. */
static bool
is_emptied(const QuotaTerm *t)
{
	return (t->kind == QUOTA_TOKEN_BUCKET || t->kind == QUOTA_LEAKY_BUCKET) && !t->slow;
}

/* Notes the end for the terms that it empties. */
static void
note_end(const QuotaPause *p, const QuotaPlan *plan, int64 end_ns, int64 *ends_ns)
{
	for (int i = 0; i < plan->nterms; i++)
		if (is_emptied(&plan->terms[i]) && is_in_scope(p, plan, &plan->terms[i]))
			ends_ns[i] = Max(ends_ns[i], end_ns);
}

/* See pause.h. */
void
pause_empty(int i, QuotaBucket *b)
{
	if (pause_seen.ended_ns[i] != PG_INT64_MIN)
		meter_empty(&b->meter, pause_seen.ended_ns[i]);
}

/* ---- searching ---- */

/*
 * A place for a hit that ends then: that of one of the same scope that ends sooner, or
 * a new one, of those that end last; NULL = it is not told of.
 */
static PauseHit *
place_of_hit(const char *scope, int64 end_ns)
{
	PauseHit   *first = &pause_seen.hits[0];

	for (int i = 0; i < pause_seen.n; i++)
		if (strcmp(pause_seen.hits[i].scope, scope) == 0)
			return pause_seen.hits[i].end_ns < end_ns ? &pause_seen.hits[i] : NULL;
	if (pause_seen.n < PAUSE_MAX_HITS)
		return &pause_seen.hits[pause_seen.n++];
	for (int i = 1; i < PAUSE_MAX_HITS; i++)
		if (pause_seen.hits[i].end_ns < first->end_ns)
			first = &pause_seen.hits[i];
	return first->end_ns < end_ns ? first : NULL;
}

/* The pause holds the call back. */
static void
add_hit(const QuotaPause *p, int term, int64 end_ns, TimestampTz end_us)
{
	char		scope[PAUSE_SCOPE_LEN];
	PauseHit   *hit;

	pause_words(p, scope);
	hit = place_of_hit(scope, end_ns);
	if (hit == NULL)
		return;
	strlcpy(hit->scope, scope, sizeof(hit->scope));
	hit->term = term;
	hit->of_flow = p->of != PAUSE_OF_LIMIT && p->connection[0] == '\0';
	hit->wide = hit->of_flow && p->tenant[0] == '\0' && p->endpoint[0] == '\0';
	hit->reported = p->reported;
	hit->end_ns = end_ns;
	hit->until_us = end_us;
	hit->since_us = p->since_us;
	strlcpy(hit->reason, p->reason, sizeof(hit->reason));
	strlcpy(hit->set_by, p->set_by, sizeof(hit->set_by));
}

/* The call that is asked for. */
typedef struct Search
{
	const QuotaPlan *plan;
	int64		now_ns;
	TimestampTz wall_us;
} Search;

/* A pause that concerns the call: in force, or over not long ago. */
static void
meet(const Search *s, QuotaPause *p, int term)
{
	int64		end_ns;

	if (pause_is_on(p, s->now_ns, s->wall_us))
	{
		end_ns = pause_end_ns(p, s->now_ns, s->wall_us);
		add_hit(p, term, end_ns, pause_end_us(p, s->now_ns, s->wall_us));
		note_end(p, s->plan, end_ns, pause_seen.ends_ns);
	}
	else
	{
		end_ns = pause_end_ns(p, s->now_ns, s->wall_us);
		if (s->now_ns - end_ns < PAUSE_LINGER_NS)
			note_end(p, s->plan, end_ns, pause_seen.ended_ns);
	}
}

/* Pauses of this place; of a place without endpoint those of patterns, too. */
static void
visit(const Search *s, const PausePlace *place, int term)
{
	const char *endpoint = s->plan->endpoint;
	PausePlace	pattern = *place;

	for (uint32 i = pause_first(place); i != QUOTA_NO_INDEX; i = quota_pauses[i].chain)
	{
		QuotaPause *p = &quota_pauses[i];

		if (pause_is_of(p, place))
			meet(s, p, term);
		else if (place->endpoint[0] == '\0' && p->endpoint[0] != '\0' && endpoint)
		{
			pattern.endpoint = p->endpoint;
			if (pause_is_of(p, &pattern) && match_glob(p->endpoint, endpoint))
				meet(s, p, term);
		}
	}
}

/* Those of calls to the provider, by every subset of what the call names. */
static void
visit_calls(const Search *s, const char *connection)
{
	const QuotaPlan *plan = s->plan;
	const char *const tenants[] = {"", plan->tenant};
	const char *const endpoints[] = {"", plan->endpoint};
	const char *const connections[] = {"", connection};

	for (int subset = 0; subset < 8; subset++)
	{
		PausePlace	place = {
			.of = PAUSE_OF_CALLS,.owner = plan->slot,
			.database_slot = plan->database_slot,.subject = "",
			.tenant = tenants[subset & 1],
			.endpoint = endpoints[(subset >> 1) & 1],
			.connection = connections[subset >> 2]
		};

		if (place.tenant && place.endpoint && place.connection)
			visit(s, &place, -1);
	}
}

/* Those of something that has a name of its own. */
static void
visit_subject(const Search *s, char of, uint32 owner, const char *subject, int term)
{
	PausePlace	place = {
		.of = of,.owner = owner,.database_slot = s->plan->database_slot,
		.subject = subject,.tenant = "",.endpoint = "",.connection = ""
	};

	visit(s, &place, term);
}

/* See pause.h. */
void
pause_search(const QuotaPlan *plan, const char *connection, int64 now_ns,
			 TimestampTz wall_us)
{
	Search		s = {plan, now_ns, wall_us};

	pause_seen.any = true;
	pause_seen.n = 0;
	for (int i = 0; i < plan->nterms; i++)
		pause_seen.ended_ns[i] = pause_seen.ends_ns[i] = PG_INT64_MIN;
	LWLockAcquire(quota_shared->pause_lock, LW_SHARED);
	if (pg_atomic_read_u32(&quota_slots[plan->slot].pauses) != 0)
		visit_calls(&s, connection);
	if (pg_atomic_read_u32(&quota_slots[plan->database_slot].pauses) != 0)
		visit_subject(&s, PAUSE_OF_ACCOUNT, plan->database_slot, plan->account, -1);
	for (int i = 0; i < plan->nterms; i++)
		if (pg_atomic_read_u32(&quota_slots[plan->terms[i].slot].pauses) != 0)
			visit_subject(&s, PAUSE_OF_LIMIT, plan->terms[i].slot,
						  plan->terms[i].name, i);
	LWLockRelease(quota_shared->pause_lock);
}

/* ---- refusing ---- */

/* See pause.h: a call that costs nothing of a limit does not meet it. */
bool
pause_holds(const TermState *states)
{
	int			n = 0;

	if (!pause_seen.any)
		return false;
	for (int i = 0; i < pause_seen.n; i++)
	{
		const PauseHit *hit = &pause_seen.hits[i];

		if (hit->term >= 0 && states[hit->term].cost == 0)
			continue;
		if (n < i)
			pause_seen.hits[n] = *hit;
		if (n == 0 || hit->end_ns > pause_seen.hits[pause_seen.last].end_ns)
			pause_seen.last = n;
		n++;
	}
	pause_seen.n = n;
	return n > 0;
}

/* When n calls fit a bucket that a pause leaves empty; PG_INT64_MIN = it doesn't. */
static int64
fits_ns(const QuotaTerm *term, int i, const TermState *s, int n)
{
	int64		end_ns = pause_seen.ends_ns[i];
	Meter		meter;
	int64		wait_ns;

	if (end_ns == PG_INT64_MIN || s->cost == 0 || !quota_term_binds(term))
		return PG_INT64_MIN;
	if (end_ns == QUOTA_NEVER)
		return QUOTA_NEVER;
	meter = quota_buckets[s->bucket].meter;
	meter_settle(&meter, end_ns, 0);
	meter_empty(&meter, end_ns);
	wait_ns = meter_wait(&meter, s->cost, n, s->leave);
	/* what never fits says so itself */
	return wait_ns >= QUOTA_NEVER - end_ns ? PG_INT64_MIN : end_ns + wait_ns;
}

/* The term whose bucket fits n calls last of those that are left empty; -1 = none. */
static int
last_empty(const QuotaPlan *plan, const TermState *states, int n, int64 *opens_ns)
{
	int			last = -1;

	*opens_ns = PG_INT64_MIN;
	for (int i = 0; i < plan->nterms; i++)
	{
		int64		at_ns = fits_ns(&plan->terms[i], i, &states[i], n);

		if (at_ns <= *opens_ns)
			continue;
		*opens_ns = at_ns;
		last = i;
	}
	return last;
}

/* The end of the last pause that stops every job of the provider; 0 = there is none. */
static int64
wide_end_ns(void)
{
	int64		end_ns = 0;

	for (int i = 0; i < pause_seen.n; i++)
		if (pause_seen.hits[i].wide)
			end_ns = Max(end_ns, pause_seen.hits[i].end_ns);
	return end_ns;
}

/* See pause.h. */
void
pause_refuse(const QuotaPlan *plan, const QuotaAsk *ask, const TermState *states,
			 int n, int64 now_ns, TimestampTz wall_us, QuotaVerdict *v)
{
	const PauseHit *last = &pause_seen.hits[pause_seen.last];
	int64		wide_ns = wide_end_ns();
	int64		opens_ns;
	TimestampTz until_us = last->until_us;

	v->npaused = pause_seen.n;
	(void) last_empty(plan, states, n, &opens_ns);
	if (opens_ns > last->end_ns)
		until_us = opens_ns == QUOTA_NEVER ? DT_NOEND
			: wall_us + quota_us_up(opens_ns - now_ns);
	opens_ns = Max(opens_ns, last->end_ns);
	v->wake_ns = Max(v->wake_ns, opens_ns);
	v->stops_all = ask->is_job && wide_ns > 0;
	if (!ask->is_job && v->limiting >= 0 && until_us < v->not_before_us)
		return;
	v->reason = QUOTA_PAUSED;
	v->limiting = -1;
	/* and no limit's bucket has a line for it */
	v->shared = v->behind = v->own_line = false;
	v->not_before_us = until_us;
	v->wake_ns = v->opens_ns = v->stops_all ? wide_ns : opens_ns;
	v->of_flow = v->stops_all || last->of_flow;
}

/* See pause.h. */
void
pause_spread(const QuotaPlan *plan, const TermState *states, int n, int64 now_ns,
			 QuotaVerdict *v)
{
	int64		opens_ns;
	int			i = last_empty(plan, states, n, &opens_ns);
	TermState	empty_term;

	if (i < 0 || opens_ns == QUOTA_NEVER || opens_ns < v->opens_ns)
		return;
	empty_term = states[i];
	empty_term.wake_ns = opens_ns;
	spread_refusal(&plan->terms[i], &empty_term, n, now_ns, v);
}
