/* An exchange with rules, and what it sent and said of requests: for its tests and fuzz targets. */
#ifndef TESTS_EXCHANGE_FIXTURE_H
#define TESTS_EXCHANGE_FIXTURE_H

#include <stdio.h>
#include <string.h>

#include <jansson.h>

#include "base/buf.h"
#include "intercept/exchange.h"
#include "rules/call.h"
#include "rules/rules.h"

#define HELD_SECRET   "sk-real-5up3r5ecret" /* a placeholder stands for it */
#define RULE_SECRET   "rule-5ecret-value"   /* only a rule uses it */
#define PLACEHOLDER   "sk-mfly-0123456789"
#define HELD_SCRUBBED "sk-mfly-0123456789*"
#define RULE_SCRUBBED "*****************"

static const char fixture_rules[] =
	"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"ports\": [443, 8443],"
	" \"hosts\": ["
	"  {\"host\": \"api.test\", \"headers\": ["
	"   {\"name\": \"Authorization\", \"value\": \"Bearer ${e2b.secrets.rule}\"},"
	"   {\"name\": \"x-fixed\", \"value\": \"yes\"}]},"
	"  {\"host\": \"plain.test\", \"headers\": [{\"name\": \"x-fixed\", \"value\": \"yes\"}]},"
	"  {\"host\": \"unknown.test\", \"headers\": [{\"name\": \"a\", \"value\": "
	"\"${e2b.secrets.no}\"}]},"
	"  {\"host\": \"tokens.test\", \"headers\":"
	"   [{\"name\": \"a\", \"value\": \"${e2b.identity.tokens.t}\"}]},"
	"  {\"host\": \"lines.test\", \"headers\":"
	"   [{\"name\": \"a\", \"value\": \"${e2b.secrets.lines}\"}]}],"
	" \"secrets\": [{\"name\": \"held\", \"value\": \"" HELD_SECRET "\"},"
	"  {\"name\": \"rule\", \"value\": \"" RULE_SECRET "\"},"
	"  {\"name\": \"lines\", \"value\": \"with\\r\\na line end\"},"
	"  {\"name\": \"other\", \"value\": \"the secret of another host\"}],"
	" \"placeholders\": ["
	"  {\"text\": \"" PLACEHOLDER
	"\", \"secret\": \"held\", \"hosts\": [\"held.test\", \"api.test\"]},"
	"  {\"text\": \"sk-mfly-another-host\", \"secret\": \"other\", \"hosts\": "
	"[\"other.test\"]}]}";

struct fixture {
	struct exchange *x;
	struct buf out[2]; /* what was sent so far */
	struct buf log;	   /* a line for each record */
	unsigned records;
	const char *denied;	       /* a path that the judge denies */
	const char *asked;	       /* one that a person is to decide about */
	const struct rules_rule *asks; /* by this rule, if it reads calls */
	const char *read;	       /* one whose body the judge wants to see first */
	const char *form;   /* one whose form it wants to see: it must not replace the method */
	bool observes;	    /* it may, and is only looked at */
	const char *canned; /* one that a rule answers: 418, "tea" */
	const struct rules_rule *setters[EXCHANGE_SETTERS_MAX]; /* of what is allowed */
	unsigned setter_count;
	bool tools;	       /* rules speak of tools: none is shown */
	size_t shown, longest; /* how often that was asked, and the longest path */
};

/* Whether a request is for this path; NULL: none is. */
static inline bool fixture_is_for(const struct exchange_request *r, const char *path)
{
	size_t n = strcspn(r->path, "?");

	return path && strlen(path) == n && memcmp(r->path, path, n) == 0;
}

