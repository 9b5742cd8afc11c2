/*
 * state.c
 *		The state file: what a clean shutdown hands to the next start (G14).
 *
 * Rate tokens and permits are in shared memory only.  They may be continued
 * exactly when nothing has happened between the save and the load, and must be
 * taken for unknown otherwise: a crash, a promotion, a restored backup, an
 * immediate shutdown (whose killed backends may have left anything behind).
 * Both sides therefore look at pg_control.  The file is written only when the
 * server was shut down cleanly, names the shutdown checkpoint, and is used only
 * while that is still the last checkpoint of the same cluster.  This also means
 * that no row has changed: allowances continue without being loaded again, as
 * they must, since open permits pin them.
 *
 * A file is used once: it is removed, for good, before anything is taken from
 * it.  Nothing is kept half: what does not fit, or is damaged, is all forgotten,
 * and a new crash epoch begins.  The one exception are permits beyond a lowered
 * quota.max_permits, as a permit's id names its place: what they hold counts as
 * unknown until they would have ended.
 *
 * Shares and flows are not saved: they are loaded from rows.  Events that no
 * worker has written yet are.
 *
 * Everything here runs in the postmaster, or in a single-user server, when no
 * other process is attached.  Locks are taken only for functions that expect
 * them.
 */
#include "postgres.h"

#include <sys/stat.h>
#include <unistd.h>

#include "access/xlog.h"
#include "catalog/pg_control.h"
#include "common/controldata_utils.h"
#include "miscadmin.h"
#include "pgstat.h"
#include "port/pg_crc32c.h"
#include "shed.h"
#include "state.h"
#include "state_file.h"
#include "storage/fd.h"

#define STATE_FILE	PGSTAT_STAT_PERMANENT_DIRECTORY "/quota.stat"
#define STATE_TEMP	STATE_FILE ".tmp"

/* Rises with every change of what a saved field means. */
#define STATE_MAGIC	INT64CONST(0x51554f5441000006)

/* ---- both sides ---- */

const uint32 state_record_size[N_SAVED] = {
	sizeof(SavedSlot), sizeof(SavedTenant), sizeof(SavedBucket),
	sizeof(SavedPermit), sizeof(QuotaEvent), sizeof(QuotaSeen), sizeof(QuotaPause)
};

/*
 * Fills in which shutdown this is; false when the server is not cleanly shut
 * down as a primary.
 */
static bool
identify_shutdown(StateHeader *header)
{
	bool		crc_ok;
	ControlFileData *control = get_controlfile(DataDir, &crc_ok);
	bool		clean = crc_ok && control->state == DB_SHUTDOWNED;

	header->system = control->system_identifier;
	header->checkpoint = control->checkPoint;
	pfree(control);
	return clean;
}

/* Length of the file; the counts may be anything. */
static uint64
file_length(const StateHeader *header)
{
	uint64		length = sizeof(StateHeader) + sizeof(pg_crc32c);

	for (int i = 0; i < N_SAVED; i++)
		length += (uint64) state_record_size[i] * header->count[i];
	return length;
}

/* ---- saving ---- */

typedef struct Writer
{
	FILE	   *file;
	pg_crc32c	crc;
	bool		ok;
} Writer;

/* Writes a piece and adds it to the checksum; notes what fails. */
static void
put(Writer *writer, const void *data, size_t size)
{
	COMP_CRC32C(writer->crc, data, size);
	writer->ok = writer->ok && fwrite(data, size, 1, writer->file) == 1;
}

/* All but which shutdown this is. */
static void
fill_header(StateHeader *header)
{
	header->magic = STATE_MAGIC;
	header->major = PG_VERSION_NUM / 100;
	memcpy(header->size, state_record_size, sizeof(state_record_size));
	memcpy(header->secret, quota_shared->secret, sizeof(header->secret));
	header->crash_epoch = quota_shared->crash_epoch;
	header->active_since_ns = pg_atomic_read_u64(&quota_shared->active_since_ns);
	header->active_at = quota_shared->active_at;
	header->permit_serial = pg_atomic_read_u64(&quota_shared->permit_serial);
	header->events_lost = quota_shared->events_lost;
	header->seen_lost = quota_shared->seen_lost;
	for (int i = 0; i < QUOTA_N_GENERATIONS; i++)
	{
		QuotaGeneration *g = &quota_shared->generations[i];

		header->number[i] = pg_atomic_read_u64(&g->number);
		header->deleted_ns[i] = pg_atomic_read_u64(&g->deleted_ns);
	}
	quota_clock_save(&header->clock);

	header->count[SAVED_SLOTS] = quota_shared->slot_table.n_used;
	header->count[SAVED_TENANTS] = quota_shared->tenant_table.n_used;
	header->count[SAVED_BUCKETS] = quota_shared->bucket_table.n_used;
	for (int i = 0; i < quota_max_permits; i++)
		if (quota_permits[i].state == QUOTA_PERMIT_LIVE)
			header->count[SAVED_PERMITS]++;
	header->count[SAVED_EVENTS] =
		(uint32) (quota_shared->event_head - quota_shared->event_tail);
	header->count[SAVED_SEEN] =
		(uint32) (quota_shared->seen_head - quota_shared->seen_tail);
	/* no transaction is open any more */
	header->count[SAVED_PAUSES] = (uint32) quota_shared->pauses_used;
}

