/* What a person is shown of texts and bodies: tables. */
#include "test.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "exchange_fixture.h"
#include "intercept/preview.h"
#include "intercept/secret_name.h"

#define KEY "Abcdefgh0123456789Abcdefgh"

/* Bodies. names: those whose values are hidden. */
static const struct {
	const char *body, *shown, *names;
	size_t hidden;
	bool cut; /* it goes on */
} bodies[] = {
	{"", "", "", 0, false},
	/* JSON, in its compact form */
	{"{\"a\": \"b\"}", "{\"a\": \"b\"}", "", 0, false},
	{" [ 1 , -2.5e3 , true, false , null , [ ] , { } ] \n",
		"[1, -2.5e3, true, false, null, [], {}]", "", 0, false},
	{"{\"a\":{\"b\":[{\"c\":1},2]},\"d\":3}", "{\"a\": {\"b\": [{\"c\": 1}, 2]}, \"d\": 3}", "",
		0, false},
	{"{\"a\":\"\\u0041\\n\\\"\\\\/\"}", "{\"a\": \"A\\n\\\"\\\\/\"}", "", 0, false},
	{"{\"a\":\"p\\u0430ypal\\u200b\"}", "{\"a\": \"p\\u{430}ypal\\u{200b}\"}", "", 0, false},
	/* only the value of that member is hidden */
	{"{\"memo\":\"token: x\",\"pay_to\":\"mallory\",\"amount\":99999}",
		"{\"memo\": \"token: x\", \"pay_to\": \"mallory\", \"amount\": 99999}", "", 0,
		false},
	{"{\"memo\":\"token=\\\"\",\"pay_to\":\"mallory\"}",
		"{\"memo\": \"token=\\\"\", \"pay_to\": \"mallory\"}", "", 0, false},
	{"{\"author\":\"a\",\"max_tokens\":9,\"tokenizer\":1,\"monkey\":2}",
		"{\"author\": \"a\", \"max_tokens\": 9, \"tokenizer\": 1, \"monkey\": 2}", "", 0,
		false},
	{"{\"Password\" : \"a\\\"b\", \"c\": 1}", "{\"Password\": \"[3 bytes hidden]\", \"c\": 1}",
		"Password", 3, false},
	{"{\"api_key\":\"x\",\"apiKey2\":\"y\",\"cvc\":123}",
		"{\"api_key\": \"[1 bytes hidden]\", \"apiKey2\": \"y\", \"cvc\": [3 bytes "
		"hidden]}",
		"api_key cvc", 4, false},
	{"{\"\\u0074oken\":\"x\"}", "{\"token\": \"[1 bytes hidden]\"}", "token", 1, false},
	{"{\"acce\xc5\xbf\xc5\xbftoken\":\"x\"}",
		"{\"acce\\u{17f}\\u{17f}token\": \"[1 bytes hidden]\"}",
		"acce\\u{17f}\\u{17f}token", 1, false},
	{"{\"auth\":{\"user\":\"u\",\"n\":[1,{\"p\":\"q\"}]},\"to\":\"m\"}",
		"{\"auth\": [9 bytes hidden], \"to\": \"m\"}", "auth", 9, false},
	{"{\"token\":true,\"secret\":null}", "{\"token\": true, \"secret\": null}", "token secret",
		0, false},
	/* a payee is shown, even if it looks like a key */
	{"{\"to\":\"" KEY "\",\"k\":\"sk-abcdefghi\",\"p\":\"a sk-mfly-0123456789 b\"}",
		"{\"to\": \"" KEY
		"\", \"k\": \"[12 bytes hidden]\", \"p\": \"a [18 bytes hidden] b\"}",
		"", 30, false},
	/* no JSON, or not all of it: text */
	{"{\"a\": 1,}", "{\"a\": 1,}", "", 0, false},
	{"{\"a\": 1, \"a\": 2,}", "{\"a\": 1, \"a\": 2,}", "", 0, false},
	{"{\"token\": \"x y\",}", "{\"token\": \"[1 bytes hidden] y\",}", "token", 1, false},
	{"{\"accessToken\":\"x\"", "{\"accessToken\":\"[1 bytes hidden]\"", "accessToken", 1, true},
	{"Authorization: Basic eDp5 z\nnext", "Authorization: [10 bytes hidden] z\nnext",
		"Authorization", 10, false},
	{"token=abc&x=1", "token=[3 bytes hidden]&x=1", "token", 3, false},
	{"memo=token:&pay_to=mallory", "memo=token:&pay_to=mallory", "", 0, false},
	{"memo=token: x&pay_to=mallory", "memo=token: [1 bytes hidden]&pay_to=mallory", "token", 1,
		false},
	{"token: 'a, \"b\n\nc", "token: '[2 bytes hidden] \"b\n\nc", "token", 2, false},
	{"author: a", "author: a", "", 0, false},
	{"secret", "secret", "", 0, false},
	{"password=", "password=", "", 0, false},
	{"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "",
		0, false},
	{"0123456789abcdef0123456789abcdef", "[32 bytes hidden]", "", 32, false},
	{"x " KEY " y", "x [26 bytes hidden] y", "", 26, false},
	{"sk-abcde", "sk-abcde", "", 0, false},
	{"sk-abcde", "[8 bytes hidden]", "", 8, true},
	{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\xff", "\xc3\xa4\xe2\x82\xac\\u{1f600}\\x{ff}", "", 0,
		false},
	{"a                                b", "a        b", "", 0, false},
	{"a\r\n\r\n\r\n\r\n\r\n\r\n\r\n\r\nb", "a\\u{d}\n\\u{d}\n\\u{d}\n\\u{d}\nb", "", 0, false},
};

