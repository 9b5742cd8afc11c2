/*
 * breaker.h
 *		A circuit breaker: when a dependency fails too often, calls to it stop for a
 *		while, and a few probes find out whether it is back.  Pure, like bucket.h.
 *
 * The pattern is Nygard's ("Release It!"), with the windows and the half-open state
 * of resilience4j's CircuitBreaker.
 *
 *		CLOSED		calls go on.  It opens when at least min_calls ended within the
 *					window and failure_milli of 1000 of them, or more, failed.
 *		OPEN		no call until open_ns have passed; then it is HALF_OPEN.
 *		HALF_OPEN	probes go: at most "probes" of them are under way at a time.
 *					When so many have ended it closes, or opens again if
 *					failure_milli of them failed; it opens as soon as that is sure.
 *
 * The window is that of the calls which ended within window_ns and, if window_calls
 * is not 0, of these the last window_calls.  By time a call counts between 9/10 of
 * window_ns and window_ns, as calls are counted in tenths of it.
 *
 * Outcomes of calls that began before the last transition say nothing of the present
 * state and are left out, as far as it is known when they began.
 *
 * A probe that nobody reports is given back after probe_ns.
 */
#ifndef QUOTA_BREAKER_H
#define QUOTA_BREAKER_H

#include <stdbool.h>
#include <stdint.h>

#define BREAKER_NEVER		INT64_MAX
#define BREAKER_PARTS		10	/* of a window by time */
#define BREAKER_MAX_CALLS	100 /* of a window by calls */
#define BREAKER_MAX_PROBES	10

typedef enum BreakerState
{
	BREAKER_CLOSED,
	BREAKER_OPEN,
	BREAKER_HALF_OPEN
} BreakerState;

typedef struct BreakerRules
{
	int64_t		window_ns;		/* >= BREAKER_PARTS */
	int64_t		open_ns;		/* >= 1 */
	int64_t		probe_ns;		/* >= 1 */
	int32_t		failure_milli;	/* 1 .. 1000 */
	int32_t		min_calls;		/* >= 1 */
	int32_t		window_calls;	/* min_calls .. BREAKER_MAX_CALLS, 0 = all */
	int32_t		probes;			/* 1 .. BREAKER_MAX_PROBES */
} BreakerRules;

typedef struct Breaker
{
	BreakerRules rules;
	uint8_t		state;			/* BreakerState */
	int64_t		since_ns;		/* it is in this state */
	int64_t		until_ns;		/* OPEN: until then */
	int64_t		moves;			/* transitions so far, */
	int64_t		opened;			/* and to OPEN since it was closed last; */
	int64_t		led_calls;		/* so many calls, or probes, led to the last one */
	int64_t		led_failures;	/* by an outcome, of which so many failed */
	/* CLOSED: calls that ended, by tenth of the window t at t modulo BREAKER_PARTS */
	int64_t		part;			/* number of the newest */
	int32_t		calls[BREAKER_PARTS];
	int32_t		failures[BREAKER_PARTS];
	/* the same by call, newest at "newest": its tenth * 2, + 1 if it failed */
	int32_t		newest;
	int32_t		n;
	int32_t		last[BREAKER_MAX_CALLS];
	/* HALF_OPEN: probes under way, by when they are given back, first to end first */
	int32_t		n_out;
	int64_t		out_until_ns[BREAKER_MAX_PROBES];
	int32_t		succeeded;
	int32_t		failed;
} Breaker;

/* Closed, of which nothing is known. */
extern void breaker_init(Breaker *b, const BreakerRules *rules, int64_t now_ns);
/* Rules from now on; what has ended counts by the new window. */
extern void breaker_configure(Breaker *b, const BreakerRules *rules, int64_t now_ns);
/*
 * Accounts for the time up to now: what is too old, probes that are given back, and
 * the end of OPEN.  True when the state has changed by that.
 */
extern bool breaker_settle(Breaker *b, int64_t now_ns);

/* ---- settled ---- */

/* Calls that may go now; INT64_MAX = any number. */
extern int64_t breaker_fit(const Breaker *b);
/* When n calls may go if no outcome is reported before; BREAKER_NEVER = never. */
extern int64_t breaker_opens_ns(const Breaker *b, int64_t n);
/*
 * n calls go, as many as fit: HALF_OPEN, they are probes.  The instant until which
 * they are out, 0 = they are no probes.
 */
extern int64_t breaker_take(Breaker *b, int64_t n, int64_t now_ns);
/* n probes that are out until then were never sent. */
extern void breaker_return(Breaker *b, int64_t n, int64_t until_ns);

/* How a call ended. */
typedef enum BreakerOutcome
{
	BREAKER_SUCCESS,
	BREAKER_FAILURE,
	BREAKER_NO_VERDICT			/* it says nothing of the dependency's health */
} BreakerOutcome;

/*
 * A call that began at began_ns has ended; INT64_MIN = it is not known when.  True
 * when the state has changed by that.
 */
extern bool breaker_report(Breaker *b, BreakerOutcome outcome, int64_t began_ns,
						   int64_t now_ns);

/* Calls in the window, and those that failed. */
extern int64_t breaker_calls(const Breaker *b);
extern int64_t breaker_failures(const Breaker *b);
/* Is it as good as new? */
extern bool breaker_is_idle(const Breaker *b);

#endif							/* QUOTA_BREAKER_H */
