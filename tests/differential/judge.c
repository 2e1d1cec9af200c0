/* Judges requests by policies, for programs that compare verdicts with what servers do. It does
 * what a worker does with an intercepted request, without the network.
 *
 *	policy-judge
 *
 * Reads lines of JSON on standard input, and answers each with one line:
 *
 *	{"policies": [DOCUMENT, ...]}		true, or an error's message
 *	{"cases": [[METHOD, TARGET, HEADERS, BODY], ...]}
 *						for each case a list with, for each policy,
 *						[ACTION, RULE, UNCLEAR or null]
 *
 * Policies replace those before.
 * TARGET and BODY are in hexadecimal digits, as they may have any bytes. HEADERS is a list of
 * [NAME, VALUE]. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "proto/http_headers.h"
#include "rules/rules.h"

enum { POLICIES_MAX = 64, HEADERS_MAX = 32 };

static struct rules policies[POLICIES_MAX];
static unsigned policy_count;

/* What is asked about. The strings are borrowed from the line. */
struct request {
	struct rules_question asked;
	struct http_header items[HEADERS_MAX];
	struct http_headers headers;
	char clean[RULES_PATH_MAX + 1];
	char *target, *body; /* owned */
	size_t body_bytes;
};

/* --- policies --- */

static void drop_policies(void)
{
	while (policy_count)
		rules_done(&policies[--policy_count]);
}

static json_t *take_policies(json_t *list)
{
	struct error e = {.code = 0};
	const struct policy_at top = {.e = &e};

	drop_policies();
	for (size_t i = 0; i < json_array_size(list) && i < POLICIES_MAX; i++) {
		int r = rules_make(
			&top, json_array_get(list, i), RULES_MAX, &policies[policy_count++]);

		if (r < 0)
			return json_string(e.message);
	}
	return json_true();
}

/* --- requests --- */

static char *decode(json_t *v, size_t *ret_n)
{
	const char *hex = json_string_value(v);
	size_t n = hex ? strlen(hex) / 2 : 0;
	char *out = malloc(n + 1);

	for (size_t i = 0; out && i < n; i++)
		out[i] = (char)(str_hex_digit(hex[2 * i]) * 16 + str_hex_digit(hex[2 * i + 1]));
	if (out)
		out[n] = '\0';
	*ret_n = n;
	return out;
}

static void take_headers(json_t *list, struct request *q)
{
	size_t n = json_array_size(list);

	for (size_t i = 0; i < n && i < HEADERS_MAX; i++) {
		json_t *pair = json_array_get(list, i);
		const char *name = json_string_value(json_array_get(pair, 0));
		const char *value = json_string_value(json_array_get(pair, 1));

		q->items[i] = (struct http_header){name, value, strlen(name), strlen(value)};
	}
	q->headers = (struct http_headers){q->items, (unsigned)n};
}

static void take_request(json_t *c, struct request *q)
{
	size_t n, path;
	const char *query;

	q->target = decode(json_array_get(c, 1), &n);
	q->body = decode(json_array_get(c, 3), &q->body_bytes);
	if (!q->target || !q->body)
		abort();
	take_headers(json_array_get(c, 2), q);
	path = strcspn(q->target, "?");
	query = q->target[path] ? q->target + path + 1 : NULL;
	q->asked = (struct rules_question){.kind = RULES_REQUEST,
		.name = "server.example",
		.port = 443,
		.tls = true,
		.query = query,
		.headers = &q->headers,
		.method = json_string_value(json_array_get(c, 0)),
		.has_body = q->body_bytes > 0};
	q->asked.two_methods = rules_has_two_methods(&q->headers, query);
	q->asked.two_paths = rules_has_two_paths(&q->headers);
	q->asked.form = rules_may_be_form(q->asked.method, q->asked.has_body, &q->headers);
	if (path_clean(q->target, query ? path : n, q->clean) == 0 && !q->asked.two_paths)
		q->asked.path = q->clean;
}

static json_t *tell(const struct rules_verdict *v)
{
	return json_pack("[s, s, s?]", rules_action_word(v->action), rules_id(v->rule), v->unclear);
}

/* Judges by one policy, with the body if it decides. */
static json_t *judge(const struct rules *r, const struct request *q)
{
	struct rules_question asked = q->asked;
	struct rules_verdict v = rules_judge(r, &asked);
	struct call_reader *reader;
	json_t *told;

	if (!v.body)
		return tell(&v);
	reader = call_reader_new(v.body, asked.path, &q->headers);
	if (!reader)
		abort();
	(void)call_reader_feed(reader, q->body, q->body_bytes); /* the end says the same */
	asked.call = call_reader_end(reader);
	asked.two_methods = asked.two_methods || asked.call->two_methods;
	v = rules_judge(r, &asked);
	told = tell(&v);
	call_reader_free(reader);
	return told;
}

static json_t *judge_all(json_t *c)
{
	struct request q = {.target = NULL};
	json_t *list = json_array();

	take_request(c, &q);
	for (unsigned i = 0; i < policy_count; i++)
		(void)json_array_append_new(list, judge(&policies[i], &q)); /* a gap shows */
	free(q.target);
	free(q.body);
	return list;
}

static json_t *answer(json_t *line)
{
	json_t *list = json_object_get(line, "policies"), *told, *c;
	size_t i;

	if (list)
		return take_policies(list);
	told = json_array();
	json_array_foreach(json_object_get(line, "cases"), i, c)
	{
		(void)json_array_append_new(told, judge_all(c)); /* likewise */
	}
	return told;
}

int main(void)
{
	_cleanup_free_ char *text = NULL;
	size_t cap = 0;

	while (getline(&text, &cap, stdin) > 0) {
		json_t *line = json_loads(text, 0, NULL), *told = answer(line);

		(void)json_dumpf(told, stdout, JSON_COMPACT | JSON_ENCODE_ANY); /* a gap shows */
		(void)puts("");
		(void)fflush(stdout);
		json_decref(told);
		json_decref(line);
	}
	drop_policies();
	return 0;
}