/* Writes all slots. */
static void
put_slots(Writer *writer)
{
	for (int i = 0; i < quota_max_providers; i++)
	{
		SavedSlot	saved;

		if (!quota_slots[i].entry.used)
			continue;
		memset(&saved, 0, sizeof(saved));
		saved.index = (uint32) i;
		saved.key = quota_slots[i].entry.key;
		saved.database = quota_slots[i].database;
		saved.extension = quota_slots[i].extension;
		strlcpy(saved.provider, quota_slots[i].provider, sizeof(saved.provider));
		put(writer, &saved, sizeof(saved));
	}
}

/* Writes all tenants. */
static void
put_tenants(Writer *writer)
{
	for (int i = 0; i < quota_max_tenants; i++)
	{
		SavedTenant saved = {.index = (uint32) i};

		if (!quota_tenants[i].entry.used)
			continue;
		memcpy(&saved.tenant, &quota_tenants[i], sizeof(QuotaTenant));
		put(writer, &saved, sizeof(saved));
	}
}

/* Writes all buckets. */
static void
put_buckets(Writer *writer)
{
	for (int i = 0; i < quota_max_buckets; i++)
	{
		SavedBucket saved = {.index = (uint32) i};

		if (!quota_buckets[i].entry.used)
			continue;
		memcpy(&saved.bucket, &quota_buckets[i], sizeof(QuotaBucket));
		put(writer, &saved, sizeof(saved));
	}
}

/* Writes the permits of committed transactions. */
static void
put_permits(Writer *writer)
{
	for (int i = 0; i < quota_max_permits; i++)
	{
		SavedPermit saved = {.index = (uint32) i};

		if (quota_permits[i].state != QUOTA_PERMIT_LIVE)
			continue;
		memcpy(&saved.permit, &quota_permits[i], sizeof(QuotaPermit));
		put(writer, &saved, sizeof(saved));
	}
}

/* Writes the events that no worker has written. */
static void
put_events(Writer *writer)
{
	for (uint64 i = quota_shared->event_tail; i < quota_shared->event_head; i++)
		put(writer, &quota_shared->events[i % QUOTA_EVENT_RING],
			sizeof(QuotaEvent));
}

/* Writes the answers of providers that no worker has written. */
static void
put_seen(Writer *writer)
{
	for (uint64 i = quota_shared->seen_tail; i < quota_shared->seen_head; i++)
		put(writer, &quota_shared->seen[i % QUOTA_SEEN_RING], sizeof(QuotaSeen));
}

/* Writes all pauses, as rows say too little of those that are not written or over. */
static void
put_pauses(Writer *writer)
{
	for (int i = 0; i < pause_places(); i++)
		if (quota_pauses[i].used)
			put(writer, &quota_pauses[i], sizeof(QuotaPause));
}

/*
 * Writes the file after a clean shutdown.  Does not throw for what goes wrong
 * with it: the next start is then as after a crash.
 */
void
quota_state_save(int code, Datum arg)
{
	StateHeader header;
	Writer		writer;

	memset(&header, 0, sizeof(header));
	if (code != 0 || IsUnderPostmaster || quota_shared == NULL ||
		!identify_shutdown(&header))
		return;
	shed_tell_all();
	fill_header(&header);

	INIT_CRC32C(writer.crc);
	writer.ok = true;
	writer.file = AllocateFile(STATE_TEMP, PG_BINARY_W);
	if (writer.file != NULL)
	{
		put(&writer, &header, sizeof(header));
		put_slots(&writer);
		put_tenants(&writer);
		put_buckets(&writer);
		put_permits(&writer);
		put_events(&writer);
		put_seen(&writer);
		put_pauses(&writer);
		FIN_CRC32C(writer.crc);
		writer.ok = writer.ok &&
			fwrite(&writer.crc, sizeof(writer.crc), 1, writer.file) == 1;
		writer.ok = FreeFile(writer.file) == 0 && writer.ok;
	}
	if (writer.file == NULL || !writer.ok)
	{
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not write file \"%s\": %m", STATE_TEMP)));
		unlink(STATE_TEMP);
		return;
	}
	durable_rename(STATE_TEMP, STATE_FILE, LOG);
}

/* ---- loading ---- */

