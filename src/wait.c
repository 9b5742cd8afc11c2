/*
 * wait.c
 *		quota_wait(): a worker without work sleeps until something may be claimed.
 *
 * A procedure, because only a procedure can end its transaction: what it looks
 * up at the beginning is looked up in the statement's transaction, which then
 * commits, and the wait goes on in a new one that has no snapshot and no lock.
 * So neither VACUUM nor DROP waits for it.  Inside a transaction block that is
 * impossible, and an error.
 *
 * A DROP EXTENSION tells nobody either.  A hook notes that this transaction drops
 * one, and its commit lets the waiters look whether it was this one.
 */
#include "postgres.h"

#include "access/xact.h"
#include "args.h"
#include "catalog.h"
#include "catalog/objectaccess.h"
#include "catalog/pg_extension.h"
#include "catalog/pg_type.h"
#include "clock.h"
#include "error.h"
#include "executor/spi.h"
#include "job.h"
#include "miscadmin.h"
#include "nodes/parsenodes.h"
#include "utils/builtins.h"
#include "wait.h"
#include "waiter.h"

PG_FUNCTION_INFO_V1(quota_wait);
PG_FUNCTION_INFO_V1(quota_wait_any);

/* The slots a call waits for. */
typedef struct Slots
{
	int			n;
	uint32		index[QUOTA_MAX_WAIT_PROVIDERS];
	QuotaKey	key[QUOTA_MAX_WAIT_PROVIDERS];
} Slots;

/* ---- DROP EXTENSION ---- */

static object_access_hook_type previous_access_hook = NULL;
static bool drops_extension = false;

/* object_access_hook */
static void
on_object_access(ObjectAccessType access, Oid class, Oid object, int sub,
				 void *arg)
{
	if (previous_access_hook)
		previous_access_hook(access, class, object, sub, arg);
	if (access == OAT_DROP && class == ExtensionRelationId)
		drops_extension = true;
}

/* Transaction callback. */
static void
on_xact(XactEvent event, void *arg)
{
	if (!drops_extension ||
		(event != XACT_EVENT_COMMIT && event != XACT_EVENT_ABORT))
		return;
	drops_extension = false;
	if (event == XACT_EVENT_COMMIT)
		waiter_check_all(MyDatabaseId);
}

/* See wait.h. */
void
wait_init(void)
{
	previous_access_hook = object_access_hook;
	object_access_hook = on_object_access;
	RegisterXactCallback(on_xact, NULL);
}

/* ---- the call ---- */

/* See wait.h. */
void
wait_check_context(FunctionCallInfo fcinfo, const char *procedure)
{
	if (fcinfo->context == NULL || !IsA(fcinfo->context, CallContext) ||
		castNode(CallContext, fcinfo->context)->atomic || IsSubTransaction())
		quota_error_in_transaction(procedure);
}

/*
 * Adds the provider's slot; false when something of it can be claimed already.
 * Throws 22023, 42704, 53400.
 */
static bool
add_provider(Slots *slots, const char *provider, const char *argument)
{
	uint32		slot;

	quota_check_provider(provider, argument);
	slot = quota_slot(MyDatabaseId, quota_catalog()->extension, provider);
	for (int i = 0; i < slots->n; i++)
		if (slots->index[i] == slot)
			return true;
	slots->index[slots->n] = slot;
	slots->key[slots->n++] = quota_slots[slot].entry.key;
	return !job_may_claim(provider);
}

/* 22023, 54000 */
static void
check_count(int n)
{
	if (n >= 1 && n <= QUOTA_MAX_WAIT_PROVIDERS)
		return;
	ereport(ERROR,
			(errcode(n < 1 ? ERRCODE_INVALID_PARAMETER_VALUE
					 : ERRCODE_PROGRAM_LIMIT_EXCEEDED),
			 errmsg("argument \"providers\" must have 1 to %d elements",
					QUOTA_MAX_WAIT_PROVIDERS),
			 errdetail("It has %d.", n),
			 errhint("Let other sessions wait for other providers.")));
}

/* The same for an array of names; throws also 54000. */
static bool
add_providers(Slots *slots, const QuotaArray *names)
{
	bool		wait = true;

	check_count(names->n);
	for (int i = 0; i < names->n; i++)
		wait = add_provider(slots, TextDatumGetCString(names->values[i]),
							"providers") && wait;
	return wait;
}

/* Ends the transaction and waits in a new one. */
static void
wait_for(const Slots *slots, int64 timeout_ns)
{
	int64		until_ns = quota_raw_ns() + timeout_ns;

	SPI_connect_ext(SPI_OPT_NONATOMIC);
	SPI_commit();
	if (waiter_wait(slots->index, slots->key, slots->n, until_ns) == WAIT_GONE &&
		!OidIsValid(quota_catalog_look()))
		quota_error_no_extension();
	SPI_finish();
}

/* quota_wait(provider, timeout): see its COMMENT. */
Datum
quota_wait(PG_FUNCTION_ARGS)
{
	Slots		slots = {0};
	int64		timeout_ns;

	wait_check_context(fcinfo, "quota_wait()");
	quota_enter_primary("quota_wait()");
	timeout_ns = quota_arg_interval(fcinfo, 1, "timeout");
	job_load();
	if (add_provider(&slots, quota_arg_text(fcinfo, 0, "provider", true), "provider"))
		wait_for(&slots, timeout_ns);
	PG_RETURN_VOID();
}

/* quota_wait(providers, timeout): see its COMMENT. */
Datum
quota_wait_any(PG_FUNCTION_ARGS)
{
	Slots		slots = {0};
	QuotaArray	names;
	int64		timeout_ns;

	wait_check_context(fcinfo, "quota_wait()");
	quota_enter_primary("quota_wait()");
	names = quota_arg_array(fcinfo, 0, "providers", TEXTOID, false);
	timeout_ns = quota_arg_interval(fcinfo, 1, "timeout");
	job_load();
	if (add_providers(&slots, &names))
		wait_for(&slots, timeout_ns);
	PG_RETURN_VOID();
}
