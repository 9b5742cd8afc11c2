/*
 * match.h
 *		Endpoint patterns.  Pure: no server headers.
 */
#ifndef QUOTA_MATCH_H
#define QUOTA_MATCH_H

#include <stdbool.h>

extern bool match_glob(const char *pattern, const char *text);

#endif							/* QUOTA_MATCH_H */