static inline struct exchange_verdict fixture_judge(void *arg, const struct exchange_request *r)
{
	static const struct rules_answer tea = {
		.status = 418, .body = (char *)"tea", .body_bytes = 3};
	struct fixture *f = arg;
	struct exchange_verdict allow = {.action = EXCHANGE_ALLOW, .setter_count = f->setter_count};

	allow.tools = f->tools;
	memcpy(allow.setters, f->setters, sizeof(allow.setters));
	if (fixture_is_for(r, f->denied))
		return (struct exchange_verdict){EXCHANGE_DENY, "test", "not today"};
	if (fixture_is_for(r, f->read) && !r->call)
		return (struct exchange_verdict){.action = EXCHANGE_READ, .body = CALL_OPENAI};
	if (fixture_is_for(r, f->form) && r->form && !r->call)
		return (struct exchange_verdict){.action = EXCHANGE_READ, .body = CALL_FORM};
	if (fixture_is_for(r, f->form) && r->two_methods && !f->observes)
		return (struct exchange_verdict){EXCHANGE_DENY, "form", "two methods"};
	if (fixture_is_for(r, f->canned))
		return (struct exchange_verdict){.action = EXCHANGE_ANSWER, .answer = &tea};
	if (fixture_is_for(r, f->asked))
		return (struct exchange_verdict){
			.action = EXCHANGE_ASK, .rule = "buy", .asks = f->asks};
	return allow;
}

static inline bool fixture_shows(void *arg, const char *path, const char *tool)
{
	struct fixture *f = arg;
	size_t n = strlen(path);

	f->shown++;
	f->longest = n > f->longest ? n : f->longest;
	return false;
}

static inline void fixture_record(void *arg, const struct exchange_record *r)
{
	struct fixture *f = arg;

	f->records++;
	(void)buf_printf(&f->log, "%s %s %u %s %llu %llu", r->method, r->path, r->status,
		r->verdict, (unsigned long long)r->up, (unsigned long long)r->down);
	for (unsigned i = 0; i < r->secret_count; i++)
		(void)buf_printf(&f->log, " %s", r->secrets[i]);
	(void)buf_add_str(&f->log, "\n");
}

static inline struct intercept *fixture_intercept(const char *rules)
{
	json_t *value = json_loads(rules, 0, NULL);
	struct intercept *i = NULL;
	struct error e = {0};

	if (!value || intercept_make(value, &i, &e) < 0)
		(void)fprintf(stderr, "fixture: %s\n", e.message);
	json_decref(value);
	return i;
}

/* False when out of memory. */
static inline bool fixture_open(
	struct fixture *f, enum exchange_protocol protocol, const char *host, uint16_t port)
{
	struct intercept *i = fixture_intercept(fixture_rules);
	struct exchange_options o = {.protocol = protocol,
		.host = host,
		.port = port,
		.intercept = i,
		.callbacks = {fixture_judge, fixture_record, f, .shows = fixture_shows}};
	bool made;

	*f = (struct fixture){
		.out = {BUF_INIT(64 << 20), BUF_INIT(64 << 20)}, .log = BUF_INIT(16 << 20)};
	made = i && exchange_new(&o, &f->x) == 0;
	intercept_unref(i);
	return made;
}

static inline void fixture_close(struct fixture *f)
{
	exchange_free(f->x);
	f->x = NULL;
	buf_done(&f->out[0]);
	buf_done(&f->out[1]);
	buf_done(&f->log);
}

/* Takes what is to be sent to both sides. */
static inline void fixture_drain(struct fixture *f)
{
	bool more = true;

	while (more) {
		more = false;
		for (unsigned side = 0; side < 2; side++) {
			size_t n;
			const uint8_t *p = exchange_output(f->x, side, &n);

			if (!n)
				continue;
			(void)buf_add(&f->out[side], p, n);
			exchange_sent(f->x, side, n);
			more = true;
		}
	}
}

/* Feeds bytes in pieces while the exchange takes them. Returns how many it took. */
static inline size_t fixture_feed(
	struct fixture *f, enum exchange_side from, const void *data, size_t n, size_t piece)
{
	size_t done = 0;

	fixture_drain(f);
	while (done < n && exchange_wants(f->x, from)) {
		size_t part = n - done < piece ? n - done : piece;
		size_t took = exchange_receive(f->x, from, (const uint8_t *)data + done, part);

		done += took;
		fixture_drain(f);
		if (!took)
			break;
	}
	return done;
}

/* What was sent to a side, as a string. */
static inline const char *fixture_sent(struct fixture *f, enum exchange_side to)
{
	(void)buf_add(&f->out[to], "", 1);
	f->out[to].end--;
	return (const char *)buf_head(&f->out[to]);
}

static inline const char *fixture_log(struct fixture *f)
{
	(void)buf_add(&f->log, "", 1);
	f->log.end--;
	return (const char *)buf_head(&f->log);
}

#endif
