/* The rules of intercepted hosts: what is accepted, which rule counts, and secrets in what a server
 * says. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "egress/policy.h"
#include "intercept/intercept.h"
#include "intercept/scrub.h"

#define CA "\"ca\":{\"certificate\":\"c\",\"key\":\"k\"}"

static struct intercept *make(const char *text, struct error *e)
{
	json_t *value = json_loads(text, 0, NULL);
	struct intercept *i = NULL;

	assert_non_null(value);
	*e = (struct error){0};
	(void)intercept_make(value, &i, e);
	json_decref(value);
	return i;
}

static void what_is_wrong_is_named(void **state)
{
	static const struct {
		const char *text, *message;
	} rows[] = {
		{"{}", "intercept.ca: "},
		{"{\"ca\":{\"key\":\"k\"}}", "intercept.ca.certificate: "},
		{"{\"ca\":{\"certificate\":\"c\",\"key\":\"\"}}", "intercept.ca.key: "},
		{"{\"ca\":{\"certificate\":\"c\",\"key\":\"k\",\"x\":1}}", "intercept.ca.x: "},
		{"{" CA ",\"x\":1}", "intercept.x: no such member"},
		{"{" CA ",\"roots\":1}", "intercept.roots: "},
		{"{" CA ",\"ports\":443}", "intercept.ports: "},
		{"{" CA ",\"ports\":[443,0]}", "intercept.ports[1]: "},
		{"{" CA ",\"ports\":[65536]}", "intercept.ports[0]: "},
		{"{" CA ",\"hosts\":[1]}", "intercept.hosts[0]: "},
		{"{" CA ",\"hosts\":[{}]}", "intercept.hosts[0].host: "},
		{"{" CA ",\"hosts\":[{\"host\":\"*\"}]}", "intercept.hosts[0].host: "},
		{"{" CA ",\"hosts\":[{\"host\":\"A.test\"}]}", "intercept.hosts[0].host: "},
		{"{" CA ",\"hosts\":[{\"host\":\"a.*.test\"}]}", "intercept.hosts[0].host: "},
		{"{" CA ",\"hosts\":[{\"host\":\"a\"},{\"host\":\"a\"}]}", "intercept.hosts[1]: "},
		{"{" CA ",\"hosts\":[{\"host\":\"a\",\"headers\":[{\"name\":\"x\"}]}]}",
			"intercept.hosts[0].headers[0].value: "},
		{"{" CA
		 ",\"hosts\":[{\"host\":\"a\",\"headers\":[{\"name\":\"x y\",\"value\":\"\"}]}]}",
			"intercept.hosts[0].headers[0].name: "},
		{"{" CA
		 ",\"hosts\":[{\"host\":\"a\",\"headers\":[{\"name\":\"HOST\",\"value\":\"b\"}]}]}",
			"intercept.hosts[0].headers[0].name: "},
		{"{" CA
		 ",\"hosts\":[{\"host\":\"a\",\"headers\":[{\"name\":\"Te\",\"value\":\"b\"}]}]}",
			"intercept.hosts[0].headers[0].name: "},
		{"{" CA ",\"hosts\":[{\"host\":\"a\",\"headers\":[{\"name\":\"x\",\"value\":"
		 "\"a\\r\\nb\"}]}]}",
			"intercept.hosts[0].headers[0].value: "},
		{"{" CA ",\"secrets\":[{\"name\":\"a\",\"value\":\"\"}]}",
			"intercept.secrets[0].value: "},
		{"{" CA ",\"secrets\":[{\"name\":\"a\",\"value\":\"v\"},{\"name\":\"a\",\"value\":"
		 "\"w\"}]}",
			"intercept.secrets[1].name: "},
		{"{" CA
		 ",\"placeholders\":[{\"text\":\"short\",\"secret\":\"a\",\"hosts\":[\"a\"]}]}",
			"intercept.placeholders[0].text: "},
		{"{" CA ",\"placeholders\":[{\"text\":\"0123456789 "
		 "12345\",\"secret\":\"a\",\"hosts\":[\"a\"]}]}",
			"intercept.placeholders[0].text: "},
		{"{" CA ",\"placeholders\":[{\"text\":\"0123456789012345\",\"secret\":\"a\","
		 "\"hosts\":[\"a\"]}]}",
			"intercept.placeholders[0].secret: "},
		{"{" CA
		 ",\"secrets\":[{\"name\":\"a\",\"value\":\"v\"}],\"placeholders\":[{\"text\":"
		 "\"0123456789012345\",\"secret\":\"a\"}]}",
			"intercept.placeholders[0].hosts: "},
		{"{" CA
		 ",\"secrets\":[{\"name\":\"a\",\"value\":\"v\"}],\"placeholders\":[{\"text\":"
		 "\"0123456789012345\",\"secret\":\"a\",\"hosts\":[\"*\"]}]}",
			"intercept.placeholders[0].hosts[0]: "},
	};
	struct error e;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		assert_null(make(rows[i].text, &e));
		assert_int_equal(e.code, ERROR_USAGE);
		if (strncmp(e.message, rows[i].message, strlen(rows[i].message)) != 0)
			fail_msg("%s: %s", rows[i].text, e.message);
	}
}

/* Rules with a list of n items, each with its number in it. */
static char *list_of(const char *member, const char *before, const char *after, unsigned n)
{
	struct buf b = BUF_INIT(4 << 20);

	assert_int_equal(buf_printf(&b, "{" CA ",\"%s\":[", member), 0);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(buf_add_str(&b, i ? "," : ""), 0);
		assert_int_equal(buf_printf(&b, "%s%u%s", before, i + 1, after), 0);
	}
	assert_int_equal(buf_add(&b, "]}", 3), 0);
	return (char *)b.data;
}