static void body(struct buf *b, const char *text, size_t n, bool more, const struct intercept *i,
	struct preview *p)
{
	assert_int_equal(preview_write_body(text, n, more, i, b, p), 0);
	assert_true(memchr(buf_head(b), 0, buf_len(b)) == buf_head(b) + buf_len(b) - 1);
}

static void bodies_are_shown(void **state)
{
	struct intercept *i = fixture_intercept(fixture_rules);

	for (unsigned n = 0; n < ARRAY_SIZE(bodies); n++) {
		struct buf b = BUF_INIT(4096);
		char names[256] = "";
		struct preview p;

		body(&b, bodies[n].body, strlen(bodies[n].body), bodies[n].cut, i, &p);
		for (unsigned k = 0; k < p.name_count; k++)
			(void)strcat(strcat(names, k ? " " : ""), p.names[k]);
		assert_string_equal((const char *)buf_head(&b), bodies[n].shown);
		assert_string_equal(names, bodies[n].names);
		assert_int_equal(p.hidden, bodies[n].hidden);
		assert_true(p.cut == bodies[n].cut && !p.wrong);
		buf_done(&b);
	}
	intercept_unref(i);
}

/* Of JSON: nobody is asked about these. */
static const struct {
	const char *body;
	bool wrong;
} doubled[] = {
	{"{\"a\":1,\"a\":2}", true},
	{"{\"a\":1,\"A\":2}", true},
	{"{\"pay_to\":1,\"payTo\":2}", true},
	{"{\"a\":1,\"\\u0061\":2}", true},
	{"{\"as\":1,\"a\xc5\xbf\":2}", true},
	{"{\"k\":1,\"\xe2\x84\xaa\":2}", true},
	{"{\"x\":{\"a\":1,\"b\":{\"a\":2},\"a\":3}}", true},
	{"{\"token\":{\"a\":1,\"a\":2}}", true}, /* also where it is hidden */
	{"[{\"a\":1},{\"a\":2}]", false},
	{"{\"a\":{\"a\":{\"a\":1}}}", false},
	{"{\"a\":{\"b\":1},\"c\":{\"b\":1}}", false},
	{"{\"a\":1,\"aa\":2,\"\":3}", false},
};

