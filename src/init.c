/*
 * init.c
 *		Library load: settings, hooks, and the first line of every entry point.
 *		Loading without shared_preload_libraries succeeds and defines nothing, so
 *		that pg_upgrade and LOAD work; every function then fails politely.
 */
#include "quota.h"

#include "access/xact.h"
#include "catalog.h"
#include "clock.h"
#include "error.h"
#include "fmgr.h"
#include "journal.h"
#include "miscadmin.h"
#include "shmem.h"
#include "tcop/utility.h"
#include "utils/guc.h"
#include "utils/inval.h"
#include "wait.h"
#include "worker.h"

PG_MODULE_MAGIC;

/* declared by the server from 16 on */
extern PGDLLEXPORT void _PG_init(void);

int			quota_max_providers;
int			quota_max_tenants;
int			quota_max_flows;
int			quota_max_buckets;
int			quota_max_permits;
int			quota_job_retention;
bool		quota_testing;

/* What a postmaster setting of a table size needs. */
static void
define_size(const char *name, const char *what, int *variable,
			int initial, int max)
{
	DefineCustomIntVariable(name, what, NULL, variable, initial, 16, max,
							PGC_POSTMASTER, 0, NULL, NULL, NULL);
}

/* All settings; called while preloading only. */
static void
define_settings(void)
{
	define_size("quota.max_providers",
				"Number of providers, plus one for each database.",
				&quota_max_providers, 128, 16384);
	define_size("quota.max_tenants",
				"Number of pairs of a tenant and a provider it uses.",
				&quota_max_tenants, 32768, 4194304);
	define_size("quota.max_flows",
				"Number of flows: tenant, class and endpoint with queued jobs.",
				&quota_max_flows, 32768, 4194304);
	define_size("quota.max_buckets",
				"Number of buckets: a limit for one key.",
				&quota_max_buckets, 65536, 16777216);
	define_size("quota.max_permits",
				"Number of admitted calls with something left to settle.",
				&quota_max_permits, 8192, (1 << QUOTA_PERMIT_INDEX_BITS) - 1);
	DefineCustomIntVariable("quota.job_retention",
							"How long finished jobs, events and keys of calls are kept.",
							NULL, &quota_job_retention,
							7 * 24 * 3600, 0, INT_MAX,
							PGC_SIGHUP, GUC_UNIT_S, NULL, NULL, NULL);
	DefineCustomBoolVariable("quota.testing",
							 "Lets superusers set the clock by quota_clock_set().",
							 NULL, &quota_testing, false,
							 PGC_POSTMASTER, 0, NULL, NULL, NULL);
	MarkGUCPrefixReserved("quota");
}

/* Library entry point. */
void
_PG_init(void)
{
	if (!process_shared_preload_libraries_in_progress)
		return;
	define_settings();
	quota_shmem_init();
	quota_catalog_init();
	wait_init();
	journal_init();
	if (!IsBinaryUpgrade)
		quota_worker_register();
}

/*
 * Checks that the library was preloaded and absorbs invalidations, so that a
 * second call in one statement sees what was committed since the first.
 */
void
quota_enter(void)
{
	if (quota_shared == NULL)
		quota_error_not_loaded();
	AcceptInvalidationMessages();
}

/*
 * The same for a function that looks at the decision as it would be.  Throws
 * 25006 on a standby, 25000 in parallel mode.
 */
void
quota_enter_primary(const char *function)
{
	quota_enter();
	PreventCommandDuringRecovery(function);
	PreventCommandIfParallelMode(function);
	quota_activate();
}

/*
 * The same for a function that changes state.  Throws 25006 in a READ ONLY
 * transaction, too.
 */
void
quota_enter_write(const char *function)
{
	quota_enter_primary(function);
	PreventCommandIfReadOnly(function);
}
