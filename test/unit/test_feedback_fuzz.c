/*
 * test_feedback_fuzz.c
 *	  Answers of providers without any sense, so that the sanitizers see what reads
 *	  beyond the end or overflows; and answers with sense, written at random, which
 *	  must be read as they were meant.
 *
 * Every run takes other numbers, which it names; QUOTA_FUZZ_SEED repeats a run,
 * QUOTA_FUZZ_SECONDS makes it longer or shorter.  "make fuzz" lets libFuzzer look
 * for what random bytes don't find.
 */
#include "unit.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "feedback.h"
#include "http_list.h"

#define SECONDS		2
#define MAX_BYTES	2048
#define MAX_HEADERS 12

/* ---- any bytes ---- */

/* What must hold of any outcome. */
static void
check_outcome(const FeedbackOutcome *out)
{
	CHECK(out->class >= 0 && out->class < FEEDBACK_N_CLASSES);
	CHECK(out->scope >= 0 && out->scope < FEEDBACK_N_SCOPES);
	CHECK(feedback_class_name(out->class) != NULL);
	CHECK(feedback_scope_name(out->scope) != NULL);
	CHECK(out->retry_after_us >= FEEDBACK_NOT_TOLD &&
		  out->retry_after_us <= HTTP_MAX_WAIT_US);
	CHECK(out->nreadings >= 0 && out->nreadings <= FEEDBACK_MAX_READINGS);
	for (int i = 0; i < out->nreadings; i++)
	{
		const FeedbackReading *r = &out->readings[i];

		CHECK(strlen(r->of) < FEEDBACK_NAME_LEN);
		CHECK(strlen(r->unit) < FEEDBACK_NAME_LEN);
		CHECK(r->limit >= FEEDBACK_NOT_TOLD && r->limit <= HTTP_MAX_COUNT);
		CHECK(r->remaining >= FEEDBACK_NOT_TOLD && r->remaining <= HTTP_MAX_COUNT);
		CHECK(r->reset_us >= FEEDBACK_NOT_TOLD && r->reset_us <= HTTP_MAX_WAIT_US);
		CHECK(r->window_us >= FEEDBACK_NOT_TOLD && r->window_us <= HTTP_MAX_WAIT_US);
	}
}

/*
 * Bytes as an answer: eleven of numbers, then lines "name: value".  Every text is in
 * memory of its own, so that reading beyond its end is seen.
 */
static void
fuzz_answer(const uint8_t *bytes, size_t size)
{
	FeedbackHeader headers[MAX_HEADERS];
	FeedbackAnswer answer = {0};
	FeedbackOutcome out;
	FeedbackRule rules[4];
	int64_t		now_us;
	HttpText	rest;
	HttpText	line;
	char	   *texts[2 * MAX_HEADERS];

	if (size < 11)
		return;
	answer.status = bytes[0] * 4 - 1;
	answer.has_tenant = bytes[1] & 1;
	answer.has_endpoint = bytes[1] & 2;
	answer.has_connection = bytes[1] & 4;
	answer.reason = bytes[1] & 8 ? "why" : NULL;
	memcpy(&now_us, bytes + 3, sizeof(now_us));
	rest.at = (const char *) bytes + 11;
	rest.length = size - 11;
	while (answer.nheaders < MAX_HEADERS && http_next(&rest, '\n', &line))
	{
		HttpText	name;
		char	  **text = &texts[2 * answer.nheaders];

		(void) http_next(&line, ':', &name);
		if (line.at == NULL)
			line.at = "";
		text[0] = strndup(name.at, name.length);
		text[1] = strndup(line.at, line.length);
		headers[answer.nheaders].name = text[0];
		headers[answer.nheaders].value = text[1];
		answer.nheaders++;
	}
	answer.headers = headers;
	for (int i = 0; i < 4; i++)
	{
		FeedbackRule rule = {bytes[2] & 1, -1, i % 2 ? "x-a" : NULL,
			i > 1 ? "*1*" : NULL, (FeedbackMeaning) ((bytes[2] >> 1) % (MEANS_NOTHING + 1)),
			(FeedbackClass) (bytes[2] % FEEDBACK_N_CLASSES),
		(FeedbackScope) ((bytes[2] + i) % FEEDBACK_N_SCOPES), i == 3 ? "l" : NULL};

		rules[i] = rule;
	}
	feedback_classify(&answer, rules, bytes[1] & 16 ? 4 : 0, now_us, &out);
	check_outcome(&out);
	for (int i = 0; i < 2 * answer.nheaders; i++)
		free(texts[i]);
}

#ifdef QUOTA_LIBFUZZER
int			LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
	fuzz_answer(bytes, size);
	if (unit_bad_checks > 0)
		abort();
	return 0;
}
#else

/* Bytes that such headers are made of, and some that they are not. */
static size_t
random_answer(uint8_t *bytes)
{
	static const char *const pieces[] = {
		"retry-after", "-ms", "ratelimit", "RateLimit-Policy", "x-rate-limit-",
		"limit", "-remaining", "-reset", "-used", "-tokens", "-minute", "x-a", ":", ": ",
		"\n", "\n", ",", ";", "=", "\"", "r=", "t=", "q=", "w=", "-1", "0", "9", "1",
		"999999999999999999999", "1777636800", "1m30s", "ms", ".5", " ", "\\", "GMT",
		"Fri, 01 May 2026 12:00:30 GMT", "2026-05-01T12:00:01Z", "\xff", "\xc3\xa9", "/"
	};
	size_t		size = 11;

	for (size_t i = 0; i < size; i++)
		bytes[i] = (uint8_t) random64();
	for (int n = (int) random_below(40); n > 0; n--)
	{
		const char *piece = pieces[random_below(sizeof(pieces) / sizeof(pieces[0]))];

		if (size + strlen(piece) > MAX_BYTES)
			break;
		memcpy(bytes + size, piece, strlen(piece));
		size += strlen(piece);
	}
	for (int n = (int) random_below(3); n > 0 && size > 11; n--)
		bytes[11 + random_below((int64_t) size - 11)] = (uint8_t) random64();
	return size;
}

