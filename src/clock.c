/*
 * clock.c
 *		The only file that asks for the time.
 *
 * There are three clocks:
 *
 *	quota clock		nanoseconds, monotonic over clean restarts; rates, leases
 *					and lifetimes follow it.  It never runs ahead of real time,
 *					so an error of it can only admit less.
 *	steady time		the quota clock as a TimestampTz: a constant away from it,
 *					fixed when shared memory is made anew.  Rows store this one,
 *					as the quota clock itself means nothing after a crash.
 *	wall clock		instants from outside and calendars.
 *
 * With quota.testing a superuser may stop and move them.  How they run is one
 * struct in two copies: a writer fills the one that does not count and then
 * lets it count by raising clock_version, so that readers need no lock, never
 * see half a change, and do not wait for a writer that died.  A reader retries
 * when the version moved while it looked: only then its copy may have been
 * written to.  Writers hold the directory lock.
 *
 * Two readers on both sides of a stop may see the time a few nanoseconds out of
 * order; whoever computes with differences takes a negative one as none.
 */
#include "postgres.h"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include "clock.h"
#include "common/int.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "storage/fd.h"
#include "utils/timestamp.h"
#include "waiter.h"
#include "worker.h"

#define BOOT_ID_FILE "/proc/sys/kernel/random/boot_id"

/* Both clocks stay below this, so that sums with durations cannot overflow. */
#define LAST_NS		(PG_INT64_MAX / 2)

static char this_boot[sizeof(((ClockStamp *) NULL)->boot)];

PG_FUNCTION_INFO_V1(quota_clock);
PG_FUNCTION_INFO_V1(quota_clock_set);
PG_FUNCTION_INFO_V1(quota_clock_advance);

/* ---- telling the time ---- */

/* See clock.h.  Never throws. */
int64
quota_raw_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64) t.tv_sec * QUOTA_NS_PER_S + t.tv_nsec;
}

/* How the clocks run now, as one consistent copy; waits for nobody. */
static QuotaClock
clock_read(void)
{
	QuotaClock	clock;
	uint32		version;

	do
	{
		version = pg_atomic_read_u32(&quota_shared->clock_version);
		pg_read_barrier();
		clock = quota_shared->clocks[version % 2];
		pg_read_barrier();
	} while (pg_atomic_read_u32(&quota_shared->clock_version) != version);
	return clock;
}

/* The quota clock by that copy. */
static int64
clock_quota_ns(const QuotaClock *clock)
{
	return clock->frozen ? clock->quota_ns : quota_raw_ns() + clock->quota_ns;
}

/* The wall clock by that copy. */
static TimestampTz
clock_wall_us(const QuotaClock *clock)
{
	return clock->frozen ? clock->wall_us : GetCurrentTimestamp();
}

/* The quota clock.  Never throws. */
int64
quota_now_ns(void)
{
	QuotaClock	clock = clock_read();

	return clock_quota_ns(&clock);
}

/* The wall clock.  Never throws. */
TimestampTz
quota_wall_us(void)
{
	QuotaClock	clock = clock_read();

	return clock_wall_us(&clock);
}

/* The quota clock, and then the wall clock.  Never throws. */
int64
quota_now(TimestampTz *wall_us)
{
	QuotaClock	clock = clock_read();
	int64		now_ns = clock_quota_ns(&clock);

	*wall_us = clock_wall_us(&clock);
	return now_ns;
}

/* See clock.h.  Never throws. */
int64
quota_raw_of(int64 at_ns)
{
	QuotaClock	clock = clock_read();

	if (at_ns > LAST_NS)
		return QUOTA_NEVER;
	if (clock.frozen)
		return at_ns <= clock.quota_ns ? PG_INT64_MIN : QUOTA_NEVER;
	return at_ns - clock.quota_ns;
}

/* Steady time now.  Never throws. */
TimestampTz
quota_steady_us(void)
{
	return quota_steady_of(quota_now_ns());
}

/* Steady time of an instant of the quota clock; QUOTA_NEVER is infinity. */
TimestampTz
quota_steady_of(int64 at_ns)
{
	if (at_ns == QUOTA_NEVER)
		return DT_NOEND;
	return quota_shared->steady_base_us + at_ns / QUOTA_NS_PER_US;
}

/*
 * The instant of the quota clock a steady time from a row means.  What is too
 * far away to be told is QUOTA_NEVER, or long ago.
 */
