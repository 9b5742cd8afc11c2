/*
 * http_list.h
 *		Lists of structured fields (RFC 9651), as far as headers about limits use
 *		them.  Pure: no server headers, no memory.
 */
#ifndef QUOTA_HTTP_LIST_H
#define QUOTA_HTTP_LIST_H

#include "http_value.h"

/* More parameters than this make a member malformed. */
#define HTTP_MAX_PARAMS 8

typedef struct HttpParam
{
	HttpText	key;
	HttpText	value;			/* a string without its quotes; no bytes for a
								 * parameter without a value */
} HttpParam;

/* One member: an item, or an entry "key=item" of a dictionary. */
typedef struct HttpMember
{
	HttpText	key;			/* of a dictionary; at NULL = none */
	HttpText	item;			/* a string without its quotes, escapes kept */
	bool		is_string;		/* it was quoted */
	int			nparams;
	HttpParam	params[HTTP_MAX_PARAMS];
} HttpMember;

/*
 * Takes the next member off the front.  False at the end, when *malformed says
 * whether something was left that is no member.  Items are strings, tokens, numbers,
 * byte sequences and booleans; inner lists are malformed.
 */
extern bool http_member(HttpText *rest, HttpMember *member, bool *malformed);

/* The value of a parameter; false: it has none of this name. */
extern bool http_param(const HttpMember *member, const char *key, HttpText *value);

/* The item as text, without escapes, clipped to size - 1 bytes. */
extern void http_item_copy(const HttpMember *member, char *target, size_t size);

#endif							/* QUOTA_HTTP_LIST_H */