/* Why a file cannot be used, if not for what is in it; NULL = it may be. */
static const char *
unusable(void)
{
	struct stat st;

	/*
	 * What a standby replays was decided elsewhere, so at its promotion shared
	 * memory knows nothing; and a restored backup has rows of another time.
	 */
	if (stat(STANDBY_SIGNAL_FILE, &st) == 0 ||
		stat(RECOVERY_SIGNAL_FILE, &st) == 0)
		return "the server starts in recovery";
	if (stat(BACKUP_LABEL_FILE, &st) == 0)
		return "the server was restored from a backup";
	return NULL;
}

/*
 * The contents of the file, followed by their length; NULL when there are none.
 */
static char *
slurp(uint64 *length)
{
	FILE	   *file = AllocateFile(STATE_FILE, PG_BINARY_R);
	struct stat st;
	char	   *data = NULL;

	*length = 0;
	if (file == NULL && errno == ENOENT)
		return NULL;
	if (file != NULL && fstat(fileno(file), &st) == 0 && st.st_size > 0)
	{
		*length = (uint64) st.st_size;
		data = MemoryContextAllocExtended(CurrentMemoryContext, *length,
										  MCXT_ALLOC_HUGE | MCXT_ALLOC_NO_OOM);
		if (data != NULL && fread(data, *length, 1, file) != 1)
		{
			pfree(data);
			data = NULL;
		}
	}
	if (data == NULL)
		ereport(LOG,
				(errcode_for_file_access(),
				 errmsg("could not read file \"%s\": %m", STATE_FILE)));
	if (file != NULL)
		FreeFile(file);
	return data;
}

/* Why these contents cannot be used; NULL = they can, and are laid out. */
static const char *
check(State *state, uint64 length)
{
	StateHeader *header = state->header;
	StateHeader now;
	pg_crc32c	crc;
	char	   *record = state->file + sizeof(StateHeader);
	uint64		body = length - sizeof(pg_crc32c);

	if (length < sizeof(StateHeader) + sizeof(pg_crc32c))
		return "it is damaged";
	if (header->magic != STATE_MAGIC || header->major != PG_VERSION_NUM / 100 ||
		memcmp(header->size, state_record_size, sizeof(state_record_size)) != 0)
		return "it was written by another version";
	if (file_length(header) != length)
		return "it is damaged";
	INIT_CRC32C(crc);
	COMP_CRC32C(crc, state->file, body);
	FIN_CRC32C(crc);
	if (memcmp(&crc, state->file + body, sizeof(crc)) != 0)
		return "it is damaged";

	if (!identify_shutdown(&now) || now.system != header->system ||
		now.checkpoint != header->checkpoint)
		return "the server has run since";
	if (header->count[SAVED_SLOTS] > (uint32) quota_max_providers ||
		header->count[SAVED_TENANTS] > (uint32) quota_max_tenants ||
		header->count[SAVED_BUCKETS] > (uint32) quota_max_buckets ||
		header->count[SAVED_EVENTS] > QUOTA_EVENT_RING ||
		header->count[SAVED_SEEN] > QUOTA_SEEN_RING ||
		header->count[SAVED_PAUSES] > (uint32) pause_places())
		return "a table is too small now";

	for (int i = 0; i < N_SAVED; i++)
	{
		state->records[i] = record;
		record += (uint64) state_record_size[i] * header->count[i];
	}
	return NULL;
}

/* A new crash epoch: everything older than this is unknown. */
static void
start_anew(void)
{
	uint64		serial;

	if (!pg_strong_random(quota_shared->secret, sizeof(quota_shared->secret)) ||
		!pg_strong_random(&quota_shared->crash_epoch,
						  sizeof(quota_shared->crash_epoch)) ||
		!pg_strong_random(&serial, sizeof(serial)))
		ereport(FATAL,
				(errcode(ERRCODE_INTERNAL_ERROR),
				 errmsg("could not generate random values for quota")));

	/* positive, and with room to rise for ever */
	pg_atomic_init_u64(&quota_shared->permit_serial,
					   serial >> (QUOTA_PERMIT_INDEX_BITS + 2));
	pg_atomic_init_u64(&quota_shared->active_since_ns, 0);
	quota_clock_start(NULL);
}

/* See state.h. */
void
quota_state_load(void)
{
	State		state = {0};
	uint64		length;
	const char *reason = unusable();
	bool		found;

	state.file = slurp(&length);
	state.header = (StateHeader *) state.file;
	found = state.file != NULL;

	/* once only, whatever becomes of us */
	if (length > 0 && durable_unlink(STATE_FILE, LOG) != 0)
		reason = "it could not be removed";
	if (found && reason == NULL)
		reason = check(&state, length);

	if (found && reason == NULL)
		state_restore(&state);
	else
		start_anew();

	if (found && reason != NULL)
		ereport(LOG,
				(errmsg("ignoring state file \"%s\": %s",
						STATE_FILE, reason),
				 errdetail("Rate limits start drained, and permits that were open count until they end.")));
	if (found)
		pfree(state.file);
}
