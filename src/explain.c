/*
 * explain.c
 *		quota_explain(): what every matching limit says of a call, as a table.
 */
#include "decide.h"

#include "funcapi.h"
#include "pause.h"
#include "utils/builtins.h"
#include "utils/timestamp.h"

PG_FUNCTION_INFO_V1(quota_explain);

/* Columns of the result. */
enum
{
	COL_LIMIT_NAME,
	COL_KIND,
	COL_UNIT,
	COL_BUCKET,
	COL_NEEDED,
	COL_LEVEL,
	COL_CAPACITY,
	COL_ENFORCEMENT,
	COL_ADMITS,
	COL_REASON,
	COL_NOT_BEFORE,
	COL_EXPLANATION,
	N_COLS
};

/* Why the calls are never admitted at once. */
static char *
why_never(const QuotaTerm *term, int64 cost, int64 needed)
{
	if (term->kind != QUOTA_LEAKY_BUCKET)
		return psprintf("needs %lld, never has more than %lld",
						(long long) needed, (long long) term->capacity);
	if (meter_holds(&term->meter, cost, 1))
		return psprintf("needs %lld, of which a burst of %lld lets less go at once",
						(long long) needed, (long long) term->capacity);
	return psprintf("needs %lld for one call, a whole period has %lld",
					(long long) cost, (long long) term->meter.largest);
}

/* One sentence for a person. */
static char *
state_of(const QuotaTerm *term, const TermState *s, int64 needed)
{
	const char *left = term->kind == QUOTA_CONCURRENCY
		? "free" : "left";

	if (term->kind == QUOTA_RETRIES && s->cost == 0)
		return pstrdup("does not apply: the call is a first attempt");
	if (s->cost == 0)
		return pstrdup("does not apply: the call costs none of this unit");
	if (term->kind == QUOTA_BREAKER)
		return pstrdup(s->would == QUOTA_OK ? "lets calls through"
					   : s->level > 0 ? "lets fewer probes through"
					   : "stops calls, as too many have failed");
	if (s->would == QUOTA_EXCEEDS_CAPACITY)
		return why_never(term, s->cost, needed);
	if (term->capacity == 0)
		return pstrdup("is closed: its amount is 0");
	if (term->kind == QUOTA_RETRIES)
		return psprintf("%s: %lld left of %lld and %d.%d %% of first attempts",
						s->would == QUOTA_OK ? "has room" : "lacks room",
						(long long) s->level, (long long) term->capacity,
						(int) (term->meter.share_milli / 10),
						(int) (term->meter.share_milli % 10));
	return psprintf("%s: %lld of %lld %s%s%s", s->would == QUOTA_OK
					? psprintf("has room for %lld", (long long) needed)
					: psprintf("lacks room for %lld", (long long) needed),
					(long long) s->level, (long long) term->capacity, left,
					s->leave > 0 ? psprintf(", %lld to be left for others",
											(long long) s->leave) : "",
					term->is_portioned
					? psprintf("; the tenant's share is %d.%02d %%",
							   (int) (s->stand.share / 10000),
							   (int) (s->stand.share / 100 % 100)) : "");
}

/* What a limit that is not hard does about it. */
static char *
explanation(const QuotaTerm *term, const TermState *s, int64 needed)
{
	char	   *why = state_of(term, s, needed);

	if (s->would == QUOTA_OK || quota_term_binds(term))
		return why;
	return psprintf("%s, %s", why, quota_term_is_shadow(term)
					? "and would refuse" : "but lets it through");
}

/* What it says of the call. */
static QuotaReason
reason_of(const QuotaTerm *term, const TermState *s)
{
	return s->would != QUOTA_OK && term->enforcement == QUOTA_SOFT
		? QUOTA_SOFT_LIMIT : s->would;
}

