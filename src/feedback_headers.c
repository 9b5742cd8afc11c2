/*
 * feedback_headers.c
 *		Headers of an answer as SQL gives them: see feedback_headers.h.
 */
#include "feedback_headers.h"

#include "utils/builtins.h"
#include "utils/numeric.h"

/* A scalar as text; NULL for one that is none. */
static char *
value_text(const JsonbValue *value)
{
	switch (value->type)
	{
		case jbvString:
			return pnstrdup(value->val.string.val, value->val.string.len);
		case jbvNumeric:
			return DatumGetCString(DirectFunctionCall1(numeric_out,
													   NumericGetDatum(value->val.numeric)));
		case jbvBool:
			return pstrdup(value->val.boolean ? "true" : "false");
		default:
			return NULL;
	}
}

/* See feedback_headers.h. */
void
feedback_headers(Jsonb *headers, FeedbackAnswer *answer)
{
	FeedbackHeader *list;
	JsonbIterator *it;
	JsonbValue	v;
	JsonbIteratorToken token;
	const char *name = NULL;
	int			size = 8;
	int			depth = 0;

	answer->nheaders = 0;
	answer->headers = NULL;
	if (headers == NULL || !JB_ROOT_IS_OBJECT(headers))
		return;
	list = palloc(size * sizeof(FeedbackHeader));
	it = JsonbIteratorInit(&headers->root);
	while ((token = JsonbIteratorNext(&it, &v, false)) != WJB_DONE)
	{
		char	   *value;

		if (token == WJB_BEGIN_ARRAY || token == WJB_BEGIN_OBJECT)
			depth++;
		else if (token == WJB_END_ARRAY || token == WJB_END_OBJECT)
			depth--;
		else if (token == WJB_KEY && depth == 1)
			name = pnstrdup(v.val.string.val, v.val.string.len);
		/* values of ours, and elements of arrays that are */
		else if ((token == WJB_VALUE && depth == 1) ||
				 (token == WJB_ELEM && depth == 2))
		{
			value = value_text(&v);
			if (value == NULL)
				continue;
			if (answer->nheaders == size)
			{
				size *= 2;
				list = repalloc_huge(list, size * sizeof(FeedbackHeader));
			}
			list[answer->nheaders].name = name;
			list[answer->nheaders++].value = value;
		}
	}
	answer->headers = list;
}
