/*
 * event_row.c
 *		Rows of quota.events.
 */
#include "event.h"

#include "row_write.h"
#include "utils/timestamp.h"

/* "" stands for null too. */
static void
set_text(RowValues *event, int column, const char *value)
{
	row_set_text(event, column, value && value[0] ? value : NULL);
}

/* See event.h. */
void
event_insert(TimestampTz at_us, const char *kind, const char *provider,
			 const char *tenant, const char *detail)
{
	RowTable   *events = row_open(QUOTA_REL_EVENTS);
	RowValues	event = row_values(events);

	row_set(&event, EVENT_AT, TimestampTzGetDatum(at_us));
	set_text(&event, EVENT_KIND, kind);
	set_text(&event, EVENT_PROVIDER, provider);
	set_text(&event, EVENT_TENANT, tenant);
	set_text(&event, EVENT_DETAIL, detail);
	row_fill_defaults(events, &event);
	row_insert(events, &event);
	row_close(events);
}
