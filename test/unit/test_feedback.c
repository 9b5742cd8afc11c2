/*
 * test_feedback.c
 *	  What answers of providers mean.
 *
 * The corpus has headers in the shapes that the documentation of the named
 * providers shows; all values are made up.
 */
#include "unit.h"
#include "random.h"

#include <stdlib.h>
#include <string.h>

#include "feedback.h"
#include "http_date.h"

#define S		INT64_C(1000000)
#define DAY		(86400 * S)
#define NONE	FEEDBACK_NOT_TOLD

/* Fri, 01 May 2026 12:00:00 GMT is 1777636800 since 1970 */
#define NOW		((INT64_C(1777636800) - INT64_C(946684800)) * S)

#define MAX_HEADERS 16

/* An answer, of which a test says what counts. */
typedef struct Sample
{
	int			status;
	const char *reason;
	bool		no_endpoint;
	bool		no_tenant;
	bool		connection;
	FeedbackHeader headers[MAX_HEADERS];	/* up to a NULL */
} Sample;

static FeedbackOutcome
classify_by(const Sample *s, const FeedbackRule *rules, int nrules)
{
	FeedbackAnswer answer = {0};
	FeedbackOutcome out;

	answer.status = s->status;
	answer.reason = s->reason;
	answer.has_endpoint = !s->no_endpoint;
	answer.has_tenant = !s->no_tenant;
	answer.has_connection = s->connection;
	answer.headers = s->headers;
	while (answer.nheaders < MAX_HEADERS && s->headers[answer.nheaders].name)
		answer.nheaders++;
	feedback_classify(&answer, rules, nrules, NOW, &out);
	return out;
}

static FeedbackOutcome
classify(const Sample *s)
{
	return classify_by(s, NULL, 0);
}

/* The reading of this name, one of which nothing is told when there is none. */
static FeedbackReading
reading(const FeedbackOutcome *out, const char *of)
{
	FeedbackReading none = {"", "", NULL, NONE, NONE, NONE, NONE, NONE};

	for (int i = 0; i < out->nreadings; i++)
		if (strcmp(out->readings[i].of, of) == 0)
			return out->readings[i];
	return none;
}

/* limit, remaining, reset and window of a reading */
#define CHECK_READING(out, of, l, rem, res, w) \
	do { \
		FeedbackReading r_ = reading(&(out), (of)); \
		CHECK_EQ(r_.limit, (l)); \
		CHECK_EQ(r_.remaining, (rem)); \
		CHECK_EQ(r_.reset_us, (res)); \
		CHECK_EQ(r_.window_us, (w)); \
	} while (0)

#define CHECK_CLASS(out, c, s, wait) \
	do { \
		CHECK_EQ((out).class, (c)); \
		CHECK_EQ((out).scope, (s)); \
		CHECK_EQ((out).retry_after_us, (wait)); \
		CHECK_EQ((out).ignored, 0); \
	} while (0)

/* ---- the corpus ---- */

