/*
 * view_answers.c
 *		What answers of providers were seen, as shared memory counts them: the
 *		function under quota.stat_answers.  See view.c.
 */
#include "view.h"

#include "feedback.h"
#include "miscadmin.h"

PG_FUNCTION_INFO_V1(quota_stat_answers);

/* Rows of quota.stat_answers. */
Datum
quota_stat_answers(PG_FUNCTION_ARGS)
{
	static const FeedbackClass order[] = {
		FEEDBACK_SUCCESS, FEEDBACK_REJECTED, FEEDBACK_RATE_LIMITED,
		FEEDBACK_EXHAUSTED, FEEDBACK_OVERLOADED, FEEDBACK_FAILURE, FEEDBACK_UNKNOWN
	};
	View		view;

	if (!view_begin(&view, fcinfo))
		PG_RETURN_NULL();
	for (uint32 i = 0; i < (uint32) quota_max_providers; i++)
	{
		QuotaSlot  *slot = view_lock_owner(&view, &quota_slots[i].entry, LW_SHARED);
		uint64		answers[FEEDBACK_N_CLASSES];
		uint64		ignored;
		char		provider[QUOTA_NAME_LEN];

		CHECK_FOR_INTERRUPTS();
		if (slot == NULL)
			continue;
		memcpy(answers, slot->answers, sizeof(answers));
		ignored = slot->headers_ignored;
		strlcpy(provider, slot->provider, sizeof(provider));
		LWLockRelease(&slot->lock);

		if (provider[0] == '\0')	/* the database's */
			continue;
		view_put_text(&view, provider);
		for (int c = 0; c < lengthof(order); c++)
			view_put_int64(&view, (int64) answers[order[c]]);
		view_put_int64(&view, (int64) ignored);
		view_put_row(&view);
	}
	PG_RETURN_NULL();
}