int64
quota_ns_of_steady(TimestampTz steady_us)
{
	int64		since_us;
	int64		ns;

	if (TIMESTAMP_IS_NOEND(steady_us))
		return QUOTA_NEVER;
	if (TIMESTAMP_IS_NOBEGIN(steady_us))
		return -LAST_NS;
	since_us = steady_us - quota_shared->steady_base_us;
	if (pg_mul_s64_overflow(since_us, QUOTA_NS_PER_US, &ns))
		return since_us > 0 ? QUOTA_NEVER : -LAST_NS;
	return Max(ns, -LAST_NS);
}

/*
 * Notes that this crash epoch is in use: what was spent before a crash can only
 * be known to refill from here on.  Outside recovery only.  Never throws.
 */
void
quota_activate(void)
{
	if (pg_atomic_read_u64(&quota_shared->active_since_ns) != 0)
		return;
	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	if (pg_atomic_read_u64(&quota_shared->active_since_ns) == 0)
	{
		quota_clock_stamp(&quota_shared->active_at);
		pg_write_barrier();
		pg_atomic_write_u64(&quota_shared->active_since_ns,
							(uint64) Max(quota_shared->active_at.now_ns, 1));
	}
	LWLockRelease(quota_shared->directory);
}

/* ---- continuing over a clean restart ---- */

/* Learns which boot of the machine this is, or "", for all processes.  Never throws. */
static void
read_boot(void)
{
	int			fd = OpenTransientFile(BOOT_ID_FILE, O_RDONLY);
	ssize_t		n = 0;

	if (fd >= 0)
	{
		n = read(fd, this_boot, sizeof(this_boot) - 1);
		CloseTransientFile(fd);
	}
	this_boot[Max(n, 0)] = '\0';
	this_boot[strcspn(this_boot, "\n")] = '\0';
}

/* The instant by these clocks. */
static void
stamp_by(ClockStamp *stamp, const QuotaClock *clock)
{
	memset(stamp, 0, sizeof(*stamp));
	strlcpy(stamp->boot, this_boot, sizeof(stamp->boot));
	stamp->raw_ns = quota_raw_ns();
	stamp->now_ns = clock_quota_ns(clock);
	stamp->real_us = GetCurrentTimestamp();
}

/* See clock.h.  Never throws. */
void
quota_clock_stamp(ClockStamp *stamp)
{
	QuotaClock	clock = clock_read();

	stamp_by(stamp, &clock);
}

/*
 * Within one boot of the machine CLOCK_MONOTONIC says it.  Otherwise the first
 * instant was before the boot of the second, hence at least that one's uptime ago;
 * the wall clock, which may have been stepped, can only lower that, in case the two
 * are of different machines.  Never throws.
 */
int64
quota_clock_between(const ClockStamp *from, const ClockStamp *to)
{
	int64		wall_us = to->real_us - from->real_us;
	int64		between;

	if (to->boot[0] != '\0' &&
		strncmp(to->boot, from->boot, sizeof(to->boot)) == 0)
		between = to->raw_ns - from->raw_ns;
	else
		between = wall_us < to->raw_ns / QUOTA_NS_PER_US ?
			wall_us * QUOTA_NS_PER_US : to->raw_ns;
	return Max(between, 0);
}

/* What to save so that a next start can continue.  Never throws. */
void
quota_clock_save(QuotaClockSave *save)
{
	memset(save, 0, sizeof(*save));
	save->clock = clock_read();
	stamp_by(&save->at, &save->clock);
	save->steady_base_us = quota_shared->steady_base_us;
}

/*
 * Starts the clocks.  Clocks that a test had stopped stay so only while testing
 * is on.  Never throws.
 */
void
quota_clock_start(const QuotaClockSave *saved)
{
	QuotaClock *clock = &quota_shared->clocks[0];
	ClockStamp	now;

	read_boot();
	pg_atomic_write_u32(&quota_shared->clock_version, 0);
	memset(clock, 0, sizeof(*clock));
	stamp_by(&now, clock);
	if (saved == NULL)
	{
		quota_shared->steady_base_us = now.real_us - now.raw_ns / QUOTA_NS_PER_US;
		return;
	}
	quota_shared->steady_base_us = saved->steady_base_us;
	if (quota_testing && saved->clock.frozen)
		*clock = saved->clock;
	else
		clock->quota_ns = saved->at.now_ns +
			quota_clock_between(&saved->at, &now) - now.raw_ns;
}

/* ---- moving them, for tests ---- */

/* Throws unless the caller may move the clocks. */
static void
check_testing(const char *function)
{
	quota_enter();
	if (!superuser())
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("must be superuser to call %s", function)));
	if (!quota_testing)
		ereport(ERROR,
				(errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
				 errmsg("the clock can be moved only for tests"),
				 errhint("Set quota.testing to on and restart a server that does nothing else.")));
}

