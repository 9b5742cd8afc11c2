/*
 * event_row.c
 *		Rows of quota.events.
 */
#include "event.h"

#include "row_write.h"
#include "utils/timestamp.h"

/* See event.h. */
void
event_insert(TimestampTz at_us, const char *kind, const char *provider,
			 const char *tenant, const char *detail)
{
	const char *texts[] = {kind, provider, tenant, detail};
	RowTable   *events = row_open(QUOTA_REL_EVENTS);
	RowValues	event = row_values(events);

	row_set(&event, EVENT_AT, TimestampTzGetDatum(at_us));
	for (int i = 0; i < lengthof(texts); i++)
		row_set_text(&event, EVENT_KIND + i,
					 texts[i] && texts[i][0] ? texts[i] : NULL);
	row_fill_defaults(events, &event);
	row_insert(events, &event);
	row_close(events);
}
