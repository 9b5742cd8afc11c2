/*
 * position.h
 *		Where in a flow the next ready job may be: pure arithmetic over job
 *		ids. No server headers, no locks, no clock: callers hold whatever lock
 *		protects the structure.  position.c describes the protocol.
 */
#ifndef QUOTA_POSITION_H
#define QUOTA_POSITION_H

#include <stdbool.h>
#include <stdint.h>

#define POSITION_MAX_GAPS	4
#define POSITION_LEVELS		5	/* blocks of 1, 4, 16, 64, 256 raises */

/* "no id" and "never due": later than any */
#define POSITION_NONE		INT64_MAX

typedef struct PositionGap
{
	int64_t		lo;
	int64_t		hi;				/* inclusive */
} PositionGap;

/* Disjoint, not adjacent, ascending. */
typedef struct PositionGaps
{
	int			n;
	PositionGap gap[POSITION_MAX_GAPS];
} PositionGaps;

/* The least id, due time and place in the returned lane among some raises. */
typedef struct PositionNews
{
	int64_t		id;
	int64_t		due;
	int64_t		place;
} PositionNews;

typedef struct Position
{
	uint64_t	epoch;			/* raises so far */
	int64_t		cursor;			/* fresh ids up to here are settled, except
								 * those in gaps */
	PositionGaps gaps;			/* all <= cursor */
	int64_t		next_due;		/* the returned lane has nothing due before */
	int64_t		place;			/* nor anything ready before this place in its
								 * order, */
	int64_t		place_id;		/* nor, at this place, any id before this one */
	/* news of the current and of the last full block of 4^level raises */
	PositionNews block[POSITION_LEVELS];
	PositionNews block_before[POSITION_LEVELS];
} Position;

/* What a scan knew when it began, and what it could not look into. */
typedef struct PositionScan
{
	uint64_t	began;			/* epoch when the search began */
	uint64_t	epoch;			/* when its present stretch of the fresh lane
								 * did */
	int64_t		passed;			/* fresh ids up to here belong to stretches
								 * before */
	int64_t		cursor;
	PositionGaps gaps;
	PositionGaps skipped;
	int64_t		place;			/* where the returned lane's scan begins */
	int64_t		place_id;
} PositionScan;

extern void position_init(Position *p);
extern void position_raise(Position *p, int64_t lo, int64_t hi, int64_t due,
						   int64_t place);
extern void position_jump(Position *p, int64_t id);
extern int64_t position_head(const Position *p);
extern PositionNews position_news(const Position *p, uint64_t epoch);

extern void position_begin(const Position *p, PositionScan *scan);
extern int	position_ranges(const PositionScan *scan,
							PositionGap ranges[POSITION_MAX_GAPS + 1]);
extern void position_skip(PositionScan *scan, int64_t id);
extern void position_settle(Position *p, const PositionScan *scan,
							int64_t upto);
extern void position_pass(Position *p, PositionScan *scan, int64_t upto);
extern void position_settle_due(Position *p, const PositionScan *scan,
								int64_t next_due);
extern void position_settle_place(Position *p, const PositionScan *scan,
								  int64_t place, int64_t id);

#endif							/* QUOTA_POSITION_H */
