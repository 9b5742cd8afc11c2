/*
 * http_list.c
 *		Lists of structured fields: see http_list.h.
 *
 * Strict as RFC 9651 wants it, because what follows a mistake can't be told from
 * what it was meant to be; but keys may have capitals, which old drafts allowed.
 */
#include "http_list.h"

#include <string.h>

/* ---- bytes ---- */

/* A letter of ASCII. */
static bool
is_alpha(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A digit of ASCII. */
static bool
is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* The byte is there and one of these. */
static bool
is_one_of(char c, const char *these)
{
	return c != '\0' && strchr(these, c) != NULL;
}

/* It may be in a key. */
static bool
in_key(char c)
{
	return is_alpha(c) || is_digit(c) || is_one_of(c, "_-.*");
}

/* It may be in a token. */
static bool
in_token(char c)
{
	return is_alpha(c) || is_digit(c) || is_one_of(c, "!#$%&'*+-.^_`|~:/");
}

/* ---- taking something off the front ---- */

/* Takes n bytes, which are there. */
static void
advance(HttpText *rest, size_t n)
{
	rest->at += n;
	rest->length -= n;
}

/* Takes as many of these as there are. */
static void
skip(HttpText *rest, const char *these)
{
	while (rest->length > 0 && is_one_of(rest->at[0], these))
		advance(rest, 1);
}

/* Takes this byte, if it is the next. */
static bool
take_byte(HttpText *rest, char c)
{
	if (rest->length == 0 || rest->at[0] != c)
		return false;
	advance(rest, 1);
	return true;
}

/* As many as belong to it; at least one. */
static bool
take_all(HttpText *rest, bool (*belongs) (char), HttpText *taken)
{
	taken->at = rest->at;
	taken->length = 0;
	while (rest->length > 0 && belongs(rest->at[0]))
	{
		taken->length++;
		advance(rest, 1);
	}
	return taken->length > 0;
}

/* Up to the closing mark, which is taken too; the opening one was. */
static bool
take_quoted(HttpText *rest, char mark, HttpText *taken)
{
	taken->at = rest->at;
	for (size_t i = 0; i < rest->length; i++)
	{
		char		c = rest->at[i];

		if (c == mark)
		{
			taken->length = i;
			advance(rest, i + 1);
			return true;
		}
		if (c < 0x20 || c > 0x7e)
			return false;
		if (c == '\\' && mark == '"')
		{
			i++;
			if (i == rest->length || !is_one_of(rest->at[i], "\"\\"))
				return false;
		}
	}
	return false;
}

/* A bare item: string, byte sequence, boolean, number or token. */
static bool
take_item(HttpText *rest, HttpText *item, bool *is_string)
{
	*is_string = take_byte(rest, '"');
	if (*is_string)
		return take_quoted(rest, '"', item);
	if (take_byte(rest, ':'))
		return take_quoted(rest, ':', item);
	(void) take_byte(rest, '?');
	return take_all(rest, in_token, item);
}

/* All that follow ";". */
static bool
take_params(HttpText *rest, HttpMember *m)
{
	m->nparams = 0;
	for (;;)
	{
		HttpText	before = *rest;
		HttpParam  *p = &m->params[m->nparams];
		bool		is_string;

		skip(rest, " ");
		if (!take_byte(rest, ';'))
		{
			*rest = before;
			return true;
		}
		skip(rest, " ");
		if (m->nparams == HTTP_MAX_PARAMS || !take_all(rest, in_key, &p->key))
			return false;
		p->value.at = rest->at;
		p->value.length = 0;
		if (take_byte(rest, '=') && !take_item(rest, &p->value, &is_string))
			return false;
		m->nparams++;
	}
}

/* "key=" */
static void
take_key(HttpText *rest, HttpText *key)
{
	HttpText	before = *rest;

	if (take_all(rest, in_key, key) && take_byte(rest, '='))
		return;
	*rest = before;
	key->at = NULL;
	key->length = 0;
}

/* ---- http_list.h ---- */

/* See http_list.h. */
bool
http_member(HttpText *rest, HttpMember *member, bool *malformed)
{
	*malformed = false;
	skip(rest, " \t");
	if (rest->length == 0)
		return false;
	*malformed = true;
	take_key(rest, &member->key);
	if (!take_item(rest, &member->item, &member->is_string) ||
		!take_params(rest, member))
		return false;
	skip(rest, " \t");
	if (rest->length > 0)
	{
		if (!take_byte(rest, ','))
			return false;
		skip(rest, " \t");
		if (rest->length == 0)
			return false;		/* a comma behind the last one */
	}
	*malformed = false;
	return true;
}

/* See http_list.h. */
bool
http_param(const HttpMember *member, const char *key, HttpText *value)
{
	/* of duplicates the last one counts, says RFC 9651 */
	for (int i = member->nparams - 1; i >= 0; i--)
		if (http_is(member->params[i].key, key))
		{
			*value = member->params[i].value;
			return true;
		}
	return false;
}

/* See http_list.h. */
void
http_item_copy(const HttpMember *member, char *target, size_t size)
{
	size_t		n = 0;

	for (size_t i = 0; i < member->item.length && n + 1 < size; i++)
	{
		if (member->is_string && member->item.at[i] == '\\' &&
			i + 1 < member->item.length)
			i++;
		target[n++] = member->item.at[i];
	}
	target[n] = '\0';
}
