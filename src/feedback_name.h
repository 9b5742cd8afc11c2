/*
 * feedback_name.h
 *		What the name of a header says of its value.  Pure: no server headers, no
 *		memory, no locks, no clock, no errors.
 */
#ifndef QUOTA_FEEDBACK_NAME_H
#define QUOTA_FEEDBACK_NAME_H

#include "feedback.h"
#include "http_list.h"

/* What a name says of its value. */
typedef enum NameMeaning
{
	NAME_OTHER,					/* nothing of limits */
	NAME_LIMIT,
	NAME_REMAINING,
	NAME_USED,
	NAME_RESET,
	NAME_WINDOW,
	NAME_RETRY_AFTER,
	NAME_REASON,
	NAME_ITEMS,					/* RateLimit of the IETF, */
	NAME_POLICIES				/* RateLimit-Policy */
} NameMeaning;

/* A name that was taken apart. */
typedef struct HeaderName
{
	NameMeaning means;
	HttpUnit	unit;			/* of times */
	int64_t		window_us;		/* by a word such as "minute" */
	char		of[FEEDBACK_NAME_LEN];
	char		counts[FEEDBACK_NAME_LEN];
} HeaderName;

/* Takes a name apart; one that says nothing of limits means NAME_OTHER. */
extern HeaderName feedback_take_apart(const char *text);

/*
 * Adds a word in lower case to a name of FEEDBACK_NAME_LEN bytes, behind a hyphen if
 * it has one already, as far as there is room.
 */
extern void feedback_add_word(char *target, HttpText word);

#endif							/* QUOTA_FEEDBACK_NAME_H */
