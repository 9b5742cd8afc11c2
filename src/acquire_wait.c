/*
 * acquire_wait.c
 *		quota_acquire_wait(): asks as quota_acquire() does, and while the answer is
 *		no, waits until asking again may help, at most for a given time.
 *
 * Each question is a transaction of its own, as only a procedure can have them:
 * while it sleeps (asker.c) the session holds no snapshot and no lock.  What the
 * last one took is committed when the call returns.
 *
 * It does not wait where that cannot help in time: some limit that said no opens
 * later than the time given and nothing comes back to it sooner, as happens where
 * other calls end; or never.
 */
#include "decide.h"

#include "acquire.h"
#include "access/htup_details.h"
#include "args.h"
#include "asker.h"
#include "catalog.h"
#include "clock.h"
#include "executor/spi.h"
#include "funcapi.h"
#include "storage/ipc.h"
#include "utils/snapmgr.h"
#include "utils/timestamp.h"
#include "utils/typcache.h"
#include "wait.h"

PG_FUNCTION_INFO_V1(quota_acquire_wait);

/* A call under way. */
typedef struct AcquireWait
{
	AcquireArgs args;
	int64		until_ns;		/* real time */
	TupleDesc	result;			/* of the procedure */
	TupleDesc	decision;		/* of its only column */
	Datum		answer;
} AcquireWait;

/* The limit says no for longer than we may wait, and nothing will change that. */
static bool
is_hopeless(const QuotaExhausted *e, TimestampTz until_us)
{
	if (e->not_before_us == DT_NOEND)
		return true;
	return !e->may_end_sooner && e->not_before_us > until_us;
}

/* There is no use in waiting. */
static bool
is_final(const QuotaPlan *plan, const QuotaVerdict *v, int64 until_ns)
{
	int64		left_ns = until_ns - quota_raw_ns();
	TimestampTz until_us;

	if (v->granted > 0 || left_ns <= 0 ||
		(v->limiting < 0 && v->reason != QUOTA_PAUSED))
		return true;
	if (plan->fails_exhausted && quota_spent_limit(v) != NULL)
		return true;
	until_us = quota_wall_us() + left_ns / QUOTA_NS_PER_US;
	if (v->reason == QUOTA_PAUSED && v->not_before_us > until_us)
		return true;
	for (int i = 0; i < v->nexhausted; i++)
		if (is_hopeless(&v->exhausted[i], until_us))
			return true;
	return false;
}

/* The answer as the result of the procedure, in the present memory context. */
static Datum
answer_of(const AcquireWait *w, AcquireAnswer *a)
{
	Datum		decision = acquire_datum(w->decision, a);
	bool		isnull = false;

	return HeapTupleGetDatum(heap_form_tuple(w->result, &decision, &isnull));
}

/*
 * Asks once.  True when that is the answer, which is in w->answer then.  A refusal
 * counts, in the statistics, when it is the last word; that of a suspended tenant
 * always is.
 */
static bool
ask(AcquireWait *w, AcquireAnswer *a, MemoryContext context)
{
	MemoryContext old;
	bool		final;

	PushActiveSnapshot(GetTransactionSnapshot());
	w->args.ask.provisional = true;
	acquire_ask(&w->args, a);
	final = a->stored || is_final(a->plan, &a->verdict, w->until_ns);
	if (final && !a->stored && a->verdict.granted == 0 &&
		a->verdict.reason != QUOTA_SUSPENDED)
	{
		asker_end(false);
		w->args.ask.provisional = false;
		acquire_ask(&w->args, a);
	}
	if (final)
	{
		old = MemoryContextSwitchTo(context);
		w->answer = answer_of(w, a);
		MemoryContextSwitchTo(old);
	}
	PopActiveSnapshot();
	return final;
}

/* Asks until there is an answer; context is where that goes. */
static void
ask_until(AcquireWait *w, MemoryContext context)
{
	Oid			extension = quota_catalog()->extension;

	for (;;)
	{
		AcquireAnswer a;
		int64		opens_ns;
		bool		stands;

		asker_reset(extension);
		if (ask(w, &a, context))
		{
			asker_end(a.verdict.granted > 0);
			break;
		}
		opens_ns = a.verdict.opens_ns;
		stands = asker_stand(a.plan, &a.verdict);
		SPI_commit();
		if (stands)
			asker_sleep(extension, opens_ns, w->until_ns);
	}
	SPI_commit();
}

/* At an error, or when the session ends. */
static void
end_by_error(int code, Datum arg)
{
	asker_end(false);
}

/* quota_acquire_wait(..., timeout, decision): see its COMMENT. */
Datum
quota_acquire_wait(PG_FUNCTION_ARGS)
{
	AcquireWait w;
	MemoryContext context = CurrentMemoryContext;

	wait_check_context(fcinfo, "quota_acquire_wait()");
	quota_enter_write("quota_acquire_wait()");
	acquire_read_args(fcinfo, &w.args);
	w.until_ns = quota_raw_ns() +
		quota_arg_interval(fcinfo, N_ACQUIRE_ARGS, "timeout");
	if (get_call_result_type(fcinfo, NULL, &w.result) != TYPEFUNC_COMPOSITE)
		elog(ERROR, "return type must be a row type");
	w.result = BlessTupleDesc(w.result);
	w.decision = lookup_rowtype_tupdesc_copy(TupleDescAttr(w.result, 0)->atttypid, -1);

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	asker_begin();
	PG_ENSURE_ERROR_CLEANUP(end_by_error, (Datum) 0);
	{
		ask_until(&w, context);
	}
	PG_END_ENSURE_ERROR_CLEANUP(end_by_error, (Datum) 0);
	SPI_finish();
	PG_RETURN_DATUM(w.answer);
}
