/*
 * test_http_value.c
 *	  Dates, waits and counts of headers; lists of structured fields.
 */
#include "unit.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "http_date.h"
#include "http_list.h"

#define S INT64_C(1000000)

/* 2000-01-01 as seconds since 1970 */
#define UNIX_S INT64_C(946684800)

static int64_t
date(const char *text, int64_t now_us)
{
	int64_t		at;

	return http_date(text, strlen(text), now_us, &at) ? at : INT64_MIN;
}

/* The wait a text asks for, -1 when it is none. */
static int64_t
wait_from(const char *text, int64_t now_us)
{
	int64_t		us;

	return http_wait(http_text(text), HTTP_SECONDS, now_us, &us) ? us : -1;
}

static int64_t
count(const char *text)
{
	int64_t		n;

	return http_count(http_text(text), &n) ? n : -1;
}

UNIT_TEST(three_http_dates_are_one_instant)
{
	int64_t		at = (INT64_C(784111777) - UNIX_S) * S;

	CHECK_EQ(date("Sun, 06 Nov 1994 08:49:37 GMT", 0), at);
	CHECK_EQ(date("Sunday, 06-Nov-94 08:49:37 GMT", 0), at);
	CHECK_EQ(date("Sun Nov  6 08:49:37 1994", 0), at);
	CHECK_EQ(date("1994-11-06T08:49:37Z", 0), at);
	CHECK_EQ(date("1994-11-06T10:49:37.25+02:00", 0), at + S / 4);
	CHECK_EQ(date("1994-11-06 08:19Z", 0), at - 30 * 60 * S - 37 * S);
	/* a leap second counts as the next one */
	CHECK_EQ(date("Sat, 31 Dec 2016 23:59:60 GMT", 0),
			 date("Sun, 01 Jan 2017 00:00:00 GMT", 0));
	CHECK(date("Thu, 29 Feb 2024 00:00:00 GMT", 0) != INT64_MIN);
	/* the weekday says nothing that the date doesn't */
	CHECK_EQ(date("Mon, 06 Nov 1994 08:49:37 GMT", 0), at);
}

UNIT_TEST(what_is_no_date_is_none)
{
	static const char *const wrong[] = {
		"", "Sun", "tomorrow", "infinity", "now", "06 Nov 1994 08:49:37 GMT",
		"Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 08:49:37",
		"Sun, 06 Nov 1994 08:49:37 UTC", "Sun, 06 Nov 1994 08:49:37 +0000",
		"sun, 06 nov 1994 08:49:37 gmt", "Sun, 31 Nov 1994 08:49:37 GMT",
		"Wed, 29 Feb 2023 00:00:00 GMT", "Sun, 00 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 24:00:00 GMT", "Sun, 06 Nov 1994 08:60:37 GMT",
		"Sun, 06 Nov 1994 08:49:61 GMT", "Sun, 06 Nov 0000 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 GMT ", "Son, 06 Nov 1994 08:49:37 GMT",
		"Sunday, 06-Nov-1994 08:49:37 GMT", "Sun Nov 6 08:49:37 1994",
		"1994-11-06T08:49:37", "1994-11-06", "1994-13-06T08:49:37Z",
		"1994-11-06T08:49:37.Z", "1994-11-06T08:49:37+0200",
		"1994-11-06T08:49:37+24:00"
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		CHECK_EQ(date(wrong[i], 0), INT64_MIN);
		if (date(wrong[i], 0) != INT64_MIN)
			printf("#   %s\n", wrong[i]);
	}
}

UNIT_TEST(a_year_of_two_digits_is_at_most_50_years_ahead)
{
	int64_t		in_2026 = date("Fri, 01 May 2026 12:00:00 GMT", 0);

	CHECK_EQ(date("Friday, 01-May-26 12:00:00 GMT", in_2026), in_2026);
	CHECK_EQ(date("Friday, 01-May-76 12:00:00 GMT", in_2026),
			 date("Fri, 01 May 2076 12:00:00 GMT", 0));
	CHECK_EQ(date("Friday, 01-May-77 12:00:00 GMT", in_2026),
			 date("Sun, 01 May 1977 12:00:00 GMT", 0));
	CHECK_EQ(date("Friday, 01-May-00 12:00:00 GMT", in_2026),
			 date("Mon, 01 May 2000 12:00:00 GMT", 0));
}

