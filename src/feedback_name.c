/*
 * feedback_name.c
 *		What the name of a header says of its value: see feedback_name.h.
 *
 * Beside Retry-After, RateLimit and RateLimit-Policy there are as many families of
 * headers as providers, all made of the same words.  So a name is taken apart: the
 * words "ratelimit" or "rate-limit", behind them one that says what the value is
 * (limit, remaining, used, reset, window and their likes), and what is left over
 * names what is counted.  What stands before is the vendor's.  A name without a word
 * that says what the value is (X-RateLimit-Bucket) tells nothing.
 */
#include "feedback_name.h"

#include <string.h>

/* More words make a name none of ours. */
#define MAX_WORDS	12

/* ---- words ---- */

static const struct
{
	const char *word;
	NameMeaning means;
}			value_words[] = {
	{"limit", NAME_LIMIT}, {"max", NAME_LIMIT}, {"quota", NAME_LIMIT},
	{"remaining", NAME_REMAINING}, {"left", NAME_REMAINING},
	{"used", NAME_USED}, {"observed", NAME_USED},
	{"reset", NAME_RESET}, {"resets", NAME_RESET}, {"resettime", NAME_RESET},
	{"window", NAME_WINDOW}, {"interval", NAME_WINDOW},
	{"reason", NAME_REASON}
};

static const struct
{
	const char *word;
	int64_t		us;
}			time_words[] = {
	{"second", 1000000}, {"secondly", 1000000},
	{"minute", 60000000}, {"minutely", 60000000},
	{"hour", INT64_C(3600000000)}, {"hourly", INT64_C(3600000000)},
	{"day", HTTP_DAY_US}, {"daily", HTTP_DAY_US},
	{"month", 30 * HTTP_DAY_US}, {"monthly", 30 * HTTP_DAY_US}
};

#define LENGTH(array) ((int) (sizeof(array) / sizeof((array)[0])))

/* What the word says of the value, or NAME_OTHER. */
static NameMeaning
value_word(HttpText word)
{
	for (int i = 0; i < LENGTH(value_words); i++)
		if (http_is(word, value_words[i].word))
			return value_words[i].means;
	return NAME_OTHER;
}

/* The length of time that the word names, or FEEDBACK_NOT_TOLD. */
static int64_t
time_word(HttpText word)
{
	for (int i = 0; i < LENGTH(time_words); i++)
		if (http_is(word, time_words[i].word))
			return time_words[i].us;
	return FEEDBACK_NOT_TOLD;
}

/* See feedback_name.h. */
void
feedback_add_word(char *target, HttpText word)
{
	size_t		n = strlen(target);

	if (n > 0 && n + 1 < FEEDBACK_NAME_LEN)
		target[n++] = '-';
	for (size_t i = 0; i < word.length && n + 1 < FEEDBACK_NAME_LEN; i++)
	{
		char		c = word.at[i];

		target[n++] = c >= 'A' && c <= 'Z' ? (char) (c + ('a' - 'A')) : c;
	}
	target[n] = '\0';
}

/* The words of a name; -1 when it is no name of a header of ours. */
static int
split(const char *name, HttpText *words)
{
	int			n = 0;
	const char *start = name;

	for (const char *at = name;; at++)
	{
		bool		ends = *at == '-' || *at == '_' || *at == '\0';

		if (!ends && !((*at >= 'a' && *at <= 'z') || (*at >= 'A' && *at <= 'Z') ||
					   (*at >= '0' && *at <= '9')))
			return -1;
		if (!ends)
			continue;
		if (n == MAX_WORDS)
			return -1;
		words[n].at = start;
		words[n++].length = (size_t) (at - start);
		start = at + 1;
		if (*at == '\0')
			return n;
	}
}

/* ---- names ---- */

/* Where the words behind "rate-limit" begin; -1 when they are not there. */
static int
behind_marker(const HttpText *words, int n)
{
	for (int i = 0; i < n; i++)
	{
		if (http_is(words[i], "ratelimit"))
			return i + 1;
		if (i + 1 < n && http_is(words[i], "rate") &&
			(http_is(words[i + 1], "limit") || http_is(words[i + 1], "limits") ||
			 http_is(words[i + 1], "limited")))
			return i + 2;
	}
	return -1;
}

/* A word behind the marker. */
static void
add_word(HeaderName *name, HttpText word)
{
	NameMeaning means = value_word(word);
	int64_t		time_us = time_word(word);

	if (http_is(word, "ms") || http_is(word, "milliseconds"))
		name->unit = HTTP_MILLISECONDS;
	else if (http_is(word, "time") || http_is(word, "after"))
		return;					/* "time-reset", "reset-after" */
	else if (means == NAME_OTHER)
	{
		feedback_add_word(name->of, word);
		if (time_us == FEEDBACK_NOT_TOLD)
			feedback_add_word(name->counts, word);
		else
			name->window_us = time_us;
	}
	/* "limit-reset" is a reset */
	else if (name->means == NAME_OTHER || name->means == NAME_LIMIT)
		name->means = means;
}

/* retry-after, x-ms-retry-after-ms */
static bool
is_retry_after(const HttpText *words, int n, HeaderName *name)
{
	if (n > 0 && http_is(words[n - 1], "ms"))
	{
		name->unit = HTTP_MILLISECONDS;
		n--;
	}
	return n >= 2 && http_is(words[n - 2], "retry") &&
		http_is(words[n - 1], "after");
}

/* See feedback_name.h. */
HeaderName
feedback_take_apart(const char *text)
{
	HeaderName	name = {NAME_OTHER, HTTP_SECONDS, FEEDBACK_NOT_TOLD, "", ""};
	HttpText	words[MAX_WORDS];
	int			n = split(text, words);
	int			at;

	if (http_is(http_text(text), "ratelimit"))
		name.means = NAME_ITEMS;
	else if (http_is(http_text(text), "ratelimit-policy"))
		name.means = NAME_POLICIES;
	else if (n > 0 && is_retry_after(words, n, &name))
		name.means = NAME_RETRY_AFTER;
	if (name.means != NAME_OTHER || n < 0)
		return name;

	name.unit = HTTP_SECONDS;
	at = behind_marker(words, n);
	if (at < 0)
		return name;
	for (int i = at; i < n; i++)
		add_word(&name, words[i]);
	/* X-Rate-Limit alone, and with nothing but words of time, is a limit */
	if (name.means == NAME_OTHER && name.counts[0] == '\0')
		name.means = NAME_LIMIT;
	return name;
}
