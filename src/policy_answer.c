/*
 * policy_answer.c
 *		What rows of quota.answers say: see policy_answer.h.
 */
#include "policy_answer.h"

#include "policy_cache.h"

/* Columns of quota.answers */
enum
{
	ANSWERS_PROVIDER = 1,
	ANSWERS_STATUS,
	ANSWERS_HEADER,
	ANSWERS_VALUE,
	ANSWERS_MEANS,
	ANSWERS_SCOPE,
	ANSWERS_LIMIT_NAME
};

/* Words of "means" that are no class. */
static const char *const meanings[] = {
	[MEANS_LIMIT] = "limit",[MEANS_REMAINING] = "remaining",[MEANS_USED] = "used",
	[MEANS_RESET] = "reset",[MEANS_RETRY_AFTER] = "retry_after",
	[MEANS_REASON] = "reason",[MEANS_NOTHING] = "nothing"
};

/* What the word of "means" says. */
static void
read_means(const char *word, FeedbackRule *rule)
{
	rule->means = MEANS_CLASS;
	rule->class = FEEDBACK_UNKNOWN;
	for (int i = 0; i < lengthof(meanings); i++)
		if (meanings[i] && strcmp(word, meanings[i]) == 0)
			rule->means = i;
	for (int i = 0; i < FEEDBACK_N_CLASSES && rule->means == MEANS_CLASS; i++)
		if (strcmp(word, feedback_class_name(i)) == 0)
			rule->class = i;
}

/* What the word of "scope" says; NULL: not said. */
static FeedbackScope
read_scope(const char *word)
{
	for (int i = 0; i < FEEDBACK_N_SCOPES; i++)
		if (word && strcmp(word, feedback_scope_name(i)) == 0)
			return i;
	return FEEDBACK_CALL;
}

/* See policy_answer.h. */
void
policy_read_answer(PolicyRules *rules, const ConfigScan *scan)
{
	PolicyAnswer *a = palloc0(sizeof(PolicyAnswer));

	a->provider = config_text(scan, ANSWERS_PROVIDER);
	a->rule.own = a->provider != NULL;
	a->rule.status = config_int32(scan, ANSWERS_STATUS, -1);
	a->rule.header = config_text(scan, ANSWERS_HEADER);
	a->rule.value = config_text(scan, ANSWERS_VALUE);
	read_means(config_text(scan, ANSWERS_MEANS), &a->rule);
	a->rule.scope = read_scope(config_text(scan, ANSWERS_SCOPE));
	a->rule.limit_name = config_text(scan, ANSWERS_LIMIT_NAME);
	rules->answers = lappend(rules->answers, a);
}

/* A copy; NULL of NULL. */
static const char *
copy(const char *string)
{
	return string ? pstrdup(string) : NULL;
}

/* See policy_answer.h. */
FeedbackRule *
policy_answer_rules(const char *provider, int *n)
{
	const List *answers = policy_rules()->answers;
	FeedbackRule *list = palloc(sizeof(FeedbackRule) * Max(list_length(answers), 1));
	ListCell   *lc;

	*n = 0;
	foreach(lc, answers)
	{
		const PolicyAnswer *a = lfirst(lc);

		FeedbackRule *rule = &list[*n];

		if (a->provider != NULL && strcmp(a->provider, provider) != 0)
			continue;
		*rule = a->rule;
		rule->header = copy(rule->header);
		rule->value = copy(rule->value);
		rule->limit_name = copy(rule->limit_name);
		(*n)++;
	}
	return list;
}