static void lists_have_limits(void **state)
{
	static const struct {
		const char *member, *before, *after;
		unsigned max;
	} rows[] = {
		{"ports", "", "", INTERCEPT_PORTS_MAX},
		{"hosts", "{\"host\":\"h", "\"}", INTERCEPT_HOSTS_MAX},
		{"secrets", "{\"name\":\"s", "\",\"value\":\"v\"}", INTERCEPT_SECRETS_MAX},
	};
	struct intercept *i;
	struct error e;
	char *text;

	for (size_t row = 0; row < ARRAY_SIZE(rows); row++)
		for (unsigned more = 0; more < 2; more++) {
			text = list_of(rows[row].member, rows[row].before, rows[row].after,
				rows[row].max + more);
			i = make(text, &e);
			assert_int_equal(i != NULL, more == 0);
			intercept_unref(i);
			free(text);
		}
}

static void values_have_limits(void **state)
{
	char after[INTERCEPT_SECRET_MAX + 64], *text;
	struct intercept *i;
	struct error e;

	for (unsigned more = 0; more < 2; more++) {
		static const char begin[] = "\",\"value\":\"";
		size_t n = sizeof(begin) - 1;

		memcpy(after, begin, n);
		memset(after + n, 'v', INTERCEPT_SECRET_MAX + more);
		strcpy(after + n + INTERCEPT_SECRET_MAX + more, "\"}");
		for (unsigned count = 8; count <= 9; count++) {
			text = list_of("secrets", "{\"name\":\"s", after, count);
			i = make(text, &e);
			assert_int_equal(i != NULL, more == 0 && count == 8);
			assert_null(strstr(e.message, "vvv"));
			intercept_unref(i);
			free(text);
		}
	}
}

