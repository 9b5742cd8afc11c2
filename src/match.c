/*
 * match.c
 *		Endpoint patterns: '*' stands for any bytes, also none; every other byte
 *		stands for itself.  There is no escape, so a pattern without '*' is
 *		exactly one endpoint.
 *
 * Pure: no server headers, no memory.
 */
#include "match.h"

#include <stddef.h>

/*
 * Does the pattern match the whole text?
 *
 * Only the latest star is ever reconsidered: an earlier one that took more
 * would leave later ones less to choose from.  So the time is at most the
 * product of both lengths.
 */
bool
match_glob(const char *pattern, const char *text)
{
	const char *star = NULL;	/* after the latest star */
	const char *resume = NULL;	/* text that star does not cover yet */

	while (*text != '\0')
	{
		if (*pattern == '*')
		{
			star = ++pattern;
			resume = text;
		}
		else if (*pattern == *text)
		{
			pattern++;
			text++;
		}
		else if (star != NULL)
		{
			pattern = star;
			text = ++resume;
		}
		else
			return false;
	}
	while (*pattern == '*')
		pattern++;
	return *pattern == '\0';
}
