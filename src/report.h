/*
 * report.h
 *		What a provider's answer does here.
 */
#ifndef QUOTA_REPORT_H
#define QUOTA_REPORT_H

#include "feedback.h"
#include "policy.h"

/* An answer, as its caller reports it. */
typedef struct Report
{
	QuotaCall	call;			/* only the provider must be known */
	int64		permit;			/* of the call, 0 = not known */
	int			status;			/* HTTP status, FEEDBACK_NO_ANSWER, -1 = not said */
	Jsonb	   *headers;		/* NULL = none */
	const char *reason;			/* NULL = not said */
	int			attempt;		/* 0 = not said */
	int64		latency_us;		/* -1 = not said */
	bool		went_well;		/* the job's call did, whether or not it was answered */
} Report;

/* There is something to take in. */
static inline bool
report_says_anything(const Report *report)
{
	return report->status >= 0 || report->headers != NULL || report->latency_us >= 0;
}

/*
 * Takes the answer in: it acts at once, on everybody, and whatever becomes of this
 * transaction.  For a function whose own work must not fail by it: what goes wrong is a
 * warning.  The caller holds no lock.  Returns the microseconds that the answer asks to
 * wait, 0 = none.
 */
extern int64 report_try(const Report *report);

/* ---- report_pause.c ---- */

/* Pauses what the answer says to pause, for so long; 0 = nothing.  May throw. */
extern int64 report_pause(const Report *report, const FeedbackOutcome *outcome);

/* ---- report_permit.c ---- */

/*
 * A copy of the plan that has the buckets which the permit was charged in: of the user,
 * connection, resource and class of its call, whose names are not known.  May throw.
 */
extern QuotaPlan *report_permit_plan(const QuotaPlan *plan, int64 permit);

/* ---- report_limits.c ---- */

/* Where the limits of the call stand. */
typedef struct ReportLevels
{
	int64		in_flight;		/* calls in the fullest limit of concurrency, -1 = there
								 * is none */
	bool		has_level;
	int64		level;			/* units of the provider's own limit of requests that has
								 * least left, before the answer is heeded */
} ReportLevels;

/*
 * Lowers the buckets of the call to what the answer says is left (G1 holds all the
 * better), and says where they stood.  The plan is the call's.  May throw.
 */
extern ReportLevels report_limits(QuotaPlan *plan, const FeedbackOutcome *outcome);

#endif							/* QUOTA_REPORT_H */
