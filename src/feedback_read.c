/*
 * feedback_read.c
 *		What a header tells of limits: see feedback.h; what its name says is in
 *		feedback_name.c.
 *
 * Several values for one thing, of whatever headers, are joined to the least that is
 * left and the longest wait.
 */
#include "feedback.h"

#include "feedback_name.h"
#include "http_list.h"

#include <string.h>

/* ---- readings ---- */

static const FeedbackReading nothing_told = {
	"", "", NULL, FEEDBACK_NOT_TOLD, FEEDBACK_NOT_TOLD, FEEDBACK_NOT_TOLD,
	FEEDBACK_NOT_TOLD, FEEDBACK_NOT_TOLD
};

/* The smaller of what is told. */
static void
keep_least(int64_t *told, int64_t value)
{
	if (value != FEEDBACK_NOT_TOLD && (*told == FEEDBACK_NOT_TOLD || value < *told))
		*told = value;
}

/* The larger of what is told. */
static void
keep_most(int64_t *told, int64_t value)
{
	if (value > *told)
		*told = value;
}

/* Are they about the same? */
static bool
is_same(const FeedbackReading *a, const FeedbackReading *b)
{
	if (a->limit_name == NULL || b->limit_name == NULL)
		return a->limit_name == b->limit_name && strcmp(a->of, b->of) == 0;
	return strcmp(a->limit_name, b->limit_name) == 0;
}

/* Joins what was told of a name to the outcome. */
static void
join(FeedbackOutcome *out, const FeedbackReading *told)
{
	FeedbackReading *r = NULL;

	for (int i = 0; i < out->nreadings && r == NULL; i++)
		if (is_same(&out->readings[i], told))
			r = &out->readings[i];
	if (r == NULL)
	{
		if (out->nreadings == FEEDBACK_MAX_READINGS)
			out->ignored++;
		else
			out->readings[out->nreadings++] = *told;
		return;
	}
	keep_least(&r->limit, told->limit);
	keep_least(&r->remaining, told->remaining);
	keep_most(&r->used, told->used);
	keep_most(&r->reset_us, told->reset_us);
	keep_least(&r->window_us, told->window_us);
	if (r->unit[0] == '\0')
		strcpy(r->unit, told->unit);
}

/* ---- values of families ---- */

/* "used" or "used/limit" */
static bool
read_used(HttpText text, FeedbackReading *told)
{
	HttpText	part;
	int64_t		used;
	int64_t		limit;

	if (!http_next(&text, '/', &part) || !http_count(part, &used))
		return false;
	keep_most(&told->used, used);
	if (text.at == NULL)
		return true;
	if (!http_count(text, &limit))
		return false;
	keep_least(&told->limit, limit);
	return true;
}

/* One item of a list. */
static bool
read_item(HttpText text, NameMeaning means, bool is_first, FeedbackReading *told)
{
	int64_t		count;

	if (means == NAME_USED)
		return read_used(text, told);
	if (!http_count(text, &count))
		return false;
	if (means == NAME_REMAINING)
		keep_least(&told->remaining, count);
	else if (is_first)
		told->limit = count;
	return true;
}

/*
 * Counts: "100", and as older drafts have it "100, 100;w=60", where what follows the
 * first limit are policies.
 */
static bool
read_counts(const char *value, NameMeaning means, FeedbackReading *told)
{
	HttpText	rest = http_trim(http_text(value));
	HttpMember	m;
	bool		malformed;
	int			n = 0;

	for (; http_member(&rest, &m, &malformed); n++)
	{
		HttpText	w;

		if (m.key.at != NULL || !read_item(m.item, means, n == 0, told))
			return false;
		if (n == 0 && http_param(&m, "w", &w) &&
			!http_wait(w, HTTP_SECONDS, 0, &told->window_us))
			return false;
	}
	return !malformed && n > 0;
}

/* A time, or the longest of several. */
static bool
read_time(const char *value, HttpUnit unit, int64_t now_us, int64_t *us)
{
	HttpText	rest = http_text(value);
	HttpText	part;

	if (http_wait(rest, unit, now_us, us))
		return true;
	*us = FEEDBACK_NOT_TOLD;
	while (http_next(&rest, ',', &part))
	{
		int64_t		one;

		if (!http_wait(part, unit, now_us, &one))
			return false;
		keep_most(us, one);
	}
	return true;
}

/* ---- the fields of the IETF ---- */

/* A count that a parameter may give; false: it gives rubbish. */
static bool
param_count(const HttpMember *m, const char *key, int64_t *count)
{
	HttpText	value;

	return !http_param(m, key, &value) || http_count(value, count);
}

/* The same for a time. */
static bool
param_seconds(const HttpMember *m, const char *key, int64_t *us)
{
	HttpText	value;

	return !http_param(m, key, &value) ||
		http_wait(value, HTTP_SECONDS, 0, us);
}

/* An entry of draft 7's dictionary, limit=100, remaining=50, reset=5 */
static bool
read_entry(const HttpMember *m, FeedbackReading *told)
{
	if (http_is(m->key, "limit"))
		return http_count(m->item, &told->limit);
	if (http_is(m->key, "remaining"))
		return http_count(m->item, &told->remaining);
	if (http_is(m->key, "reset"))
		return http_wait(m->item, HTTP_SECONDS, 0, &told->reset_us);
	return true;
}