static void one_rule_counts(void **state)
{
	static const struct {
		const char *name, *rule; /* its header; NULL: none */
	} rows[] = {
		{"a.test", "exact"},
		{"b.a.test", "below a"},
		{"c.b.a.test", "below b.a"},
		{"d.c.b.a.test", "below b.a"},
		{"x.test", "below"},
		{"test", NULL},
		{"xa.test", "below"},
		{"other", NULL},
	};
	struct error e;
	struct intercept *i = make(
		"{" CA ",\"hosts\":["
		"{\"host\":\"*.test\",\"headers\":[{\"name\":\"x\",\"value\":\"below\"}]},"
		"{\"host\":\"*.b.a.test\",\"headers\":[{\"name\":\"x\",\"value\":\"below b.a\"}]},"
		"{\"host\":\"a.test\",\"headers\":[{\"name\":\"x\",\"value\":\"exact\"}]},"
		"{\"host\":\"*.a.test\",\"headers\":[{\"name\":\"x\",\"value\":\"below a\"}]}]}",
		&e);

	assert_non_null(i);
	for (size_t row = 0; row < ARRAY_SIZE(rows); row++) {
		const struct intercept_host *h = intercept_find(i, rows[row].name);

		assert_int_equal(h != NULL, rows[row].rule != NULL);
		if (h)
			assert_string_equal(h->headers[0].value, rows[row].rule);
		assert_int_equal(intercept_applies(i, rows[row].name, 443), rows[row].rule != NULL);
		assert_false(intercept_applies(i, rows[row].name, 80));
	}
	assert_false(intercept_applies(NULL, "a.test", 443));
	intercept_unref(i);
}

static void a_placeholder_intercepts_its_hosts(void **state)
{
	struct error e;
	struct intercept *i =
		make("{" CA ",\"ports\":[8443],\"secrets\":[{\"name\":\"a\",\"value\":"
		     "\"v\"}],\"placeholders\":[{\"text\":\"0123456789012345\",\"secret\":"
		     "\"a\",\"hosts\":[\"a.test\",\"*.b.test\"]}]}",
			&e);

	assert_non_null(i);
	assert_true(intercept_applies(i, "a.test", 8443));
	assert_true(intercept_applies(i, "x.b.test", 8443));
	assert_false(intercept_applies(i, "b.test", 8443));
	assert_false(intercept_applies(i, "a.test", 443));
	assert_null(intercept_find(i, "a.test"));
	intercept_unref(i);
}

/* A policy with it decides by names: no flow to such a host comes with a bare address. */
static void a_policy_with_it_is_in_name_mode(void **state)
{
	json_t *value =
		json_loads("{\"version\":1,\"generation\":1,\"layers\":[{\"default\":\"allow\"}],"
			   "\"intercept\":{" CA "}}",
			0, NULL);
	struct error e = {0};
	struct policy *p;

	assert_int_equal(policy_make(value, &p, &e), 0);
	assert_true(p->names && p->intercept);
	policy_free(p);
	json_object_del(value, "intercept");
	assert_int_equal(policy_make(value, &p, &e), 0);
	assert_false(p->names || p->intercept);
	policy_free(p);
	json_decref(value);
}

/* --- scrubbing --- */

static const char scrub_rules[] =
	"{" CA ",\"secrets\":[{\"name\":\"a\",\"value\":\"abcdefgh\"},{\"name\":\"b\",\"value\":"
	"\"abcdefghijkl\"},{\"name\":\"c\",\"value\":\"aaaaaaaab\"},{\"name\":\"d\",\"value\":"
	"\"short\"},"
	"{\"name\":\"e\",\"value\":\"ghabcdxx\"}],\"placeholders\":["
	"{\"text\":\"0123456789012345\",\"secret\":\"a\",\"hosts\":[\"h\"]},"
	"{\"text\":\"ABCDEFGHIJKLMNOP\",\"secret\":\"b\",\"hosts\":[\"h\"]}],"
	"\"hosts\":[{\"host\":\"h\",\"headers\":[{\"name\":\"x\",\"value\":"
	"\"${e2b.secrets.c}${e2b.secrets.d} ${e2b.secrets.e}${e2b.secrets.none}\"}]}]}";

