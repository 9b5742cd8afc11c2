/*
 * trigger.c
 *		The first line of every trigger function.
 *
 * Our trigger functions read rows by column number, and write tables of ours
 * whatever rights the caller has.  Only the extension's owner has EXECUTE on them,
 * but whoever has may attach them to any table: so each says where it belongs.
 */
#include "trigger.h"

#include "access/htup_details.h"
#include "utils/builtins.h"
#include "utils/rel.h"

/* Does the trigger fire when and on what the function is made for? */
static bool
fits(const TriggerData *td, const TriggerShape *shape)
{
	int			command = 1 << (td->tg_event & TRIGGER_EVENT_OPMASK);
	int			commands = TRIGGER_FIRED_FOR_ROW(td->tg_event) ?
		shape->row : shape->statement;
	Oid			relid = RelationGetRelid(td->tg_relation);

	if ((commands & command) == 0)
		return false;
	if (shape->before ? !TRIGGER_FIRED_BEFORE(td->tg_event) :
		!TRIGGER_FIRED_AFTER(td->tg_event))
		return false;
	for (int rel = 0; rel < QUOTA_N_RELATIONS; rel++)
		if ((shape->tables & TRIGGER_TABLE(rel)) != 0 &&
			relid == quota_relation(rel))
			return true;
	return false;
}

/* See trigger.h. */
TriggerData *
quota_trigger(FunctionCallInfo fcinfo, const TriggerShape *shape)
{
	TriggerData *td = (TriggerData *) fcinfo->context;

	quota_enter();
	if (!CALLED_AS_TRIGGER(fcinfo) || !fits(td, shape))
		ereport(ERROR,
				(errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED),
				 errmsg("function quota.%s() can be called only by its own triggers",
						shape->function),
				 errhint("It works for the tables of schema quota alone; drop any other trigger that calls it.")));
	return td;
}

/* See trigger.h. */
char *
trigger_text(const TriggerData *td, HeapTuple row, int column)
{
	bool		isnull;
	Datum		value = heap_getattr(row, column,
									 RelationGetDescr(td->tg_relation), &isnull);

	return isnull ? NULL : TextDatumGetCString(value);
}
