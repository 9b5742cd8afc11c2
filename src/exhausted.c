/*
 * exhausted.c
 *		What said no to a call, as a jsonb array: see exhausted.h.
 *
 * Refusals come in floods, and a jsonb made by way of a tree of values would be most of
 * what one costs.  Objects of the list all have the same keys, so it is written as it
 * is stored (utils/jsonb.h), from its beginning to its end: of each container the header
 * and what entries there are, which are filled in as their content is written behind
 * them.  That is byte for byte what the server makes of the same text.
 *
 * Numbers and instants repeat: some are kept as they were written last.
 */
#include "exhausted.h"

#include "catalog/pg_type_d.h"
#include "pause.h"
#include "pgtime.h"
#include "utils/datetime.h"
#include "utils/json.h"
#include "utils/numeric.h"

/* Keys of an object, sorted as a jsonb has them: by length first. */
enum
{
	KEY_NAME,
	KEY_UNIT,
	KEY_AMOUNT,
	KEY_NEEDED,
	KEY_REASON,
	KEY_WINDOW,
	KEY_REMAINING,
	KEY_NOT_BEFORE,
	N_KEYS
};

#define KEY_NAMES "name" "unit" "amount" "needed" "reason" "window" "remaining" "not_before"

static const JEntry key_entries[N_KEYS] = {
	JENTRY_HAS_OFF | 4, 4, 6, 6, 6, 6, 9, 10	/* bytes of each */
};

/* Bytes of a number, at most, and of all of an object but its strings. */
#define NUMBER_MOST 24
#define OBJECT_MOST \
	(sizeof(uint32) + 2 * N_KEYS * sizeof(JEntry) + sizeof(KEY_NAMES) + \
	 4 * (NUMBER_MOST + sizeof(uint32)) + MAXDATELEN + sizeof(uint32))

/* Of longer arrays not only the first entry would be an offset. */
StaticAssertDecl(PAUSE_MAX_HITS + QUOTA_MAX_TERMS <= JB_OFFSET_STRIDE &&
				 2 * N_KEYS <= JB_OFFSET_STRIDE, "jsonb entries are all lengths");

/* A jsonb in the making. */
typedef struct Writer
{
	char	   *start;
	char	   *at;				/* what comes next goes here */
} Writer;

/* ---- what is in an object ---- */

/* Containers and numbers begin at multiples of 4. */
static void
align(Writer *w)
{
	while ((w->at - w->start) % sizeof(uint32) != 0)
		*w->at++ = '\0';
}

/* A string; its entry, as of all of these. */
static JEntry
put_string(Writer *w, const char *string)
{
	size_t		length = strlen(string);

	memcpy(w->at, string, length);
	w->at += length;
	return JENTRY_ISSTRING | (JEntry) length;
}

/* A number as it is written. */
typedef struct KeptNumber
{
	int64		number;
	char		numeric[NUMBER_MOST];	/* of size 0: none is kept */
} KeptNumber;

/* The number as the server writes it; good until the next call. */
static const char *
numeric_of(int64 number)
{
	/* amounts, periods and costs are few, and what is left is mostly nothing */
	static KeptNumber kept[61];
	KeptNumber *k = &kept[(uint64) number % lengthof(kept)];

	if (k->number != number || VARSIZE(k->numeric) == 0)
	{
		Numeric		numeric = int64_to_numeric(number);

		Assert(VARSIZE(numeric) <= NUMBER_MOST);
		memcpy(k->numeric, numeric, VARSIZE(numeric));
		k->number = number;
		pfree(numeric);
	}
	return k->numeric;
}

/* A number. */
static JEntry
put_number(Writer *w, int64 number)
{
	const char *from = w->at;
	const char *numeric = numeric_of(number);

	align(w);
	memcpy(w->at, numeric, VARSIZE(numeric));
	w->at += VARSIZE(numeric);
	return JENTRY_ISNUMERIC | (JEntry) (w->at - from);
}

/* A second as it is written in a time zone. */
typedef struct SecondText
{
	pg_tz	   *zone;			/* NULL: none is kept */
	int64		second;			/* since 2000 */
	size_t		before;			/* bytes up to the fraction */
	size_t		after;			/* and those that follow it */
	char		text[MAXDATELEN + 1];
} SecondText;

/* That of a second, in the session's time zone. */
static const SecondText *
text_of(int64 second)
{
	static SecondText kept[13];
	SecondText *k = &kept[(uint64) second % lengthof(kept)];

	if (k->zone != session_timezone || k->second != second)
	{
		k->zone = NULL;			/* should it fail */
		JsonEncodeDateTime(k->text, TimestampTzGetDatum(second * USECS_PER_SEC),
						   TIMESTAMPTZOID, NULL);
		k->before = strchr(k->text, 'T') + strlen("T00:00:00") - k->text;
		k->after = strlen(k->text) - k->before;
		k->second = second;
		k->zone = session_timezone;
	}
	return k;
}