UNIT_TEST(answers_stand_any_bytes)
{
	const char *seconds = getenv("QUOTA_FUZZ_SECONDS");
	clock_t		end = clock() + (seconds ? atoi(seconds) : SECONDS) * CLOCKS_PER_SEC;
	long		runs = 0;
	uint8_t		bytes[MAX_BYTES];

	for (; clock() < end; runs++)
		fuzz_answer(bytes, random_answer(bytes));
	printf("# %ld answers\n", runs);
}

/* ---- what was written is what is read ---- */

/* A number or nothing. */
static int64_t
maybe(int64_t n)
{
	return random_below(4) == 0 ? FEEDBACK_NOT_TOLD : random_magnitude(n);
}

/* Adds ";key=n" if n is told. */
static void
write_param(char *text, const char *key, int64_t n)
{
	if (n != FEEDBACK_NOT_TOLD)
		sprintf(text + strlen(text), "%s;%s=%lld", random_below(2) ? " " : "", key,
				(long long) n);
}

UNIT_TEST(ratelimit_fields_are_read_as_written)
{
	for (int run = 0; run < 20000; run++)
	{
		char		items[1000] = "";
		char		policies[1000] = "";
		FeedbackHeader headers[] = {{"RateLimit", items}, {"ratelimit-policy", policies}};
		FeedbackAnswer answer = {.status = 200,.nheaders = 2,.headers = headers};
		FeedbackReading told[FEEDBACK_MAX_READINGS];
		FeedbackOutcome out;
		int			n = 1 + (int) random_below(FEEDBACK_MAX_READINGS);

		for (int i = 0; i < n; i++)
		{
			FeedbackReading *r = &told[i];
			const char *separator = i == 0 ? "" : random_below(2) ? ", " : ",";

			r->remaining = maybe(HTTP_MAX_COUNT);
			r->limit = maybe(HTTP_MAX_COUNT);
			r->reset_us = maybe(366 * 86400);
			r->window_us = maybe(366 * 86400);
			sprintf(items + strlen(items), "%s\"p%d\"", separator, i);
			write_param(items, "r", r->remaining);
			write_param(items, "t", r->reset_us);
			sprintf(policies + strlen(policies), "%s\"p%d\"", separator, i);
			write_param(policies, "q", r->limit);
			write_param(policies, "w", r->window_us);
		}
		feedback_classify(&answer, NULL, 0, 0, &out);
		CHECK_EQ(out.ignored, 0);
		CHECK_EQ(out.nreadings, n);
		for (int i = 0; i < n && out.nreadings == n; i++)
		{
			const FeedbackReading *r = &out.readings[i];

			CHECK_EQ(r->remaining, told[i].remaining);
			CHECK_EQ(r->limit, told[i].limit);
			CHECK_EQ(r->reset_us, told[i].reset_us < 0 ? -1 : told[i].reset_us * 1000000);
			CHECK_EQ(r->window_us, told[i].window_us < 0 ? -1 : told[i].window_us * 1000000);
		}
	}
}

/* The same wait, however it is written. */
UNIT_TEST(waits_are_read_as_written)
{
	for (int run = 0; run < 50000; run++)
	{
		/* numbers since 1970 begin in September 2001 */
		int64_t		now_us = INT64_C(60000000000000) +
			random_magnitude(INT64_C(1000000000000000));
		int64_t		us = random_magnitude(HTTP_MAX_WAIT_US + 1);
		int64_t		unix_us = now_us + us + INT64_C(946684800000000);
		int64_t		s = us / 1000000;
		int64_t		read;
		char		text[100];

		switch (random_below(5))
		{
			case 0:
				sprintf(text, "%lld.%06lld", (long long) s, (long long) us % 1000000);
				break;
			case 1:
				sprintf(text, "%lldh%lldm%lld.%06llds", (long long) s / 3600,
						(long long) s / 60 % 60, (long long) s % 60,
						(long long) us % 1000000);
				break;
			case 2:
				sprintf(text, "%lld.%06lld", (long long) unix_us / 1000000,
						(long long) unix_us % 1000000);
				break;
			case 3:
				sprintf(text, "%lld.%03lld", (long long) unix_us / 1000,
						(long long) unix_us % 1000);
				break;
			default:
				sprintf(text, "%lld", (long long) unix_us);
		}
		CHECK(http_wait(http_text(text), HTTP_SECONDS, now_us, &read));
		CHECK_EQ(read, us);
	}
}

int
main(void)
{
	const char *seed = getenv("QUOTA_FUZZ_SEED");

	random_state = seed ? strtoull(seed, NULL, 10)
		: (uint64_t) time(NULL) * UINT64_C(2654435761) + 1;
	printf("# QUOTA_FUZZ_SEED=%llu\n", (unsigned long long) random_state);
	fflush(stdout);
	UNIT_RUN(answers_stand_any_bytes);
	UNIT_RUN(ratelimit_fields_are_read_as_written);
	UNIT_RUN(waits_are_read_as_written);
	UNIT_MAIN_END();
}
#endif							/* QUOTA_LIBFUZZER */
