/* A sandbox's network policy: an error names what is wrong, and what is accepted can be judged. */
#include "fuzz.h"

#include "egress/policy.h"
#include "intercept/intercept.h"
#include "proto/http_headers.h"
#include "proto/json_tree.h"

static void intercepted(const struct intercept *i, const char *name)
{
	bool any = false;

	for (unsigned n = 0; i && n < i->placeholder_count; n++) {
		check(i->placeholders[n].secret < i->secret_count);
		any = any || intercept_placeholder_is_for(&i->placeholders[n], name);
	}
	any = any || (i && intercept_find(i, name));
	check(!i || any || !intercept_applies(i, name, i->port_count ? i->ports[0] : 443));
}

static void requests(const struct policy *p, const char *name)
{
	static const struct http_header items[] = {{"x-amz-target", "a.b", 12, 3},
		{"content-type", "multipart/mixed", 12, 15}, {"prefer", "x", 6, 1}};
	static const struct http_headers headers = {items, 3}, none = {items, 0};
	static const struct rules_question asked = {.kind = RULES_REQUEST,
		.query = "a=b&Action=c;d",
		.headers = &none,
		.address = 0x01020304,
		.port = 443,
		.tls = true,
		.method = "GET",
		.path = "/a/b"};
	struct rules_question q = asked;
	struct policy_verdict v;

	q.name = name;
	v = policy_judge_question(p, &q);
	check(v.rule && !(v.allow && v.ask) && (v.allow || !v.answer));
	q.headers = &headers;
	q.upgrade = true;
	v = policy_judge_question(p, &q);
	check(v.rule && !(v.allow && v.ask));
	q.path = NULL;
	v = policy_judge_question(p, &q);
	check(v.rule && !v.inspect);
	q.kind = RULES_OPAQUE;
	check(!policy_judge_question(p, &q).inspect);
}

static void judge(const struct policy *p)
{
	static const char *const names[] = {"a", "a.b", "api.example.com", "x.y.example.com"};

	check(p->layer_count >= 1 && p->layer_count <= POLICY_LAYERS_MAX);
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		check(policy_is_host(names[i]));
		check(policy_judge_name(p, names[i]).rule);
		check(policy_judge(p, names[i], 0x01020304, 443).rule);
		(void)policy_host(p, names[i]);
		intercepted(p->intercept, names[i]);
		requests(p, names[i]);
	}
	check(policy_judge(p, NULL, 0xcb007101, 80).rule);
	(void)policy_opens(p, 0x0a000001);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *reason = NULL;
	json_t *value = json_tree_parse(data, size, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	struct error e = {0};
	struct policy *p;

	if (!value)
		return 0;
	if (policy_make(value, &p, &e) == 0) {
		judge(p);
		policy_free(p);
	} else {
		check(e.code != ERROR_NONE && e.message[0]);
	}
	json_decref(value);
	return 0;
}