/* Any instant of years 1 to 9999, written by the C library. */
UNIT_TEST(dates_agree_with_the_c_library)
{
	for (int i = 0; i < 20000; i++)
	{
		time_t		t = random_below(INT64_C(253402300800) + INT64_C(30610224000)) -
			INT64_C(30610224000);	/* from the year 1000 on */
		struct tm	tm;
		char		text[64];

		gmtime_r(&t, &tm);
		if (i % 3 == 0)
			strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &tm);
		else if (i % 3 == 1)
			strftime(text, sizeof(text), "%a %b %e %H:%M:%S %Y", &tm);
		else
			strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm);
		CHECK_EQ(date(text, 0), (t - UNIX_S) * S);
	}
}

UNIT_TEST(waits_are_seconds_durations_or_instants)
{
	int64_t		now = date("Fri, 01 May 2026 12:00:00 GMT", 0);

	CHECK_EQ(wait_from("30", now), 30 * S);
	CHECK_EQ(wait_from("0", now), 0);
	CHECK_EQ(wait_from(" 30\t", now), 30 * S);
	CHECK_EQ(wait_from("007", now), 7 * S);
	CHECK_EQ(wait_from("2.5", now), 5 * S / 2);
	CHECK_EQ(wait_from("0.0000001", now), 1);
	CHECK_EQ(wait_from("350ms", now), 350000);
	CHECK_EQ(wait_from("1m30s", now), 90 * S);
	CHECK_EQ(wait_from("2m59.56s", now), 179560000);
	CHECK_EQ(wait_from("1h", now), 3600 * S);
	CHECK_EQ(wait_from("6m0s", now), 360 * S);
	CHECK_EQ(wait_from("1d2h3m4s5ms6us", now), ((26 * 60 + 3) * 60 + 4) * S + 5006);
	CHECK_EQ(wait_from("Fri, 01 May 2026 12:00:41 GMT", now), 41 * S);
	CHECK_EQ(wait_from("Fri, 01 May 2026 11:59:59 GMT", now), 0);
	CHECK_EQ(wait_from("2026-05-01T12:01:00Z", now), 60 * S);
	/* since 1970: seconds, milliseconds, microseconds, nanoseconds */
	CHECK_EQ(wait_from("1777636812", now), 12 * S);
	CHECK_EQ(wait_from("1777636812.5", now), 25 * S / 2);
	CHECK_EQ(wait_from("1777636812500", now), 25 * S / 2);
	CHECK_EQ(wait_from("1777636812500000", now), 25 * S / 2);
	CHECK_EQ(wait_from("1777636812500000000", now), 25 * S / 2 + 1);
	CHECK_EQ(wait_from("1777636799", now), 0);
}