static void doubled_members_are_wrong(void **state)
{
	for (unsigned n = 0; n < ARRAY_SIZE(doubled); n++) {
		struct buf b = BUF_INIT(4096);
		struct preview p;

		body(&b, doubled[n].body, strlen(doubled[n].body), false, NULL, &p);
		if ((p.wrong != NULL) != doubled[n].wrong)
			fail_msg("%s", doubled[n].body);
		buf_done(&b);
	}
}

/* Blanks do not push what counts out of sight, and what is out of sight is told. */
static void blanks_and_the_rest(void **state)
{
	static char text[300000];
	struct buf b = BUF_INIT(2048);
	struct preview p;

	memset(text, ' ', 100000);
	(void)strcpy(text + 100000, "{\"amount\":1}");
	body(&b, text, strlen(text), false, NULL, &p);
	assert_string_equal((const char *)buf_head(&b), "{\"amount\": 1}");
	assert_false(p.cut);
	buf_clear(&b);
	(void)strcpy(text + 100000, "amount=1");
	body(&b, text, strlen(text), false, NULL, &p);
	assert_string_equal((const char *)buf_head(&b), "        amount=1");
	assert_false(p.cut);
	buf_clear(&b);
	(void)strcpy(text, "{\"memo\":\"");
	memset(text + strlen(text), 'x', 3000);
	(void)strcpy(text + 3000, "\",\"amount\":1}");
	body(&b, text, strlen(text), false, NULL, &p);
	assert_true(p.cut);
	buf_done(&b);
}

static void too_many_members(void **state)
{
	struct buf text = BUF_INIT(8 << 20), b = BUF_INIT(2048);
	struct preview p;

	for (unsigned n = 0; n <= PREVIEW_MEMBERS_MAX; n++)
		(void)buf_printf(&text, "%c\"%u\":0", n ? ',' : '{', n);
	(void)buf_add_str(&text, "}");
	body(&b, (const char *)buf_head(&text), buf_len(&text), false, NULL, &p);
	assert_non_null(p.wrong);
	buf_done(&text);
	buf_done(&b);
}

/* Whatever comes, it is bounded, and printable. */
static void previews_are_bounded(void **state)
{
	static char any[2 * PREVIEW_MAX];

	for (unsigned seed = 0; seed < 2000; seed++) {
		struct buf b = BUF_INIT(100 + seed);
		uint32_t r = seed;
		struct preview p;

		for (unsigned i = 0; i < sizeof(any); i++)
			any[i] = "ab=:\"'token\\&\n0\xc3\xa4"[(r = r * 1664525 + 1013904223) >> 28];
		any[0] = seed % 2 ? '{' : any[0];
		body(&b, any, seed * 2, false, NULL, &p);
		assert_true(p.hidden <= p.bytes);
		buf_clear(&b);
		assert_true(preview_write(any, seed * 2, NULL, &b) >= 0);
		buf_done(&b);
	}
}

static void secret_headers(void **state)
{
	static const char *const yes[] = {"Authorization", "cookie", "X-Api-Key",
		"X-Amz-Security-Token", "Idempotency-Key", "x-goog-api-key", "X-Hub-Signature"};
	static const char *const no[] = {
		"X-Author", "X-Amz-Target", "Content-Type", "Authority", "X-Token-Count", "-"};

	for (unsigned i = 0; i < ARRAY_SIZE(yes); i++)
		assert_true(secret_name_is_header(yes[i]));
	for (unsigned i = 0; i < ARRAY_SIZE(no); i++)
		assert_false(secret_name_is_header(no[i]));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bodies_are_shown),
		cmocka_unit_test(doubled_members_are_wrong),
		cmocka_unit_test(blanks_and_the_rest),
		cmocka_unit_test(too_many_members),
		cmocka_unit_test(previews_are_bounded),
		cmocka_unit_test(secret_headers),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
