/*
 * feedback_headers.h
 *		Headers of an answer as SQL gives them.
 */
#ifndef QUOTA_FEEDBACK_HEADERS_H
#define QUOTA_FEEDBACK_HEADERS_H

#include "postgres.h"

#include "feedback.h"
#include "utils/jsonb.h"

/*
 * The headers of a JSON object of names and values into answer: strings, numbers,
 * booleans, or an array of those for a header with several lines.  NULL, and what is
 * of any other kind, is no header.  Allocates; throws only when out of memory.
 */
extern void feedback_headers(Jsonb *headers, FeedbackAnswer *answer);

#endif							/* QUOTA_FEEDBACK_HEADERS_H */
