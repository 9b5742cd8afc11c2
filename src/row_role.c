/*
 * row_role.c
 *		As whom rows of our tables are written.
 *
 * A row that is written fires triggers, and everybody to whom TRIGGER or
 * REFERENCES on the table was granted can have made some: a trigger, or a table
 * of his with a foreign key whose rows follow those of ours.  Such code must not
 * get rights that whoever wrote it, or set it off, does not have.
 *
 * In a session rows are written as whoever called us, as by any statement of his,
 * never as the extension's owner.  A background worker is called by nobody and is
 * a superuser.  It goes by this rule: a write that runs no code but ours is its
 * own; one that runs code of one role is made as that role; one that could run
 * code of several is not made at all.
 *
 * Whose code runs is
 *
 * - for a trigger, the owner of its function.  Arguments and WHEN conditions are
 *	 the work of whoever created the trigger, whom the catalog does not name: with
 *	 them, nobody's;
 * - for a foreign key that deletes or changes rows of the other table, the owner
 *	 of that table.  Checks of foreign keys run nobody's code.
 *
 * The role can do no more than while a table is being vacuumed: no SET ROLE, no
 * trigger that waits for the end of the transaction, where it would run as the
 * worker (SECURITY_RESTRICTED_OPERATION).
 */
#include "row_role.h"

#include "access/htup_details.h"
#include "catalog/dependency.h"
#include "catalog/pg_class.h"
#include "catalog/pg_proc.h"
#include "catalog/pg_trigger.h"
#include "commands/trigger.h"
#include "miscadmin.h"
#include "utils/fmgroids.h"
#include "utils/rel.h"
#include "utils/syscache.h"

static bool is_worker = false;

/* See row_role.h. */
void
row_role_be_worker(void)
{
	is_worker = true;
}

/* InvalidOid for one that is just being dropped. */
static Oid
table_owner(Oid relid)
{
	HeapTuple	row = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(row))
	{
		owner = ((Form_pg_class) GETSTRUCT(row))->relowner;
		ReleaseSysCache(row);
	}
	return owner;
}

/* The same for a function. */
static Oid
function_owner(Oid function)
{
	HeapTuple	row = SearchSysCache1(PROCOID, ObjectIdGetDatum(function));
	Oid			owner = InvalidOid;

	if (HeapTupleIsValid(row))
	{
		owner = ((Form_pg_proc) GETSTRUCT(row))->proowner;
		ReleaseSysCache(row);
	}
	return owner;
}

/* The trigger runs no code but ours, or only looks whether a key is there. */
static bool
is_harmless(const Trigger *trigger)
{
	if (!trigger->tgisinternal)
		return getExtensionOfObject(ProcedureRelationId, trigger->tgfoid) ==
			quota_catalog()->extension;
	switch (trigger->tgfoid)
	{
		case F_RI_FKEY_CHECK_INS:
		case F_RI_FKEY_CHECK_UPD:
		case F_RI_FKEY_NOACTION_DEL:
		case F_RI_FKEY_NOACTION_UPD:
		case F_RI_FKEY_RESTRICT_DEL:
		case F_RI_FKEY_RESTRICT_UPD:
			return true;
		default:
			return false;
	}
}

/* Whose code the trigger runs; InvalidOid = that can't be told. */
static Oid
code_owner(const Trigger *trigger)
{
	if (trigger->tgisinternal)
		return table_owner(trigger->tgconstrrelid);
	if (trigger->tgnargs > 0 || trigger->tgqual != NULL)
		return InvalidOid;
	return function_owner(trigger->tgfoid);
}

/* The row trigger fires on this command. */
static bool
fires_on(const Trigger *trigger, CmdType operation)
{
	if (!TRIGGER_FOR_ROW(trigger->tgtype))
		return false;
	switch (operation)
	{
		case CMD_INSERT:
			return TRIGGER_FOR_INSERT(trigger->tgtype);
		case CMD_UPDATE:
			return TRIGGER_FOR_UPDATE(trigger->tgtype);
		default:
			return TRIGGER_FOR_DELETE(trigger->tgtype);
	}
}

/* The role for the write, the present one by default; false when there is none. */
static bool
role_for(Relation table, CmdType operation, Oid *role)
{
	TriggerDesc *triggers;
	bool		found = false;
	bool		ok = true;

	*role = GetUserId();
	if (!is_worker)
		return true;
	/* a copy: looking at catalogs may rebuild the relation's */
	triggers = CopyTriggerDesc(table->trigdesc);
	for (int i = 0; ok && triggers && i < triggers->numtriggers; i++)
	{
		const Trigger *trigger = &triggers->triggers[i];
		Oid			owner;

		if (trigger->tgenabled == TRIGGER_DISABLED ||
			!fires_on(trigger, operation) || is_harmless(trigger))
			continue;
		owner = code_owner(trigger);
		if (!OidIsValid(owner) || (found && owner != *role))
			ok = false;
		*role = owner;
		found = true;
	}
	FreeTriggerDesc(triggers);
	return ok;
}

/* See row_role.h. */
bool
row_role_allows(Relation table, CmdType operation)
{
	Oid			role;

	return role_for(table, operation, &role);
}

/* See row_role.h. */
QuotaOwner
row_role_enter(Relation table, CmdType operation)
{
	QuotaOwner	saved;
	Oid			role;

	if (!role_for(table, operation, &role))
		ereport(ERROR,
				(errcode(ERRCODE_INSUFFICIENT_PRIVILEGE),
				 errmsg("a background worker may not write table \"%s\"",
						RelationGetRelationName(table)),
				 errdetail("It has triggers with arguments or conditions, or triggers and foreign keys of several roles."),
				 errhint("One role may own the trigger functions and the tables whose rows follow; see \"Rights\" in the documentation of quota.")));
	GetUserIdAndSecContext(&saved.user, &saved.context);
	if (is_worker)
		SetUserIdAndSecContext(role, saved.context |
							   SECURITY_LOCAL_USERID_CHANGE |
							   SECURITY_RESTRICTED_OPERATION);
	return saved;
}

/* See row_role.h. */
void
row_role_leave(QuotaOwner saved)
{
	SetUserIdAndSecContext(saved.user, saved.context);
}