/* The name of a policy, in lower case; one that is a number is none (older drafts). */
static void
name_policy(const HttpMember *m, FeedbackReading *told)
{
	int64_t		number;
	char		name[FEEDBACK_NAME_LEN];

	if (!m->is_string && http_count(m->item, &number))
		return;
	http_item_copy(m, name, sizeof(name));
	feedback_add_word(told->of, http_text(name));
}

/*
 * "default";r=50;t=30 and "default";q=100;w=60;qu="requests", or as drafts had it
 * default;q=100, limit=100, and 100;w=60.  pk, who shares the quota, is not read.
 */
static bool
read_member(const HttpMember *m, FeedbackReading *told)
{
	HttpText	unit;

	if (m->key.at != NULL)
		return read_entry(m, told);
	name_policy(m, told);
	if (!m->is_string && told->of[0] == '\0' && !http_count(m->item, &told->limit))
		return false;
	if (http_param(m, "qu", &unit))
		feedback_add_word(told->unit, unit);
	return param_count(m, "r", &told->remaining) &&
		param_count(m, "q", &told->limit) &&
		param_seconds(m, "t", &told->reset_us) &&
		param_seconds(m, "w", &told->window_us);
}

/* All members of a field, or none of them if one is malformed. */
static bool
read_field(const char *value, FeedbackOutcome *out)
{
	FeedbackOutcome before = *out;
	HttpText	rest = http_trim(http_text(value));
	HttpMember	m;
	bool		malformed;
	int			n = 0;

	for (; http_member(&rest, &m, &malformed); n++)
	{
		FeedbackReading told = nothing_told;

		if (!read_member(&m, &told))
		{
			malformed = true;
			break;
		}
		join(out, &told);
	}
	if (malformed)
		*out = before;
	return !malformed && n > 0;
}

/* ---- headers ---- */

/*
 * An instant that is over: the call was refused just now, so the clocks differ, and it
 * names no time.  A number of seconds, or a duration, does, be it none.
 */
static bool
is_past_instant(const char *value, int64_t us)
{
	return us == 0 && value[strspn(value, "0.,dhmsu \t")] != '\0';
}

/* Reads the value of a header whose name says this; false: it is rubbish. */
static bool
read_value(const char *value, const HeaderName *name, const char *limit_name,
		   int64_t now_us, FeedbackOutcome *out)
{
	FeedbackReading told = nothing_told;
	int64_t		us;
	bool		is_good;

	strcpy(told.of, name->of);
	strcpy(told.unit, name->counts);
	told.limit_name = limit_name;
	told.window_us = name->window_us;
	switch (name->means)
	{
		case NAME_ITEMS:
		case NAME_POLICIES:
			return read_field(value, out);
		case NAME_REASON:
			if (out->reason == NULL && value[0] != '\0')
				out->reason = value;
			return true;
		case NAME_RETRY_AFTER:
			if (!read_time(value, name->unit, now_us, &us))
				return false;
			if (!is_past_instant(value, us))
				keep_most(&out->retry_after_us, us);
			return true;
		case NAME_RESET:
			is_good = read_time(value, name->unit, now_us, &told.reset_us);
			break;
		case NAME_WINDOW:
			is_good = read_time(value, name->unit, now_us, &told.window_us);
			break;
		default:
			is_good = read_counts(value, name->means, &told);
	}
	if (is_good)
		join(out, &told);
	return is_good;
}

/* See feedback.h. */
bool
feedback_read(const FeedbackHeader *header, int64_t now_us, FeedbackOutcome *outcome)
{
	HeaderName	name = feedback_take_apart(header->name);

	if (name.means == NAME_OTHER)
		return false;
	if (!read_value(header->value, &name, NULL, now_us, outcome))
		outcome->ignored++;
	return true;
}

/* See feedback.h. */
void
feedback_read_as(const FeedbackHeader *header, const FeedbackRule *rule,
				 int64_t now_us, FeedbackOutcome *outcome)
{
	static const NameMeaning meanings[] = {
		[MEANS_LIMIT] = NAME_LIMIT,[MEANS_REMAINING] = NAME_REMAINING,
		[MEANS_USED] = NAME_USED,[MEANS_RESET] = NAME_RESET,
		[MEANS_RETRY_AFTER] = NAME_RETRY_AFTER,[MEANS_REASON] = NAME_REASON
	};
	HeaderName	name = feedback_take_apart(header->name);

	name.means = meanings[rule->means];
	if (!read_value(header->value, &name, rule->limit_name, now_us, outcome))
		outcome->ignored++;
}

/* See feedback.h. */
bool
feedback_counts(const FeedbackReading *reading, const char *unit)
{
	const char *of = reading->unit;
	size_t		i = 0;

	if (of[0] == '\0')
		of = "request";
	for (; of[i] != '\0' && unit[i] != '\0'; i++)
		if (of[i] != (unit[i] == '_' ? '-' : unit[i]))
			return false;
	/* headers mostly name several */
	return unit[i] == '\0' && (of[i] == '\0' || strcmp(of + i, "s") == 0);
}
