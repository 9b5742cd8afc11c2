/*
 * feedback.h
 *		What a provider's answer means: which class of answer it is, whom it speaks
 *		of, how long to wait, and what it says is left.  Pure: no server headers, no
 *		memory, no locks, no clock, no errors.
 *
 * An answer comes from outside: what is not understood is ignored and counted,
 * never an error.
 */
#ifndef QUOTA_FEEDBACK_H
#define QUOTA_FEEDBACK_H

#include <stdbool.h>
#include <stdint.h>

#define FEEDBACK_NOT_TOLD	INT64_C(-1)

/* What kind of answer it is. */
typedef enum FeedbackClass
{
	FEEDBACK_UNKNOWN,			/* nothing follows from it */
	FEEDBACK_SUCCESS,
	FEEDBACK_REJECTED,			/* the call is at fault; the provider is well */
	FEEDBACK_RATE_LIMITED,		/* wait */
	FEEDBACK_EXHAUSTED,			/* nothing more before the contract is renewed; a
								 * human must know */
	FEEDBACK_OVERLOADED,		/* back off; nobody's fault here */
	FEEDBACK_FAILURE			/* broken, or no answer at all */
} FeedbackClass;
#define FEEDBACK_N_CLASSES (FEEDBACK_FAILURE + 1)

/* Whom it speaks of, the narrowest first. */
typedef enum FeedbackScope
{
	FEEDBACK_CALL,				/* nobody else */
	FEEDBACK_LIMIT,				/* the limit that FeedbackOutcome.limit_name names */
	FEEDBACK_TENANT_ENDPOINT,	/* the tenant's calls to the endpoint */
	FEEDBACK_CONNECTION,		/* calls by the connection */
	FEEDBACK_TENANT,			/* the tenant's calls to the provider */
	FEEDBACK_ENDPOINT,			/* all calls to the endpoint */
	FEEDBACK_PROVIDER,			/* all calls to the provider */
	FEEDBACK_ACCOUNT			/* all calls to providers of its account */
} FeedbackScope;
#define FEEDBACK_N_SCOPES (FEEDBACK_ACCOUNT + 1)

/* ---- what is given ---- */

/* One header line; both end with a zero byte.  One header may have several. */
typedef struct FeedbackHeader
{
	const char *name;			/* in any case */
	const char *value;
} FeedbackHeader;

/* What a row of quota.answers says that an answer means. */
typedef enum FeedbackMeaning
{
	/* the whole answer is of this class: one of FeedbackClass but UNKNOWN */
	MEANS_CLASS,
	/* the value of the header is */
	MEANS_LIMIT,				/* what the provider allows */
	MEANS_REMAINING,
	MEANS_USED,					/* "used", or "used/limit" */
	MEANS_RESET,				/* when more is there */
	MEANS_RETRY_AFTER,
	MEANS_REASON,
	MEANS_NOTHING				/* it is not to be read */
} FeedbackMeaning;

/* A row of quota.answers; NULL and -1 = any. */
typedef struct FeedbackRule
{
	bool		own;			/* of this provider, not of all */
	int			status;
	const char *header;			/* lower case; with this header, */
	const char *value;			/* whose value, or else the reason, is like this */
	FeedbackMeaning means;
	FeedbackClass class;		/* MEANS_CLASS */
	FeedbackScope scope;		/* the same */
	const char *limit_name;		/* which limit it is about, NULL = not said */
} FeedbackRule;

/* No answer came: a timeout, a connection that was refused. */
#define FEEDBACK_NO_ANSWER	0

typedef struct FeedbackAnswer
{
	int			status;			/* HTTP status, or FEEDBACK_NO_ANSWER; -1 = not said */
	const char *reason;			/* as the caller says; NULL = does not */
	bool		has_endpoint;	/* the call named one */
	bool		has_tenant;
	bool		has_connection;
	int			nheaders;
	const FeedbackHeader *headers;
} FeedbackAnswer;

/* ---- what it means ---- */

#define FEEDBACK_NAME_LEN	64
#define FEEDBACK_MAX_READINGS 8