/* RFC 9110 section 10.2.3, RFC 6585 section 4 */
UNIT_TEST(corpus_retry_after)
{
	Sample		s = {429,.headers = {{"Retry-After", "3600"}}};
	Sample		d = {503,.headers = {{"Retry-After", "Fri, 01 May 2026 12:00:30 GMT"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 3600 * S);
	CHECK_EQ(out.nreadings, 0);
	out = classify(&d);
	CHECK_CLASS(out, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT, 30 * S);
}

/* what the wait is, when the answer says what time it is there */
static int64_t
wait_at(const char *date, const char *name, const char *value, const FeedbackRule *rule)
{
	Sample		s = {429,.headers = {{name, value}, {"DATE", date}}};

	return classify_by(&s, rule, rule ? 1 : 0).retry_after_us;
}

/* a clock that is 10 minutes ahead of the provider's makes no wait too short, or long */
UNIT_TEST(instants_are_by_the_clock_of_the_provider)
{
	const char *behind = " Fri, 01 May 2026 11:50:00 GMT ";
	const char *ahead = "Friday, 01-May-26 12:10:00 GMT";
	const FeedbackRule nothing = {true, -1, "date", NULL, MEANS_NOTHING, 0, 0, NULL};

	CHECK_EQ(wait_at(behind, "Retry-After", "Fri, 01 May 2026 11:50:30 GMT", NULL), 30 * S);
	CHECK_EQ(wait_at(ahead, "Retry-After", "Fri, 01 May 2026 12:10:30 GMT", NULL), 30 * S);
	CHECK_EQ(wait_at(behind, "X-RateLimit-Reset", "1777636260", NULL), 60 * S);
	CHECK_EQ(wait_at(ahead, "X-RateLimit-Reset", "1777637460000", NULL), 60 * S);
	/* what is from now on is so */
	CHECK_EQ(wait_at(behind, "Retry-After", "30", NULL), 30 * S);
	CHECK_EQ(wait_at(ahead, "X-RateLimit-Reset", "60", NULL), 60 * S);
	/* no clock is that wrong; and no date is one */
	CHECK_EQ(wait_at("Thu, 30 Apr 2026 12:00:00 GMT", "Retry-After",
					 "Fri, 01 May 2026 12:00:30 GMT", NULL), DAY + 30 * S);
	CHECK_EQ(wait_at("Thu, 30 Apr 2026 11:59:59 GMT", "Retry-After",
					 "Fri, 01 May 2026 12:00:30 GMT", NULL), 30 * S);
	CHECK_EQ(wait_at("Thu, 01 Jan 1970 00:00:00 GMT", "Retry-After",
					 "Fri, 01 May 2026 12:00:30 GMT", NULL), 30 * S);
	CHECK_EQ(wait_at("yesterday", "Retry-After", "Fri, 01 May 2026 12:00:30 GMT", NULL), 30 * S);
	/* a row may say that it means nothing */
	CHECK_EQ(wait_at(behind, "Retry-After", "Fri, 01 May 2026 12:00:30 GMT", &nothing), 30 * S);
}

/* no Date tells the clock, and it is behind ours; "at once" is a time */
UNIT_TEST(retry_after_a_past_instant_names_no_time)
{
	static const char *const past[] = {
		"Fri, 01 May 2026 11:59:59 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
		"2026-05-01T11:59:00Z", "1000000000", "0001-01-01T00:00:00Z"
	};
	static const char *const at_once[] = {"0", "0.0", "0s", "0m0s", " 0, 0"};

	for (int i = 0; i < 5; i++)
	{
		Sample		s = {429,.headers = {{"Retry-After", past[i]}}};
		Sample		reset = {429,.headers = {
			{"Retry-After", past[i]}, {"X-RateLimit-Reset", "20"}}};

		CHECK_EQ(classify(&s).retry_after_us, NONE);
		CHECK_EQ(classify(&reset).retry_after_us, 20 * S);
	}
	for (int i = 0; i < 5; i++)
	{
		Sample		s = {429,.headers = {{"Retry-After", at_once[i]}}};

		CHECK_EQ(classify(&s).retry_after_us, 0);
	}
}

/* draft-ietf-httpapi-ratelimit-headers-10, and products that follow it */
UNIT_TEST(corpus_ietf_ratelimit)
{
	Sample		s = {429,.headers = {
		{"RateLimit", "\"burst\";r=0;t=12, \"day\";r=411"},
		{"RateLimit-Policy", "\"burst\";q=100;w=60;pk=:cGFydA==:, "
		"\"day\";q=5000;qu=\"requests\";w=86400"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 12 * S);
	CHECK_EQ(out.nreadings, 2);
	CHECK_READING(out, "burst", 100, 0, 12 * S, 60 * S);
	CHECK_READING(out, "day", 5000, 411, NONE, DAY);
}

/* Cloudflare's API: names in lower case, items as in draft 8 and later */
UNIT_TEST(corpus_cloudflare)
{
	Sample		s = {200,.headers = {
		{"ratelimit", "\"default\";r=1047;t=211"},
		{"ratelimit-policy", "\"default\";q=1200;w=300"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_READING(out, "default", 1200, 1047, 211 * S, 300 * S);
}

/* draft 7 of the same: a dictionary, and policies without a name */
UNIT_TEST(corpus_ietf_draft_7)
{
	Sample		s = {429,.headers = {
		{"RateLimit", "limit=100, remaining=0, reset=5"},
		{"RateLimit-Policy", "100;w=60"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 5 * S);
	CHECK_READING(out, "", 100, 0, 5 * S, 60 * S);
}

/* draft 3 of the same: three fields, the limit followed by its policies */
UNIT_TEST(corpus_ietf_draft_3)
{
	Sample		s = {200,.headers = {
		{"RateLimit-Limit", "10, 10;w=1, 50;w=60"},
		{"RateLimit-Remaining", "9"}, {"RateLimit-Reset", "1"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_READING(out, "", 10, 9, 1 * S, NONE);
}

/* Docker Hub: counts with the window as a parameter */
UNIT_TEST(corpus_docker_hub)
{
	Sample		s = {200,.headers = {
		{"ratelimit-limit", "200;w=21600"},
		{"ratelimit-remaining", "176;w=21600"},
		{"docker-ratelimit-source", "192.0.2.7"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "", 200, 176, NONE, 21600 * S);
}

/* GitHub REST API: instants since 1970; a refusal is 403 or 429 */
UNIT_TEST(corpus_github)
{
	Sample		s = {403,.headers = {
		{"x-ratelimit-limit", "5000"}, {"x-ratelimit-remaining", "0"},
		{"x-ratelimit-used", "5000"}, {"x-ratelimit-reset", "1777638600"},
		{"x-ratelimit-resource", "core"}}};
	FeedbackRule rule = {true, 403, "x-ratelimit-remaining", "0", MEANS_CLASS,
	FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, NULL};
	FeedbackOutcome out = classify(&s);

	/* 403 means this by a row only */
	CHECK_CLASS(out, FEEDBACK_REJECTED, FEEDBACK_CALL, NONE);
	CHECK_READING(out, "", 5000, 0, 1800 * S, NONE);
	out = classify_by(&s, &rule, 1);
	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, 1800 * S);
}

/* GitLab: an instant in the field of the IETF's name, and once more as a date */
UNIT_TEST(corpus_gitlab)
{
	Sample		s = {429,.headers = {
		{"RateLimit-Limit", "60"}, {"RateLimit-Name", "throttle_web"},
		{"RateLimit-Observed", "67"}, {"RateLimit-Remaining", "0"},
		{"RateLimit-Reset", "1777636830"},
		{"RateLimit-ResetTime", "Fri, 01 May 2026 12:00:30 GMT"},
		{"Retry-After", "30"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 30 * S);
	CHECK_READING(out, "", 60, 0, 30 * S, NONE);
	CHECK_EQ(reading(&out, "").used, 67);
}

/* OpenAI: a family for each unit behind the meaning, durations */
UNIT_TEST(corpus_openai)
{
	Sample		s = {429,.headers = {
		{"x-ratelimit-limit-requests", "60"}, {"x-ratelimit-limit-tokens", "150000"},
		{"x-ratelimit-remaining-requests", "59"}, {"x-ratelimit-remaining-tokens", "0"},
		{"x-ratelimit-reset-requests", "1s"}, {"x-ratelimit-reset-tokens", "6m0s"}}};
	FeedbackRule rule = {true, 429, NULL, "insufficient_quota", MEANS_CLASS,
	FEEDBACK_EXHAUSTED, FEEDBACK_CALL, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 360 * S);
	CHECK_READING(out, "requests", 60, 59, 1 * S, NONE);
	CHECK_READING(out, "tokens", 150000, 0, 360 * S, NONE);
	/* the contract is used up: the error's code says so */
	s.reason = "insufficient_quota";
	out = classify_by(&s, &rule, 1);
	CHECK_EQ(out.class, FEEDBACK_EXHAUSTED);
	CHECK_EQ(out.scope, FEEDBACK_ACCOUNT);
	CHECK(strcmp(out.reason, "insufficient_quota") == 0);
}

/* Groq: as OpenAI, with fractions of seconds */
UNIT_TEST(corpus_groq)
{
	Sample		s = {429,.headers = {
		{"retry-after", "2"},
		{"x-ratelimit-limit-requests", "14400"}, {"x-ratelimit-limit-tokens", "18000"},
		{"x-ratelimit-remaining-requests", "14370"},
		{"x-ratelimit-remaining-tokens", "17997"},
		{"x-ratelimit-reset-requests", "2m59.56s"},
		{"x-ratelimit-reset-tokens", "7.66s"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 2 * S);
	CHECK_READING(out, "requests", 14400, 14370, 179560000, NONE);
	CHECK_READING(out, "tokens", 18000, 17997, 7660000, NONE);
}

/* Anthropic: units before the meaning, instants by RFC 3339; 529 is overload */
UNIT_TEST(corpus_anthropic)
{
	Sample		s = {529,.headers = {
		{"anthropic-ratelimit-requests-limit", "50"},
		{"anthropic-ratelimit-requests-remaining", "49"},
		{"anthropic-ratelimit-requests-reset", "2026-05-01T12:00:02Z"},
		{"anthropic-ratelimit-input-tokens-limit", "40000"},
		{"anthropic-ratelimit-input-tokens-remaining", "39000"},
		{"anthropic-ratelimit-input-tokens-reset", "2026-05-01T12:00:01Z"},
		{"anthropic-ratelimit-output-tokens-remaining", "8000"},
		{"retry-after", "7"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT, 7 * S);
	CHECK_EQ(out.nreadings, 3);
	CHECK_READING(out, "requests", 50, 49, 2 * S, NONE);
	CHECK_READING(out, "input-tokens", 40000, 39000, 1 * S, NONE);
	CHECK_READING(out, "output-tokens", NONE, 8000, NONE, NONE);
}

/* Azure OpenAI: milliseconds */
UNIT_TEST(corpus_azure_openai)
{
	Sample		s = {429,.headers = {
		{"retry-after-ms", "1480"}, {"retry-after", "2"},
		{"x-ratelimit-remaining-requests", "11"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 2 * S);
	CHECK_READING(out, "requests", NONE, 11, NONE, NONE);
}

/* Azure Resource Manager: a vendor's word before, what is counted behind */
UNIT_TEST(corpus_azure_resource_manager)
{
	Sample		s = {200,.headers = {
		{"x-ms-ratelimit-remaining-subscription-reads", "11999"},
		{"x-ms-request-id", "6f"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "subscription-reads", NONE, 11999, NONE, NONE);
}

/* Microsoft Graph: draft 3 once a limit is near */
UNIT_TEST(corpus_microsoft_graph)
{
	Sample		s = {429,.headers = {
		{"Retry-After", "2.128"}, {"RateLimit-Limit", "1250"},
		{"RateLimit-Remaining", "0"}, {"RateLimit-Reset", "2"},
		{"x-ms-throttle-scope", "Tenant_Application/ReadWrite"}}};
	FeedbackRule rule = {true, 429, "x-ms-throttle-scope", "Tenant*", MEANS_CLASS,
	FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT, 2128000);
	CHECK_READING(out, "", 1250, 0, 2 * S, NONE);
}

/* X (Twitter): three words */
UNIT_TEST(corpus_x)
{
	Sample		s = {429,.headers = {
		{"x-rate-limit-limit", "75"}, {"x-rate-limit-remaining", "0"},
		{"x-rate-limit-reset", "1777637100"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 300 * S);
	CHECK_READING(out, "", 75, 0, 300 * S, NONE);
}

/* Discord: fractions, and a header that says whom it concerns */
UNIT_TEST(corpus_discord)
{
	Sample		s = {429,.headers = {
		{"X-RateLimit-Limit", "10"}, {"X-RateLimit-Remaining", "0"},
		{"X-RateLimit-Reset", "1777636864.569"}, {"X-RateLimit-Reset-After", "64.57"},
		{"X-RateLimit-Bucket", "80c17d2f203122d936070c88c8d10f33"},
		{"X-RateLimit-Global", "true"}, {"X-RateLimit-Scope", "global"},
		{"Retry-After", "65"}}};
	FeedbackRule rule = {true, -1, "x-ratelimit-scope", "global", MEANS_CLASS,
	FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, 65 * S);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "", 10, 0, 64570000, NONE);
}

/* Reddit: counts with a fraction, seconds from now */
UNIT_TEST(corpus_reddit)
{
	Sample		s = {200,.headers = {
		{"X-Ratelimit-Used", "5"}, {"X-Ratelimit-Remaining", "595.0"},
		{"X-Ratelimit-Reset", "243"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_READING(out, "", NONE, 595, 243 * S, NONE);
}

/* Shopify Admin REST API: used and limit in one value, by rows alone */
UNIT_TEST(corpus_shopify)
{
	Sample		s = {429,.headers = {
		{"X-Shopify-Shop-Api-Call-Limit", "32/40"}, {"Retry-After", "2.0"}}};
	FeedbackRule rule = {true, -1, "x-shopify-shop-api-call-limit", NULL, MEANS_USED,
	FEEDBACK_UNKNOWN, FEEDBACK_CALL, "bucket"};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 2 * S);
	CHECK_READING(out, "", 40, 8, NONE, NONE);
	CHECK(strcmp(reading(&out, "").limit_name, "bucket") == 0);
	CHECK_EQ(classify(&s).nreadings, 0);
}

/* HubSpot: two windows, the longer in a name's word, the shorter in a header */
UNIT_TEST(corpus_hubspot)
{
	Sample		s = {200,.headers = {
		{"X-HubSpot-RateLimit-Daily", "250000"},
		{"X-HubSpot-RateLimit-Daily-Remaining", "249001"},
		{"X-HubSpot-RateLimit-Interval-Milliseconds", "10000"},
		{"X-HubSpot-RateLimit-Max", "100"}, {"X-HubSpot-RateLimit-Remaining", "98"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_EQ(out.nreadings, 2);
	CHECK_READING(out, "daily", 250000, 249001, NONE, DAY);
	CHECK_READING(out, "", 100, 98, NONE, 10 * S);
}

/* Kong, and gateways like it: a family for each window */
UNIT_TEST(corpus_kong)
{
	Sample		s = {429,.headers = {
		{"X-RateLimit-Limit-Minute", "20"}, {"X-RateLimit-Remaining-Minute", "0"},
		{"X-RateLimit-Limit-Hour", "500"}, {"X-RateLimit-Remaining-Hour", "431"},
		{"RateLimit-Limit", "20"}, {"RateLimit-Remaining", "0"}, {"RateLimit-Reset", "24"},
		{"Retry-After", "24"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 24 * S);
	CHECK_READING(out, "minute", 20, 0, NONE, 60 * S);
	CHECK_READING(out, "hour", 500, 431, NONE, 3600 * S);
	CHECK_READING(out, "", 20, 0, 24 * S, NONE);
}

/* Atlassian Jira Cloud: an instant without seconds, and a reason */
UNIT_TEST(corpus_jira)
{
	Sample		s = {429,.headers = {
		{"Retry-After", "5"}, {"X-RateLimit-Limit", "350"},
		{"X-RateLimit-Remaining", "0"}, {"X-RateLimit-Reset", "2026-05-01T12:01Z"},
		{"X-RateLimit-NearLimit", "true"},
		{"RateLimit-Reason", "jira-quota-tenant-based"}}};
	FeedbackRule rule = {true, -1, NULL, "jira-quota-*", MEANS_CLASS,
	FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, 5 * S);
	CHECK(strcmp(out.reason, "jira-quota-tenant-based") == 0);
	CHECK_READING(out, "", 350, 0, 60 * S, NONE);
}

/* Stripe: a reason that tells a global from a local refusal, and from congestion */
UNIT_TEST(corpus_stripe)
{
	Sample		s = {429,.headers = {
		{"Stripe-Rate-Limited-Reason", "global-concurrency"},
		{"Stripe-Should-Retry", "true"}}};
	FeedbackRule rules[] = {
		{true, 429, NULL, "global-*", MEANS_CLASS, FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, NULL},
		{true, 429, NULL, "resource-specific", MEANS_CLASS, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT, NULL}
	};
	FeedbackOutcome out = classify_by(&s, rules, 2);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_PROVIDER, NONE);
	s.headers[0].value = "resource-specific";
	out = classify_by(&s, rules, 2);
	CHECK_CLASS(out, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT, NONE);
}

/* Zendesk: a limit without a word for it */
UNIT_TEST(corpus_zendesk)
{
	Sample		s = {429,.headers = {
		{"X-Rate-Limit", "700"}, {"X-Rate-Limit-Remaining", "699"},
		{"Zendesk-RateLimit-tickets-index", "total=100; remaining=0; resets=41"},
		{"Retry-After", "41"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 41 * S);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "", 700, 699, NONE, NONE);
}

/* Trello: families by kind of key, the window in milliseconds */
UNIT_TEST(corpus_trello)
{
	Sample		s = {429,.headers = {
		{"x-rate-limit-api-key-interval-ms", "10000"}, {"x-rate-limit-api-key-max", "300"},
		{"x-rate-limit-api-key-remaining", "201"},
		{"x-rate-limit-api-token-interval-ms", "10000"},
		{"x-rate-limit-api-token-max", "100"}, {"x-rate-limit-api-token-remaining", "0"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, NONE);
	CHECK_READING(out, "api-key", 300, 201, NONE, 10 * S);
	CHECK_READING(out, "api-token", 100, 0, NONE, 10 * S);
}

/* Linear: instants in milliseconds */
UNIT_TEST(corpus_linear)
{
	Sample		s = {400,.reason = "RATELIMITED",.headers = {
		{"X-RateLimit-Requests-Limit", "1500"}, {"X-RateLimit-Requests-Remaining", "0"},
		{"X-RateLimit-Requests-Reset", "1777637100000"},
		{"X-RateLimit-Complexity-Limit", "250000"},
		{"X-RateLimit-Complexity-Remaining", "249000"}}};
	FeedbackRule rule = {true, 400, NULL, "RATELIMITED", MEANS_CLASS,
	FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT, 300 * S);
	CHECK_READING(out, "requests", 1500, 0, 300 * S, NONE);
	CHECK_READING(out, "complexity", 250000, 249000, NONE, NONE);
}

/* BigCommerce: words in another order, milliseconds from now */
UNIT_TEST(corpus_bigcommerce)
{
	Sample		s = {429,.headers = {
		{"X-Rate-Limit-Requests-Left", "0"}, {"X-Rate-Limit-Requests-Quota", "150"},
		{"X-Rate-Limit-Time-Reset-Ms", "11200"},
		{"X-Rate-Limit-Time-Window-Ms", "30000"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 11200000);
	CHECK_READING(out, "requests", 150, 0, NONE, NONE);
	CHECK_READING(out, "", NONE, NONE, 11200000, 30 * S);
}

/* Xero: names of no family, by rows; the header that names the limit is a reason */
UNIT_TEST(corpus_xero)
{
	Sample		s = {429,.headers = {
		{"X-DayLimit-Remaining", "0"}, {"X-MinLimit-Remaining", "52"},
		{"X-Rate-Limit-Problem", "day"}, {"Retry-After", "40000"}}};
	FeedbackRule rules[] = {
		{true, -1, "x-daylimit-remaining", NULL, MEANS_REMAINING, FEEDBACK_UNKNOWN, FEEDBACK_CALL, "day"},
		{true, -1, "x-minlimit-remaining", NULL, MEANS_REMAINING, FEEDBACK_UNKNOWN, FEEDBACK_CALL, "minute"},
		{true, -1, "x-rate-limit-problem", NULL, MEANS_REASON, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL},
		{true, 429, NULL, "day", MEANS_CLASS, FEEDBACK_RATE_LIMITED, FEEDBACK_LIMIT, "day"}
	};
	FeedbackOutcome out = classify_by(&s, rules, 4);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_LIMIT, 40000 * S);
	CHECK(strcmp(out.limit_name, "day") == 0);
	CHECK(strcmp(out.reason, "day") == 0);
	CHECK_EQ(out.nreadings, 2);
	CHECK_EQ(out.readings[0].remaining, 0);
	CHECK_EQ(out.readings[1].remaining, 52);
}

/* Salesforce: the day's calls, used and allowed; 403 when they are */
UNIT_TEST(corpus_salesforce)
{
	Sample		s = {403,.reason = "REQUEST_LIMIT_EXCEEDED",.headers = {
		{"Sforce-Limit-Info", "api-usage=15000/15000"}}};
	FeedbackRule rule = {true, 403, NULL, "REQUEST_LIMIT_EXCEEDED", MEANS_CLASS,
	FEEDBACK_EXHAUSTED, FEEDBACK_ACCOUNT, NULL};
	FeedbackOutcome out = classify_by(&s, &rule, 1);

	CHECK_CLASS(out, FEEDBACK_EXHAUSTED, FEEDBACK_ACCOUNT, NONE);
	CHECK_EQ(out.nreadings, 0);
}

/* Mailgun: an instant in milliseconds */
UNIT_TEST(corpus_mailgun)
{
	Sample		s = {429,.headers = {
		{"X-RateLimit-Limit", "300"}, {"X-RateLimit-Remaining", "0"},
		{"X-RateLimit-Reset", "1777636815000"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 15 * S);
	CHECK_READING(out, "", 300, 0, 15 * S, NONE);
}

/* Cerebras: unit and window in one name */
UNIT_TEST(corpus_cerebras)
{
	Sample		s = {200,.headers = {
		{"x-ratelimit-limit-requests-day", "14400"},
		{"x-ratelimit-limit-tokens-minute", "60000"},
		{"x-ratelimit-remaining-tokens-minute", "58000"},
		{"x-ratelimit-reset-tokens-minute", "11.382"}}};
	FeedbackOutcome out = classify(&s);
	FeedbackReading r = reading(&out, "tokens-minute");

	CHECK_CLASS(out, FEEDBACK_SUCCESS, FEEDBACK_CALL, NONE);
	CHECK_READING(out, "requests-day", 14400, NONE, NONE, DAY);
	CHECK_READING(out, "tokens-minute", 60000, 58000, 11382000, 60 * S);
	CHECK(feedback_counts(&r, "token"));
	CHECK(!feedback_counts(&r, "request"));
}

/* ---- the rest ---- */

UNIT_TEST(what_standards_say_of_a_status)
{
	static const struct
	{
		int			status;
		FeedbackClass class;
		FeedbackScope scope;
	}			said[] = {
		{-1, FEEDBACK_UNKNOWN, FEEDBACK_CALL}, {0, FEEDBACK_FAILURE, FEEDBACK_CALL},
		{100, FEEDBACK_UNKNOWN, FEEDBACK_CALL}, {200, FEEDBACK_SUCCESS, FEEDBACK_CALL},
		{204, FEEDBACK_SUCCESS, FEEDBACK_CALL}, {304, FEEDBACK_SUCCESS, FEEDBACK_CALL},
		{400, FEEDBACK_REJECTED, FEEDBACK_CALL}, {401, FEEDBACK_REJECTED, FEEDBACK_CALL},
		{402, FEEDBACK_REJECTED, FEEDBACK_CALL}, {403, FEEDBACK_REJECTED, FEEDBACK_CALL},
		{404, FEEDBACK_REJECTED, FEEDBACK_CALL}, {408, FEEDBACK_FAILURE, FEEDBACK_CALL},
		{429, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT},
		{500, FEEDBACK_FAILURE, FEEDBACK_CALL}, {502, FEEDBACK_FAILURE, FEEDBACK_CALL},
		{503, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT}, {504, FEEDBACK_FAILURE, FEEDBACK_CALL},
		{529, FEEDBACK_OVERLOADED, FEEDBACK_ENDPOINT}, {599, FEEDBACK_FAILURE, FEEDBACK_CALL},
		{600, FEEDBACK_UNKNOWN, FEEDBACK_CALL}, {INT32_MAX, FEEDBACK_UNKNOWN, FEEDBACK_CALL}
	};

	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
	{
		Sample		s = {.status = said[i].status};
		FeedbackOutcome out = classify(&s);

		CHECK_CLASS(out, said[i].class, said[i].scope, NONE);
		CHECK(out.reason == NULL && out.limit_name == NULL);
	}
}

UNIT_TEST(the_scope_is_the_narrowest_that_is_known)
{
	Sample		s = {.status = 429};

	CHECK_EQ(classify(&s).scope, FEEDBACK_TENANT_ENDPOINT);
	s.no_endpoint = true;		/* its calls without an endpoint */
	CHECK_EQ(classify(&s).scope, FEEDBACK_TENANT_ENDPOINT);
	s.no_tenant = true;
	CHECK_EQ(classify(&s).scope, FEEDBACK_PROVIDER);
	s.no_endpoint = false;
	CHECK_EQ(classify(&s).scope, FEEDBACK_ENDPOINT);
	s.status = 503;
	s.no_endpoint = true;
	CHECK_EQ(classify(&s).scope, FEEDBACK_PROVIDER);
}

UNIT_TEST(a_row_whose_scope_is_not_known_leaves_the_narrowest)
{
	static const FeedbackScope scopes[] = {
		FEEDBACK_CALL, FEEDBACK_LIMIT, FEEDBACK_CONNECTION
	};
	Sample		s = {.status = 429};

	for (int i = 0; i < 3; i++)
	{
		FeedbackRule rule = {true, 429, NULL, NULL, MEANS_CLASS,
		FEEDBACK_RATE_LIMITED, scopes[i], NULL};

		CHECK_EQ(classify_by(&s, &rule, 1).scope, FEEDBACK_TENANT_ENDPOINT);
	}
	{
		FeedbackRule rule = {true, 429, NULL, NULL, MEANS_CLASS,
		FEEDBACK_RATE_LIMITED, FEEDBACK_CONNECTION, NULL};

		s.connection = true;
		CHECK_EQ(classify_by(&s, &rule, 1).scope, FEEDBACK_CONNECTION);
	}
}

UNIT_TEST(the_most_specific_row_counts)
{
	FeedbackRule rules[] = {
		{false, 429, "x-why", "a*", MEANS_CLASS, FEEDBACK_EXHAUSTED, FEEDBACK_ACCOUNT, NULL},
		{true, 429, NULL, NULL, MEANS_CLASS, FEEDBACK_OVERLOADED, FEEDBACK_PROVIDER, NULL},
		{true, -1, "x-why", NULL, MEANS_CLASS, FEEDBACK_FAILURE, FEEDBACK_CALL, NULL},
		{true, -1, "x-why", "ab*", MEANS_CLASS, FEEDBACK_REJECTED, FEEDBACK_CALL, NULL},
		{true, -1, "x-why", "abc", MEANS_CLASS, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT, NULL}
	};
	Sample		s = {429,.headers = {{"X-Why", "a"}}};

	CHECK_EQ(classify_by(&s, rules, 1).class, FEEDBACK_EXHAUSTED);
	CHECK_EQ(classify_by(&s, rules, 2).class, FEEDBACK_OVERLOADED);
	CHECK_EQ(classify_by(&s, rules, 5).class, FEEDBACK_FAILURE);
	s.headers[0].value = "ab";
	CHECK_EQ(classify_by(&s, rules, 5).class, FEEDBACK_REJECTED);
	/* of equal ones the graver */
	s.headers[0].value = "abc";
	CHECK_EQ(classify_by(&s, rules, 5).class, FEEDBACK_RATE_LIMITED);
	s.status = 428;
	CHECK_EQ(classify_by(&s, rules, 2).class, FEEDBACK_REJECTED);
}

UNIT_TEST(a_row_says_what_a_header_is_or_that_it_is_nothing)
{
	FeedbackRule rules[] = {
		{true, -1, "x-ratelimit-remaining", NULL, MEANS_NOTHING, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL},
		{true, -1, "x-left", NULL, MEANS_REMAINING, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL},
		{true, -1, "x-again", NULL, MEANS_RESET, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL},
		{true, 503, "x-most", NULL, MEANS_LIMIT, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL},
		{true, -1, "x-pause", NULL, MEANS_RETRY_AFTER, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL}
	};
	Sample		s = {429,.headers = {
		{"X-RateLimit-Remaining", "a"}, {"X-Left", "4"}, {"X-Again", "9s"},
		{"X-Most", "b"}, {"X-Pause", "11"}}};
	FeedbackOutcome out = classify_by(&s, rules, 5);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 11 * S);
	CHECK_READING(out, "", NONE, 4, 9 * S, NONE);
}

UNIT_TEST(rubbish_is_ignored_and_counted)
{
	Sample		s = {200,.headers = {
		{"Retry-After", "soon"}, {"RateLimit", "\"b\";r=3, \"a\";r=-1"},
		{"RateLimit-Policy", "(a b)"}, {"X-RateLimit-Limit", "unlimited"},
		{"X-RateLimit-Remaining", "-1"}, {"X-RateLimit-Reset", "then"},
		{"X-RateLimit-Used", "1/2/3"}, {"X-RateLimit-Remaining-Tokens", ""},
		{"X-Rate-Limit-Requests-Left", "7"}, {"", "x"}, {"X-\xc3\xa9-RateLimit-Limit", "1"},
		{"RateLimit-Limit", "9;w=x"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_EQ(out.class, FEEDBACK_SUCCESS);
	CHECK_EQ(out.ignored, 9);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "requests", NONE, 7, NONE, NONE);
}

UNIT_TEST(of_several_values_the_least_is_left_and_the_longest_waited_for)
{
	Sample		s = {429,.headers = {
		{"X-RateLimit-Remaining", "7"}, {"x-ratelimit-remaining", "3"},
		{"X-RATELIMIT-REMAINING", "5, 4"}, {"X-RateLimit-Limit", "100"},
		{"X-RateLimit-Limit", "90"}, {"X-RateLimit-Reset", "10"},
		{"X-RateLimit-Reset", "2, 20"}, {"Retry-After", "5"}, {"retry-AFTER", "6"},
		{"Retry-After", "4, 3"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_CLASS(out, FEEDBACK_RATE_LIMITED, FEEDBACK_TENANT_ENDPOINT, 6 * S);
	CHECK_EQ(out.nreadings, 1);
	CHECK_READING(out, "", 90, 3, 20 * S, NONE);
}

UNIT_TEST(a_reset_is_waited_for_when_nothing_is_left)
{
	Sample		s = {429,.headers = {
		{"X-RateLimit-Remaining", "1"}, {"X-RateLimit-Reset", "100"},
		{"X-RateLimit-Reset-Tokens", "7"}, {"X-RateLimit-Remaining-Images", "0"},
		{"X-RateLimit-Reset-Images", "9"}}};

	CHECK_EQ(classify(&s).retry_after_us, 9 * S);
	s.status = 503;
	CHECK_EQ(classify(&s).retry_after_us, 9 * S);
	/* an answer that does not say to wait: nothing is waited for */
	s.status = 200;
	CHECK_EQ(classify(&s).retry_after_us, NONE);
}

UNIT_TEST(readings_beyond_the_eighth_are_ignored_and_counted)
{
	Sample		s = {200,.headers = {
		{"x-ratelimit-limit-a", "1"}, {"x-ratelimit-limit-b", "1"}, {"x-ratelimit-limit-c", "1"},
		{"x-ratelimit-limit-d", "1"}, {"x-ratelimit-limit-e", "1"}, {"x-ratelimit-limit-f", "1"},
		{"x-ratelimit-limit-g", "1"}, {"x-ratelimit-limit-h", "1"}, {"x-ratelimit-limit-i", "1"},
		{"x-ratelimit-remaining-h", "3"}}};
	FeedbackOutcome out = classify(&s);

	CHECK_EQ(out.nreadings, FEEDBACK_MAX_READINGS);
	CHECK_EQ(out.ignored, 1);
	CHECK_READING(out, "h", 1, 3, NONE, NONE);
}

UNIT_TEST(units_as_headers_name_them)
{
	static const struct
	{
		const char *said;
		const char *unit;
		bool		same;
	}			pairs[] = {
		{"", "request", true}, {"requests", "request", true}, {"request", "request", true},
		{"tokens", "token", true}, {"input-tokens", "input_token", true},
		{"tokens", "request", false}, {"", "token", false}, {"tokens", "tokens", true},
		{"token", "tokens", false}, {"tokens", "input_token", false},
		{"requestss", "request", false}, {"api-key", "request", false}, {"tok", "token", false}
	};

	for (size_t i = 0; i < sizeof(pairs) / sizeof(pairs[0]); i++)
	{
		FeedbackReading r = {0};

		strcpy(r.unit, pairs[i].said);
		CHECK_EQ(feedback_counts(&r, pairs[i].unit), pairs[i].same);
	}
}

UNIT_TEST(headers_that_told_something_are_known)
{
	FeedbackRule rules[] = {
		{true, -1, "x-why", "a*", MEANS_CLASS, FEEDBACK_FAILURE, FEEDBACK_CALL, NULL},
		{true, -1, "x-ratelimit-limit", NULL, MEANS_NOTHING, FEEDBACK_UNKNOWN, FEEDBACK_CALL, NULL}
	};
	Sample		s = {200,.headers = {
		{"Date", "x"}, {"Retry-After", "?"}, {"X-Why", "b"}, {"X-Why", "ab"},
		{"X-RateLimit-Limit", "1"}, {"X-RateLimit-Used", "1"}}};

	CHECK_EQ(classify(&s).told_by, 2 + 16 + 32);
	CHECK_EQ(classify_by(&s, rules, 2).told_by, 2 + 8 + 32);
}

/* ---- limits ---- */

UNIT_TEST(a_reading_is_about_the_limit_that_fits_best)
{
	FeedbackLimit limits[] = {
		{"day", "request", true, DAY, 5000, 5000}, {"minute", "request", true, 60 * S, 100, 100},
		{"mine", "request", false, 1 * S, 5, 5}, {"in", "input_token", true, 60 * S, 9, 9}
	};
	FeedbackReading r = {"", "", NULL, NONE, NONE, NONE, NONE, NONE};

	CHECK_EQ(feedback_limit_of(&r, limits, 4), 1);	/* the shortest */
	r.window_us = DAY;
	CHECK_EQ(feedback_limit_of(&r, limits, 4), 0);
	strcpy(r.of, "minute");		/* a name says more than a window */
	CHECK_EQ(feedback_limit_of(&r, limits, 4), 1);
	strcpy(r.unit, "input-tokens");
	CHECK_EQ(feedback_limit_of(&r, limits, 4), 3);
	strcpy(r.unit, "images");
	CHECK_EQ(feedback_limit_of(&r, limits, 4), -1);
	r.limit_name = "mine";		/* a row says most, of any limit */
	CHECK_EQ(feedback_limit_of(&r, limits, 4), 2);
	r.limit_name = "other";
	CHECK_EQ(feedback_limit_of(&r, limits, 4), -1);
	CHECK_EQ(feedback_limit_of(&r, limits, 0), -1);
}

static int64_t
excess(int64_t said_limit, int64_t remaining, int64_t capacity, int64_t level)
{
	FeedbackReading r = {"", "", NULL, said_limit, remaining, NONE, NONE, NONE};
	FeedbackLimit l = {"l", "request", true, S, capacity, level};

	return feedback_excess(&r, &l);
}

UNIT_TEST(what_is_left_lowers_a_level_and_never_raises_it)
{
	CHECK_EQ(excess(NONE, NONE, 100, 80), 0);
	CHECK_EQ(excess(100, NONE, 100, 80), 0);
	CHECK_EQ(excess(NONE, 90, 100, 80), 0);
	CHECK_EQ(excess(NONE, 30, 100, 80), 50);
	CHECK_EQ(excess(100, 30, 100, 80), 50);
	CHECK_EQ(excess(NONE, 0, 100, 80), 80);
	CHECK_EQ(excess(NONE, 0, 100, -5), 0);
	/* with a safety of 0.9: the provider has 30 left, so have we */
	CHECK_EQ(excess(100, 30, 90, 80), 50);
	/* a header of a minute, a bucket of a day: 97 were spent, no more */
	CHECK_EQ(excess(100, 3, 4500, 4450), 47);
	CHECK_EQ(excess(100, 3, 4500, 4000), 0);
	/* numbers that contradict each other: nothing was spent */
	CHECK_EQ(excess(10, 30, 100, 100), 0);
}

/*
 * Whatever is said: the level after is the level before or less, is no debt that was
 * not there, and not below what the provider counts; and what is said once more
 * changes nothing.
 */
UNIT_TEST(lowering_holds_its_bounds_for_any_numbers)
{
	for (int i = 0; i < 200000; i++)
	{
		int64_t		said = random_below(4) ? random_magnitude(INT64_C(1000000000000001)) : NONE;
		int64_t		left = random_below(8) ? random_magnitude(INT64_C(1000000000000001)) : NONE;
		int64_t		capacity = random_magnitude(INT64_C(1000000000000001));
		int64_t		level = capacity - random_magnitude(2 * capacity + 1);
		int64_t		off = excess(said, left, capacity, level);
		int64_t		after = level - off;

		CHECK(off >= 0);
		CHECK(after >= (level < 0 ? level : 0));
		CHECK(left == NONE || off == 0 || after >= left);
		CHECK_EQ(excess(said, left, capacity, after), 0);
	}
}

/* Unit by unit: while more is left than they say, and they have counted more. */
UNIT_TEST(lowering_agrees_with_taking_one_by_one)
{
	for (int i = 0; i < 200000; i++)
	{
		int64_t		said = random_below(4) ? random_below(30) : NONE;
		int64_t		left = random_below(30);
		int64_t		capacity = random_below(40);
		int64_t		level = capacity - random_below(50);
		int64_t		model = level;

		while (model > left && (said == NONE || capacity - model < said - left))
			model--;
		CHECK_EQ(level - excess(said, left, capacity, level), model);
	}
}

UNIT_TEST(long_names_are_cut)
{
	char		name[400] = "x-ratelimit-limit";
	Sample		s = {200,.headers = {{name, "5"}}};
	FeedbackOutcome out;

	for (int i = 0; i < 3; i++)
		strcat(name, "-abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz");
	out = classify(&s);
	CHECK_EQ(out.nreadings, 1);
	CHECK_EQ(strlen(out.readings[0].of), FEEDBACK_NAME_LEN - 1);
	for (int i = 0; i < 20; i++)
		strcat(name, "-a");
	CHECK_EQ(classify(&s).nreadings, 0);
}

int
main(void)
{
	UNIT_RUN(corpus_retry_after);
	UNIT_RUN(instants_are_by_the_clock_of_the_provider);
	UNIT_RUN(retry_after_a_past_instant_names_no_time);
	UNIT_RUN(corpus_ietf_ratelimit);
	UNIT_RUN(corpus_cloudflare);
	UNIT_RUN(corpus_ietf_draft_7);
	UNIT_RUN(corpus_ietf_draft_3);
	UNIT_RUN(corpus_docker_hub);
	UNIT_RUN(corpus_github);
	UNIT_RUN(corpus_gitlab);
	UNIT_RUN(corpus_openai);
	UNIT_RUN(corpus_groq);
	UNIT_RUN(corpus_anthropic);
	UNIT_RUN(corpus_azure_openai);
	UNIT_RUN(corpus_azure_resource_manager);
	UNIT_RUN(corpus_microsoft_graph);
	UNIT_RUN(corpus_x);
	UNIT_RUN(corpus_discord);
	UNIT_RUN(corpus_reddit);
	UNIT_RUN(corpus_shopify);
	UNIT_RUN(corpus_hubspot);
	UNIT_RUN(corpus_kong);
	UNIT_RUN(corpus_jira);
	UNIT_RUN(corpus_stripe);
	UNIT_RUN(corpus_zendesk);
	UNIT_RUN(corpus_trello);
	UNIT_RUN(corpus_linear);
	UNIT_RUN(corpus_bigcommerce);
	UNIT_RUN(corpus_xero);
	UNIT_RUN(corpus_salesforce);
	UNIT_RUN(corpus_mailgun);
	UNIT_RUN(corpus_cerebras);
	UNIT_RUN(what_standards_say_of_a_status);
	UNIT_RUN(the_scope_is_the_narrowest_that_is_known);
	UNIT_RUN(a_row_whose_scope_is_not_known_leaves_the_narrowest);
	UNIT_RUN(the_most_specific_row_counts);
	UNIT_RUN(a_row_says_what_a_header_is_or_that_it_is_nothing);
	UNIT_RUN(rubbish_is_ignored_and_counted);
	UNIT_RUN(of_several_values_the_least_is_left_and_the_longest_waited_for);
	UNIT_RUN(a_reset_is_waited_for_when_nothing_is_left);
	UNIT_RUN(readings_beyond_the_eighth_are_ignored_and_counted);
	UNIT_RUN(units_as_headers_name_them);
	UNIT_RUN(headers_that_told_something_are_known);
	UNIT_RUN(a_reading_is_about_the_limit_that_fits_best);
	UNIT_RUN(what_is_left_lowers_a_level_and_never_raises_it);
	UNIT_RUN(lowering_holds_its_bounds_for_any_numbers);
	UNIT_RUN(lowering_agrees_with_taking_one_by_one);
	UNIT_RUN(long_names_are_cut);
	UNIT_MAIN_END();
}