/* An instant; null for "never". */
static JEntry
put_instant(Writer *w, TimestampTz at_us)
{
	int64		second = at_us / USECS_PER_SEC;
	int			fraction = (int) (at_us % USECS_PER_SEC);
	const char *from = w->at;
	const SecondText *shown;

	if (at_us == DT_NOEND)
		return JENTRY_ISNULL;
	if (fraction < 0)
	{
		fraction += USECS_PER_SEC;
		second--;
	}
	shown = text_of(second);
	memcpy(w->at, shown->text, shown->before);
	w->at += shown->before;
	if (fraction > 0)
		*w->at++ = '.';
	for (int digit = USECS_PER_SEC / 10; fraction > 0; digit /= 10)
	{
		*w->at++ = (char) ('0' + fraction / digit);
		fraction %= digit;
	}
	memcpy(w->at, shown->text + shown->before, shown->after);
	w->at += shown->after;
	return JENTRY_ISSTRING | (JEntry) (w->at - from);
}

/* ---- objects ---- */

/* An object of which nothing but the values is missing; their entries. */
static JEntry *
begin_object(Writer *w)
{
	JsonbContainer *object;

	align(w);
	object = (JsonbContainer *) w->at;
	object->header = JB_FOBJECT | N_KEYS;
	memcpy(object->children, key_entries, sizeof(key_entries));
	w->at = (char *) &object->children[2 * N_KEYS];
	memcpy(w->at, KEY_NAMES, strlen(KEY_NAMES));
	w->at += strlen(KEY_NAMES);
	return &object->children[N_KEYS];
}

/* One limit. */
static JEntry
put_limit(Writer *w, const QuotaTerm *term, const QuotaExhausted *e)
{
	const char *from = w->at;
	JEntry	   *values = begin_object(w);

	values[KEY_NAME] = put_string(w, term->name);
	values[KEY_UNIT] = put_string(w, term->unit);
	values[KEY_AMOUNT] = put_number(w, term->amount);
	values[KEY_NEEDED] = put_number(w, e->needed);
	values[KEY_REASON] = put_string(w, quota_reason_name(e->reason));
	values[KEY_WINDOW] = e->window_ns == 0 ? JENTRY_ISNULL
		: put_number(w, quota_s_up(e->window_ns));
	values[KEY_REMAINING] = put_number(w, e->remaining);
	values[KEY_NOT_BEFORE] = put_instant(w, e->not_before_us);
	return JENTRY_ISCONTAINER | (JEntry) (w->at - from);
}

/* One pause, which counts nothing. */
static JEntry
put_pause(Writer *w, const PauseHit *hit)
{
	const char *from = w->at;
	JEntry	   *values = begin_object(w);

	for (int i = 0; i < N_KEYS; i++)
		values[i] = JENTRY_ISNULL;
	values[KEY_NAME] = put_string(w, hit->scope);
	values[KEY_REASON] = put_string(w, quota_reason_name(QUOTA_PAUSED));
	values[KEY_NOT_BEFORE] = put_instant(w, hit->until_us);
	return JENTRY_ISCONTAINER | (JEntry) (w->at - from);
}

/* ---- the list ---- */

/* Bytes that will do for all of it. */
static Size
list_most(const QuotaPlan *plan, const QuotaVerdict *v)
{
	int			n = v->npaused + v->nexhausted;
	Size		most = sizeof(Jsonb) + n * (sizeof(JEntry) + OBJECT_MOST);

	for (int i = 0; i < v->npaused; i++)
		most += strlen(pause_seen.hits[i].scope) + strlen(quota_reason_name(QUOTA_PAUSED));
	for (int i = 0; i < v->nexhausted; i++)
	{
		const QuotaTerm *term = &plan->terms[v->exhausted[i].term];

		most += strlen(term->name) + strlen(term->unit) +
			strlen(quota_reason_name(v->exhausted[i].reason));
	}
	return most;
}

/* See exhausted.h. */
Datum
exhausted_datum(const QuotaPlan *plan, const QuotaVerdict *verdict)
{
	int			n = verdict->npaused + verdict->nexhausted;
	Jsonb	   *list = palloc(list_most(plan, verdict));
	JEntry	   *entry = list->root.children;
	Writer		w = {.start = (char *) list,.at = (char *) &entry[n]};

	Assert(n > 0);
	list->root.header = JB_FARRAY | n;
	for (int i = 0; i < verdict->npaused; i++)
		*entry++ = put_pause(&w, &pause_seen.hits[i]);
	for (int i = 0; i < verdict->nexhausted; i++)
		*entry++ = put_limit(&w, &plan->terms[verdict->exhausted[i].term],
							 &verdict->exhausted[i]);
	list->root.children[0] |= JENTRY_HAS_OFF;
	SET_VARSIZE(list, w.at - w.start);
	return JsonbPGetDatum(list);
}
