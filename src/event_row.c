/*
 * event_row.c
 *		Rows of quota.events.
 */
#include "event.h"

#include "row_write.h"
#include "utils/builtins.h"
#include "utils/rel.h"
#include "utils/timestamp.h"

/* See event.h. */
void
event_insert(TimestampTz at_us, const char *kind, const char *provider,
			 const char *tenant, const char *detail)
{
	const char *texts[] = {kind, provider, tenant, detail};
	RowTable   *events = row_open(QUOTA_REL_EVENTS);
	int			natts = RelationGetNumberOfAttributes(row_relation(events));
	Datum	   *values = palloc0(natts * sizeof(Datum));
	bool	   *nulls = palloc(natts * sizeof(bool));
	bool	   *given = palloc0(natts * sizeof(bool));

	memset(nulls, true, natts * sizeof(bool));
	for (int column = EVENT_AT; column <= EVENT_DETAIL; column++)
		given[column - 1] = true;
	values[EVENT_AT - 1] = TimestampTzGetDatum(at_us);
	nulls[EVENT_AT - 1] = false;
	for (int i = 0; i < lengthof(texts); i++)
	{
		if (texts[i] == NULL || texts[i][0] == '\0')
			continue;
		values[EVENT_KIND - 1 + i] = CStringGetTextDatum(texts[i]);
		nulls[EVENT_KIND - 1 + i] = false;
	}
	row_fill_defaults(events, values, nulls, given);
	row_insert(events, values, nulls);
	row_close(events);
}