/* What the provider says of one thing that it counts. */
typedef struct FeedbackReading
{
	char		of[FEEDBACK_NAME_LEN];	/* as headers name it, in lower case:
										 * "input-tokens", "minute", the name of a
										 * policy; "" = not said */
	char		unit[FEEDBACK_NAME_LEN];	/* the same without words of time; of a
											 * policy its qu */
	const char *limit_name;		/* the rule's, which says more; NULL = none does */
	int64_t		limit;			/* units; FEEDBACK_NOT_TOLD for these five */
	int64_t		remaining;		/* units; limit less used where that is told */
	int64_t		used;			/* units */
	int64_t		reset_us;		/* from now */
	int64_t		window_us;		/* in which the limit counts */
} FeedbackReading;

typedef struct FeedbackOutcome
{
	FeedbackClass class;
	FeedbackScope scope;
	bool		scope_said;		/* a rule says the scope; else it is the narrowest that
								 * may be meant */
	const char *limit_name;		/* the rule's, NULL = none; the rule's memory */

	/*
	 * From now, 0 to 366 days: what Retry-After says; else, of an answer that says
	 * to wait, when the last of what has nothing left is reset; FEEDBACK_NOT_TOLD.
	 */
	int64_t		retry_after_us;
	int			nreadings;
	FeedbackReading readings[FEEDBACK_MAX_READINGS];
	const char *reason;			/* a header's or the caller's text; NULL = none */
	int			ignored;		/* values that were not understood, and readings
								 * that found no room */
	uint64_t	told_by;		/* bit i: the i-th header, of the first 64, is one
								 * that tells of limits or decided the class */
} FeedbackOutcome;

/*
 * What an answer means at now_us (microseconds since 2000-01-01 00:00 UTC) by these
 * rules, and by what standards say where no rule does.  Instants in headers are by the
 * clock that the answer's Date tells, if it does.
 */
extern void feedback_classify(const FeedbackAnswer *answer,
							  const FeedbackRule *rules, int nrules,
							  int64_t now_us, FeedbackOutcome *outcome);

/* Does the answer say that calls should wait? */
static inline bool
feedback_says_wait(FeedbackClass class)
{
	return class == FEEDBACK_RATE_LIMITED || class == FEEDBACK_EXHAUSTED ||
		class == FEEDBACK_OVERLOADED;
}

/* ---- feedback_read.c: between the two files ---- */

/*
 * Reads one header as standards and common practice have it; false: it is none of
 * those that tell of limits, and nothing was read.
 */
extern bool feedback_read(const FeedbackHeader *header, int64_t now_us,
						  FeedbackOutcome *outcome);
/* The same by a rule for this header. */
extern void feedback_read_as(const FeedbackHeader *header,
							 const FeedbackRule *rule, int64_t now_us,
							 FeedbackOutcome *outcome);

/*
 * Does a reading count this unit of quota, as "requests" and "" do request, and
 * "input-tokens" does input_token?
 */
extern bool feedback_counts(const FeedbackReading *reading, const char *unit);

/* ---- feedback_limit.c: what a reading says of a limit of quota ---- */

/* A limit that the call meets, and that counts a rate. */
typedef struct FeedbackLimit
{
	const char *name;
	const char *unit;
	bool		external;		/* the provider's own rule */
	int64_t		period_us;
	int64_t		capacity;		/* units that can be left */
	int64_t		level;			/* units left now; negative: a debt */
} FeedbackLimit;

/*
 * Which of these limits the reading is about: the one that its rule names; else of
 * the provider's own of its unit the one that has its name, or its window, or else
 * the shortest period, where a mistake is over soonest.  -1 = none.
 */
extern int	feedback_limit_of(const FeedbackReading *reading,
							  const FeedbackLimit *limits, int n);

/*
 * Units to take off that limit, so that no more is left than the reading says; never
 * so many that more were spent than the provider counts itself, nor that there is a
 * debt.
 */
extern int64_t feedback_excess(const FeedbackReading *reading,
							   const FeedbackLimit *limit);

/* ---- names in SQL ---- */

extern const char *feedback_class_name(FeedbackClass class);
extern const char *feedback_scope_name(FeedbackScope scope);

#endif							/* QUOTA_FEEDBACK_H */
