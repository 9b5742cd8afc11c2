/*
 * trigger.h
 *		What a trigger function of ours may be called by.
 */
#ifndef QUOTA_TRIGGER_H
#define QUOTA_TRIGGER_H

#include "catalog.h"

#include "commands/trigger.h"
#include "fmgr.h"

/* Commands, as bits. */
#define TRIGGER_ON_INSERT	(1 << TRIGGER_EVENT_INSERT)
#define TRIGGER_ON_DELETE	(1 << TRIGGER_EVENT_DELETE)
#define TRIGGER_ON_UPDATE	(1 << TRIGGER_EVENT_UPDATE)
#define TRIGGER_ON_TRUNCATE	(1 << TRIGGER_EVENT_TRUNCATE)

/* Tables, as bits; an index stands for nothing here. */
#define TRIGGER_TABLE(rel)	(UINT64CONST(1) << (rel))

typedef struct TriggerShape
{
	const char *function;		/* for the message */
	uint64		tables;
	bool		before;			/* else after */
	int			row;			/* commands it fires on for each row */
	int			statement;		/* ... for each statement */
} TriggerShape;

/*
 * The trigger call.  Throws 39P01 unless it comes from a trigger of that shape on
 * one of these very tables, so that nobody makes a function of ours read rows of
 * another table as if they were ours; 55000 when the library is not preloaded.
 */
extern TriggerData *quota_trigger(FunctionCallInfo fcinfo,
								  const TriggerShape *shape);

/* A text column of a row of the trigger's table; NULL for a null. */
extern char *trigger_text(const TriggerData *td, HeapTuple row, int column);

#endif							/* QUOTA_TRIGGER_H */