UNIT_TEST(who_asks_for_more_than_a_year_is_not_believed)
{
	int64_t		now = date("Fri, 01 May 2026 12:00:00 GMT", 0);

	CHECK_EQ(wait_from("31622400", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("31622401", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("999999999", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("9999999999", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("99999999999999999999999999999999999999", now),
			 HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("400d9999999999999999999h", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("Fri, 31 Dec 9999 23:59:59 GMT", now), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("Fri, 31 Dec 9999 23:59:59 GMT", INT64_MIN), HTTP_MAX_WAIT_US);
	CHECK_EQ(wait_from("Fri, 31 Dec 9999 23:59:59 GMT", INT64_MAX), 0);
}

UNIT_TEST(what_is_no_wait_is_none)
{
	static const char *const wrong[] = {
		"", " ", "-1", "+1", "- 1", "1,5", "1 2", "1e3", "0x10", "inf", "nan",
		"NaN", "soon", ".5", "5.", "1s30m", "1m1m", "s", "1w", "1 s", "1S",
		"30 seconds", "true", "\xc3\xa9", "1\n", "\xe2\x88\x9e"
	};

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++)
	{
		CHECK_EQ(wait_from(wrong[i], 0), -1);
		if (wait_from(wrong[i], 0) != -1)
			printf("#   %s\n", wrong[i]);
	}
}

UNIT_TEST(counts_are_whole_and_not_negative)
{
	CHECK_EQ(count("0"), 0);
	CHECK_EQ(count(" 42 "), 42);
	CHECK_EQ(count("595.9"), 595);
	CHECK_EQ(count("1000000000000001"), HTTP_MAX_COUNT);
	CHECK_EQ(count("99999999999999999999999999"), HTTP_MAX_COUNT);
	CHECK_EQ(count(""), -1);
	CHECK_EQ(count("-1"), -1);
	CHECK_EQ(count("+1"), -1);
	CHECK_EQ(count("unlimited"), -1);
	CHECK_EQ(count("1,000"), -1);
	CHECK_EQ(count("1 000"), -1);
}

/* Members of a list, told by item and parameters; a ! where it is malformed. */
static void
tell(const char *text, char *told)
{
	HttpText	rest = http_text(text);
	HttpMember	m;
	bool		malformed;

	told[0] = '\0';
	while (http_member(&rest, &m, &malformed))
	{
		char		item[40];

		http_item_copy(&m, item, sizeof(item));
		sprintf(told + strlen(told), "[%.*s%s%s", (int) m.key.length,
				m.key.at ? m.key.at : "", m.key.at ? "=" : "", item);
		for (int i = 0; i < m.nparams; i++)
			sprintf(told + strlen(told), " %.*s:%.*s", (int) m.params[i].key.length,
					m.params[i].key.at, (int) m.params[i].value.length,
					m.params[i].value.length ? m.params[i].value.at : "");
		strcat(told, "]");
	}
	if (malformed)
		strcat(told, "!");
}

UNIT_TEST(members_of_lists)
{
	static const char *const lists[][2] = {
		{"", ""}, {" \t", ""}, {"100", "[100]"},
		{"100, 100;w=60", "[100][100 w:60]"},
		{"\"default\";r=50;t=30", "[default r:50 t:30]"},
		{"\"a \\\"b\\\\\"; q=1;qu=\"input token\"", "[a \"b\\ q:1 qu:input token]"},
		{"default;pk=:cGsx:;w=1,b", "[default pk:cGsx w:1][b]"},
		{"limit=100, remaining=50, reset=5", "[limit=100][remaining=50][reset=5]"},
		{"a;b", "[a b:]"}, {"?1;ok=?0", "[1 ok:0]"}, {"32/40", "[32/40]"},
		{",", "!"}, {"a,", "!"}, {"a,,b", "[a]!"}, {"a b", "!"},
		{"\"a", "!"}, {"\"a\\x\"", "!"}, {"\"\xc3\xa9\"", "!"}, {"(a b)", "!"},
		{"a;", "!"}, {"a;=1", "!"}, {"a;b=", "!"}, {"a;b=;c", "!"}, {"a=", "!"},
		{"a;a;a;a;a;a;a;a;a;a", "!"}
	};
	char		told[400];

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
	{
		tell(lists[i][0], told);
		CHECK(strcmp(told, lists[i][1]) == 0);
		if (strcmp(told, lists[i][1]) != 0)
			printf("#   %s: %s instead of %s\n", lists[i][0], told, lists[i][1]);
	}
}

UNIT_TEST(parameters_by_name_the_last_one_counts)
{
	HttpText	rest = http_text("x;R=1;r=2");
	HttpMember	m;
	HttpText	value;
	bool		malformed;

	CHECK(http_member(&rest, &m, &malformed));
	CHECK(http_param(&m, "r", &value));
	CHECK(http_is(value, "2"));
	CHECK(!http_param(&m, "t", &value));
}

int
main(void)
{
	UNIT_RUN(three_http_dates_are_one_instant);
	UNIT_RUN(what_is_no_date_is_none);
	UNIT_RUN(a_year_of_two_digits_is_at_most_50_years_ahead);
	UNIT_RUN(dates_agree_with_the_c_library);
	UNIT_RUN(waits_are_seconds_durations_or_instants);
	UNIT_RUN(who_asks_for_more_than_a_year_is_not_believed);
	UNIT_RUN(what_is_no_wait_is_none);
	UNIT_RUN(counts_are_whole_and_not_negative);
	UNIT_RUN(members_of_lists);
	UNIT_RUN(parameters_by_name_the_last_one_counts);
	UNIT_MAIN_END();
}