/* Lets *clock count; the directory lock is held. */
static void
clock_publish(const QuotaClock *clock)
{
	uint32		next = pg_atomic_read_u32(&quota_shared->clock_version) + 1;

	quota_shared->clocks[next % 2] = *clock;
	pg_write_barrier();
	pg_atomic_write_u32(&quota_shared->clock_version, next);
}

/*
 * Moves clocks that stand forward; false, and *clock is as before, when that
 * would be later than can be told.
 */
static bool
clock_add(QuotaClock *clock, int64 us)
{
	QuotaClock	sum = *clock;
	int64		ns;

	if (pg_mul_s64_overflow(us, QUOTA_NS_PER_US, &ns) ||
		pg_add_s64_overflow(sum.quota_ns, ns, &sum.quota_ns) ||
		pg_add_s64_overflow(sum.wall_us, us, &sum.wall_us) ||
		sum.quota_ns > LAST_NS || !IS_VALID_TIMESTAMP(sum.wall_us))
		return false;
	*clock = sum;
	return true;
}

/*
 * Both clocks stand where they are; the quota clock at a whole microsecond, as
 * rows cannot tell less and would show 59.999999 s of a minute.
 */
static void
clock_freeze(QuotaClock *clock)
{
	int64		now_us = clock_quota_ns(clock) + QUOTA_NS_PER_US - 1;

	now_us /= QUOTA_NS_PER_US;
	clock->wall_us = clock_wall_us(clock);
	clock->quota_ns = now_us * QUOTA_NS_PER_US;
	clock->frozen = true;
}

/* The quota clock runs on from where it stands, the wall clock is the real one. */
static void
clock_run(QuotaClock *clock)
{
	clock->quota_ns = clock_quota_ns(clock) - quota_raw_ns();
	clock->frozen = false;
}

/* 22008; no lock held */
static void
error_too_late(void)
{
	ereport(ERROR,
			(errcode(ERRCODE_DATETIME_VALUE_OUT_OF_RANGE),
			 errmsg("the clock cannot be moved so far")));
}

/* Ends a move begun under the directory lock; throws 22008 when it is too far. */
static void
finish_move(bool moved, const QuotaClock *clock)
{
	if (moved)
		clock_publish(clock);
	LWLockRelease(quota_shared->directory);
	if (!moved)
		error_too_late();
	waiter_look_all();
	quota_worker_wake();
}

/* quota_clock() RETURNS timestamptz: the wall clock, as all of quota sees it */
Datum
quota_clock(PG_FUNCTION_ARGS)
{
	quota_enter();
	PG_RETURN_TIMESTAMPTZ(quota_wall_us());
}

/*
 * quota_clock_set(timestamptz): stops the clocks, the wall clock at the given
 * instant; a step back moves only that one.  NULL lets them run again.
 */
Datum
quota_clock_set(PG_FUNCTION_ARGS)
{
	bool		run = PG_ARGISNULL(0);
	TimestampTz to_us = run ? 0 : PG_GETARG_TIMESTAMPTZ(0);
	QuotaClock	clock;
	bool		moved = true;

	check_testing("quota_clock_set");
	if (TIMESTAMP_NOT_FINITE(to_us))
		error_too_late();

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	clock = clock_read();
	if (run)
		clock_run(&clock);
	else
	{
		clock_freeze(&clock);
		if (to_us > clock.wall_us)
			moved = clock_add(&clock, to_us - clock.wall_us);
		else
			clock.wall_us = to_us;
	}
	finish_move(moved, &clock);
	PG_RETURN_VOID();
}

/* quota_clock_advance(interval): stops the clocks and moves both. */
Datum
quota_clock_advance(PG_FUNCTION_ARGS)
{
	Interval   *by = PG_GETARG_INTERVAL_P(0);
	QuotaClock	clock;
	int64		us;
	bool		moved;

	check_testing("quota_clock_advance");
	if (by->month != 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the clock cannot be moved by months"),
				 errhint("Give days or smaller units.")));
	if (pg_mul_s64_overflow(by->day, USECS_PER_DAY, &us) ||
		pg_add_s64_overflow(us, by->time, &us))
		error_too_late();
	if (us < 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
				 errmsg("the clock cannot be moved back by an interval"),
				 errhint("A step back of the wall clock is made with quota_clock_set.")));

	LWLockAcquire(quota_shared->directory, LW_EXCLUSIVE);
	clock = clock_read();
	clock_freeze(&clock);
	moved = clock_add(&clock, us);
	finish_move(moved, &clock);
	PG_RETURN_VOID();
}