/* One row per limit. */
static void
put_term(ReturnSetInfo *rsinfo, const QuotaTerm *term, const TermState *s,
		 int n)
{
	Datum		values[N_COLS] = {0};
	bool		nulls[N_COLS] = {false};
	int64		needed = s->cost * n;

	values[COL_LIMIT_NAME] = CStringGetTextDatum(term->name);
	values[COL_KIND] = CStringGetTextDatum(quota_kind_name(term->kind));
	values[COL_UNIT] = CStringGetTextDatum(term->unit);
	values[COL_BUCKET] = CStringGetTextDatum(term->label);
	values[COL_NEEDED] = Int64GetDatum(needed);
	nulls[COL_LEVEL] = s->cost == 0;
	values[COL_LEVEL] = Int64GetDatum(s->level);
	values[COL_CAPACITY] = Int64GetDatum(term->capacity);
	values[COL_ENFORCEMENT] =
		CStringGetTextDatum(quota_enforcement_name(term->enforcement));
	values[COL_ADMITS] = BoolGetDatum(s->reason == QUOTA_OK);
	values[COL_REASON] = CStringGetTextDatum(quota_reason_name(reason_of(term, s)));
	nulls[COL_NOT_BEFORE] = s->would == QUOTA_OK ||
		s->not_before_us == DT_NOEND;
	values[COL_NOT_BEFORE] = TimestampTzGetDatum(s->not_before_us);
	values[COL_EXPLANATION] = CStringGetTextDatum(explanation(term, s, needed));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The row that says a tenant is suspended. */
static void
put_suspended(ReturnSetInfo *rsinfo, const char *tenant)
{
	Datum		values[N_COLS] = {0};
	bool		nulls[N_COLS];

	memset(nulls, true, sizeof(nulls));
	nulls[COL_ADMITS] = nulls[COL_REASON] = nulls[COL_EXPLANATION] = false;
	values[COL_ADMITS] = BoolGetDatum(false);
	values[COL_REASON] = CStringGetTextDatum(quota_reason_name(QUOTA_SUSPENDED));
	values[COL_EXPLANATION] =
		CStringGetTextDatum(psprintf("tenant \"%s\" is suspended", tenant));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* The row of a pause. */
static void
put_pause(ReturnSetInfo *rsinfo, const PauseHit *hit)
{
	Datum		values[N_COLS] = {0};
	bool		nulls[N_COLS];
	char	   *since = pstrdup(timestamptz_to_str(hit->since_us));

	memset(nulls, true, sizeof(nulls));
	nulls[COL_LIMIT_NAME] = nulls[COL_ADMITS] = nulls[COL_REASON] =
		nulls[COL_EXPLANATION] = false;
	values[COL_LIMIT_NAME] = CStringGetTextDatum(hit->scope);
	values[COL_ADMITS] = BoolGetDatum(false);
	values[COL_REASON] = CStringGetTextDatum(quota_reason_name(QUOTA_PAUSED));
	nulls[COL_NOT_BEFORE] = hit->until_us == DT_NOEND;
	values[COL_NOT_BEFORE] = TimestampTzGetDatum(hit->until_us);
	values[COL_EXPLANATION] =
		CStringGetTextDatum(psprintf("paused since %s until %s, %s by %s%s%s", since,
									 hit->until_us == DT_NOEND ? "it is resumed"
									 : timestamptz_to_str(hit->until_us),
									 hit->reported ? "reported" : "set", hit->set_by,
									 hit->reason[0] ? ": " : "", hit->reason));
	tuplestore_putvalues(rsinfo->setResult, rsinfo->setDesc, values, nulls);
}

/* quota_explain(): see its COMMENT. */
Datum
quota_explain(PG_FUNCTION_ARGS)
{
	ReturnSetInfo *rsinfo = (ReturnSetInfo *) fcinfo->resultinfo;
	QuotaCall	call;
	QuotaAsk	ask;
	QuotaVerdict verdict;
	QuotaPlan  *plan;
	TermState	states[QUOTA_MAX_TERMS];

	quota_enter_primary("quota_explain()");
	quota_read_call(fcinfo, &call, &ask);
	ask.dry = true;
	plan = quota_examine(&call, &ask, states, &verdict);

	InitMaterializedSRF(fcinfo, 0);
	if (plan->suspended)
		put_suspended(rsinfo, plan->tenant);
	for (int i = 0; i < verdict.npaused; i++)
		put_pause(rsinfo, &pause_seen.hits[i]);
	for (int i = 0; i < plan->nterms; i++)
		put_term(rsinfo, &plan->terms[i], &states[i],
				 ask.partial ? 1 : ask.n);
	return (Datum) 0;
}
