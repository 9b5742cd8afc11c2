/*
 * shmem.c
 *		Reserves and lays out shared memory.  See shmem.h for what lives there
 *		and who may touch it.
 *
 * Pointers to pairing heaps and their comparison functions are kept in shared
 * memory: every process forks from the postmaster after it has loaded this
 * library, so both are at the same address everywhere.
 */
#include "shmem.h"

#include "directory.h"
#include "miscadmin.h"
#include "pause_table.h"
#include "state.h"
#include "storage/ipc.h"
#include "storage/shmem.h"
#include "waiter.h"

/* Who finds a lock taken looks so often before he sleeps. */
#define LOOKS 100

QuotaShared *quota_shared;
QuotaSlot  *quota_slots;
QuotaBucket *quota_buckets;
QuotaTenant *quota_tenants;
QuotaPortion *quota_portions;
QuotaGrant *quota_grants;
QuotaShare *quota_shares;
QuotaFlow  *quota_flows;
QuotaLine  *quota_lines;
QuotaFarGate *quota_far_gates;
QuotaPermit *quota_permits;
QuotaWaiter *quota_waiters;
QuotaWriter *quota_writers;
pg_atomic_uint32 *quota_far_waits;
QuotaPause *quota_pauses;
uint32	   *quota_pause_heads;

static shmem_request_hook_type previous_request_hook;
static shmem_startup_hook_type previous_startup_hook;

/* One array inside the shared block. */
typedef struct Area
{
	void	  **start;
	Size		stride;
	int			count;
} Area;

#define N_AREAS 16

/* The arrays, in the order they are laid out. */
static void
list_areas(Area areas[N_AREAS])
{
	Area		list[N_AREAS] = {
		{(void **) &quota_shared, sizeof(QuotaShared), 1},
		{(void **) &quota_slots, sizeof(QuotaSlot), quota_max_providers},
		{(void **) &quota_buckets, sizeof(QuotaBucket), quota_max_buckets},
		{(void **) &quota_tenants, sizeof(QuotaTenant), quota_max_tenants},
		{(void **) &quota_portions, sizeof(QuotaPortion), quota_max_portions()},
		{(void **) &quota_grants, sizeof(QuotaGrant), quota_max_grants()},
		{(void **) &quota_shares, sizeof(QuotaShare), quota_max_flows},
		{(void **) &quota_flows, sizeof(QuotaFlow), quota_max_flows},
		{(void **) &quota_lines, sizeof(QuotaLine), quota_max_flows},
		{(void **) &quota_far_gates, sizeof(QuotaFarGate), quota_max_flows},
		{(void **) &quota_permits, sizeof(QuotaPermit), quota_max_permits},
		{(void **) &quota_waiters, sizeof(QuotaWaiter), waiter_count()},
		{(void **) &quota_writers, sizeof(QuotaWriter), MaxBackends},
		{(void **) &quota_pauses, sizeof(QuotaPause), pause_places()},
		{(void **) &quota_pause_heads, sizeof(uint32), pause_heads()},
		{(void **) &quota_far_waits, sizeof(pg_atomic_uint32), quota_max_providers},
	};

	memcpy(areas, list, sizeof(list));
}

/* Bytes of all arrays and hash heads. */
static Size
shmem_size(void)
{
	Area		areas[N_AREAS];
	Size		size = 0;

	list_areas(areas);
	for (int i = 0; i < N_AREAS; i++)
		size = add_size(size, CACHELINEALIGN(mul_size(areas[i].stride,
													  areas[i].count)));
	return add_size(size, quota_directory_size()) + PG_CACHE_LINE_SIZE;
}

/* shmem_request_hook */
static void
request(void)
{
	if (previous_request_hook)
		previous_request_hook();
	RequestAddinShmemSpace(shmem_size());
	RequestNamedLWLockTranche("quota", 5);
}

/* Points the arrays into the block. */
static void
lay_out(char *block)
{
	Area		areas[N_AREAS];

	block = (char *) CACHELINEALIGN(block);
	list_areas(areas);
	for (int i = 0; i < N_AREAS; i++)
	{
		*areas[i].start = block;
		block += CACHELINEALIGN(areas[i].stride * areas[i].count);
	}
	quota_directory_attach(block);
}

/* First contents; the block is zero. */
static void
fill(void)
{
	LWLockPadded *locks = GetNamedLWLockTranche("quota");

	quota_shared->directory = &locks[0].lock;
	quota_shared->events_lock = &locks[1].lock;
	quota_shared->recount_lock = &locks[2].lock;
	quota_shared->notices_lock = &locks[3].lock;
	quota_shared->pause_lock = &locks[4].lock;
	for (int i = 0; i < quota_max_providers; i++)
	{
		LWLockInitialize(&quota_slots[i].lock, locks[0].lock.tranche);
		ConditionVariableInit(&quota_slots[i].load_cv);
		pg_atomic_init_u64(&quota_slots[i].work_due_ns, (uint64) QUOTA_NEVER);
		pg_atomic_init_u64(&quota_slots[i].marks_due_ns, 0);
		pg_atomic_init_u32(&quota_slots[i].rules_wanted, 0);
		pg_atomic_init_u32(&quota_slots[i].coming, 0);
		pg_atomic_init_u64(&quota_slots[i].deadline_low, (uint64) DT_NOEND);
		pg_atomic_init_u32(&quota_slots[i].following, 0);
		pg_atomic_init_u32(&quota_far_waits[i], 0);
		pg_atomic_init_u32(&quota_slots[i].pauses, 0);
		pg_atomic_init_u32(&quota_slots[i].pauses_read, 0);
	}
	pause_shmem_init();
	pg_atomic_init_u64(&quota_shared->parkings, 0);
	pg_atomic_init_u32(&quota_shared->bucket_hand.next, 0);
	pg_atomic_init_u64(&quota_shared->bucket_hand.idle_ns, 0);
	for (int i = 0; i < QUOTA_N_GENERATIONS; i++)
	{
		pg_atomic_init_u64(&quota_shared->generations[i].number, 0);
		pg_atomic_init_u64(&quota_shared->generations[i].deleted_ns, 0);
	}
	waiter_shmem_init();
	quota_directory_init();
	quota_state_load();
}

/* shmem_startup_hook; runs again in the postmaster after a crash */
static void
startup(void)
{
	bool		found;
	char	   *block;

	if (previous_startup_hook)
		previous_startup_hook();

	LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
	block = ShmemInitStruct("quota", shmem_size(), &found);
	if (!found)
		memset(block, 0, shmem_size());
	lay_out(block);
	if (!found)
		fill();
	LWLockRelease(AddinShmemInitLock);

	if (!IsUnderPostmaster)
		on_shmem_exit(quota_state_save, (Datum) 0);
}

/*
 * See shmem.h.  Most sections take less time than to fall asleep and be woken, which
 * LWLockAcquire() does at once.
 */
void
quota_lock(LWLock *lock)
{
	for (int i = 0; i < LOOKS; i++)
	{
		if (LWLockConditionalAcquire(lock, LW_EXCLUSIVE))
			return;
		pg_spin_delay();
	}
	LWLockAcquire(lock, LW_EXCLUSIVE);
}

/* Chains the hooks; called while preloading. */
void
quota_shmem_init(void)
{
	previous_request_hook = shmem_request_hook;
	shmem_request_hook = request;
	previous_startup_hook = shmem_startup_hook;
	shmem_startup_hook = startup;
}
