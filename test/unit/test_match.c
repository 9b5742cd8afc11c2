/*
 * test_match.c
 *	  Endpoint patterns against their definition.
 */
#include "unit.h"

#include <stddef.h>
#include <string.h>

#include "match.h"

/* The definition: slow, and plainly right. */
static bool
slow(const char *pattern, const char *text)
{
	if (*pattern == '\0')
		return *text == '\0';
	if (*pattern == '*')
		return slow(pattern + 1, text) ||
			(*text != '\0' && slow(pattern, text + 1));
	return *pattern == *text && slow(pattern + 1, text + 1);
}

UNIT_TEST(a_pattern_without_star_is_itself)
{
	CHECK(match_glob("chat", "chat"));
	CHECK(!match_glob("chat", "chats"));
	CHECK(!match_glob("chats", "chat"));
	CHECK(!match_glob("chat", ""));
	CHECK(match_glob("", ""));
	CHECK(!match_glob("", "a"));
	CHECK(!match_glob("a.c", "abc"));
	CHECK(!match_glob("a?c", "abc"));
	CHECK(!match_glob("[a]", "a"));
	CHECK(!match_glob("a_c", "abc"));
	CHECK(!match_glob("Chat", "chat"));
}

UNIT_TEST(a_star_is_any_text)
{
	CHECK(match_glob("*", ""));
	CHECK(match_glob("*", "anything / at all"));
	CHECK(match_glob("**", ""));
	CHECK(match_glob("v1/*", "v1/"));
	CHECK(match_glob("v1/*", "v1/chat"));
	CHECK(!match_glob("v1/*", "v2/chat"));
	CHECK(match_glob("*/search", "crm/v3/search"));
	CHECK(!match_glob("*/search", "crm/v3/search/x"));
	CHECK(match_glob("a*b*c", "aXbYbZc"));
	CHECK(!match_glob("a*b*c", "aXcYb"));
	CHECK(match_glob("*ab", "aab"));
	CHECK(!match_glob("a*a", "a"));
	CHECK(match_glob("\xc3\xa9*", "\xc3\xa9t\xc3\xa9"));
}

/* All patterns over "ab*" and all texts over "ab" of up to six bytes. */
UNIT_TEST(agrees_with_the_definition)
{
	char		pattern[7];
	char		text[7];

	for (int p = 0; p < 4096; p++)
	{
		for (int i = 0; i < 6; i++)
			pattern[i] = "ab*"[(p >> (2 * i)) & 3];
		pattern[6] = '\0';
		for (int length = 0; length <= 6; length++)
			for (int t = 0; t < (1 << length); t++)
			{
				for (int i = 0; i < length; i++)
					text[i] = "ab"[(t >> i) & 1];
				text[length] = '\0';
				CHECK(match_glob(pattern, text) == slow(pattern, text));
			}
	}
}

UNIT_TEST(many_stars_stay_fast)
{
	char		pattern[128];
	char		text[128];

	for (int i = 0; i < 126; i += 2)
		memcpy(pattern + i, "*a", 2);
	pattern[126] = 'b';
	pattern[127] = '\0';
	memset(text, 'a', 127);
	text[127] = '\0';
	CHECK(!match_glob(pattern, text));
}

int
main(void)
{
	UNIT_RUN(a_pattern_without_star_is_itself);
	UNIT_RUN(a_star_is_any_text);
	UNIT_RUN(agrees_with_the_definition);
	UNIT_RUN(many_stars_stay_fast);
	UNIT_MAIN_END();
}