static const struct scrub_row {
	const char *in, *out;
} scrubbed[] = {
	{"", ""},
	{"nothing here", "nothing here"},
	{"abcdefgh", "01234567"},
	{"abcdefghijkl", "ABCDEFGHIJKL"},
	{"abcdefghijk", "01234567ijk"},
	{"abcdefgabcdefgh", "abcdefg01234567"},
	{"xxabcdefghabcdefghijklyy", "xx01234567ABCDEFGHIJKLyy"},
	{"aaaaaaaaaab", "aa*********"},
	{"aaaaaaaa", "aaaaaaaa"},
	{"abcdefghabcdxx", "01234567abcdxx"}, /* the first that begins counts */
	{"ghabcdxxghabcdxx", "****************"},
	{"a short one", "a short one"},
	{"aaaaaaaabcdefgh", "*********cdefgh"},
};

static void scrub_one(const struct scrub_row *row, struct intercept *i, size_t piece)
{
	size_t n = strlen(row->in);
	struct buf out = BUF_INIT(4096);
	struct scrub s;

	assert_int_equal(scrub_init(&s, i, "h"), 0);
	for (size_t at = 0; at < n; at += piece) {
		size_t part = n - at < piece ? n - at : piece;

		assert_int_equal(scrub_bytes(&s, (const uint8_t *)row->in + at, part, &out), 0);
	}
	assert_int_equal(scrub_end(&s, &out), 0);
	assert_int_equal(buf_add(&out, "", 1), 0);
	assert_string_equal((const char *)buf_head(&out), row->out);
	scrub_done(&s);
	buf_done(&out);
}

static void secrets_are_found_across_pieces(void **state)
{
	struct error e;
	struct intercept *i = make(scrub_rules, &e);

	assert_non_null(i);
	for (size_t row = 0; row < ARRAY_SIZE(scrubbed); row++)
		for (size_t piece = 1; piece <= 24; piece++)
			scrub_one(&scrubbed[row], i, piece);
	intercept_unref(i);
}

/* What has passed when each part has come, with `longest` 12: nothing depends on what it says. */
static const struct {
	const char *in;
	size_t waits;
} waiting[] = {
	{"data: abcdefg\n\n", 0},
	{"data: abcdefg", 7},
	{"data: zzzzzzz", 7},
	{"abcdefghijk", 11},
	{"zzzzzzzzzzz", 11},
	{"zzzzzzzzzzzzzzz", 11},
	{"abcdefghijkl", 11}, /* a whole one */
	{"{\"a\":1}", 0},
	{"a b", 1},
};

static void what_waits_depends_on_no_secret(void **state)
{
	struct error e;
	struct intercept *i = make(scrub_rules, &e);
	struct scrub s;

	for (size_t row = 0; row < ARRAY_SIZE(waiting); row++)
		for (size_t piece = 1; piece <= 16; piece++) {
			const char *in = waiting[row].in;
			size_t n = strlen(in);
			struct buf out = BUF_INIT(4096);

			assert_int_equal(scrub_init(&s, i, "h"), 0);
			for (size_t at = 0; at < n; at += piece)
				assert_int_equal(scrub_bytes(&s, (const uint8_t *)in + at,
							 n - at < piece ? n - at : piece, &out),
					0);
			assert_int_equal(scrub_waiting(&s), waiting[row].waits);
			assert_int_equal(buf_len(&out), n - waiting[row].waits);
			scrub_done(&s);
			buf_done(&out);
		}
	assert_int_equal(scrub_init(&s, i, "another host"), 0);
	assert_false(scrub_active(&s));
	scrub_done(&s);
	intercept_unref(i);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_is_wrong_is_named),
		cmocka_unit_test(lists_have_limits),
		cmocka_unit_test(values_have_limits),
		cmocka_unit_test(one_rule_counts),
		cmocka_unit_test(a_placeholder_intercepts_its_hosts),
		cmocka_unit_test(a_policy_with_it_is_in_name_mode),
		cmocka_unit_test(secrets_are_found_across_pieces),
		cmocka_unit_test(what_waits_depends_on_no_secret),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
