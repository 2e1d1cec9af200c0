/* Forms that replace the method of their request: their fields, as many servers read them, and the
 * headers that make a body a form. */
#include "test.h"

#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/http_headers.h"
#include "rules/call.h"
#include "rules/form.h"

#define PART "--b\r\nContent-Disposition: form-data; "
#define REST "\r\n\r\nDELETE\r\n--b--\r\n"

/* Fields alone: test_rules has those that are in queries, too. */
static const char *const replacing[] = {
	"[_method]x=PUT", "\xef\xbb\xbf_method=PUT", "_method=DELETE", "a=1&_method=PUT",
	"a=1;%5fMETHOD=PUT", "[_method]=DELETE", "x-http-method-override=PUT",
	PART "name=\"_method\"" REST, PART "name=_method" REST, PART "name='_method'" REST,
	PART "NAME = \"_Method\"" REST, PART "name=\"\\_me\\thod\"" REST,
	PART "name=\"%5Fmethod\"" REST, PART "name=\"_method[]\"" REST,
	PART "name=\"[_method]\"" REST, PART "name=\".method\"" REST,
	PART "name=\"_method\"; filename=\"a\"" REST, PART "filename=\"a\"; name=_method;" REST,
	PART "name*=utf-8''%5Fmethod" REST, PART "name*0=_met; name*1=hod" REST,
	PART "name=\"=?utf-8?Q?=5Fmethod?=\"" REST, PART "\r\n name=\"_method\"" REST,
	PART "\r\nname=\"_method\"" REST, PART "x\n\nname=\"_method\"" REST,
	PART "name=\"X-HTTP-Method-Override\"" REST,
	"--b\ncontent-disposition: form-data; name=\"_method\"\n\nDELETE\n--b--",
	"--b\r\nContent-Type: text/plain\r\nContent-Disposition: form-data; name=\"_method\"" REST,
	"--b\r\nContent-ID: _method" REST,
	PART "name=\"a\"\r\n\r\n1\r\n" PART "name=\"_method\"" REST,
	PART "name=\"a\"\r\n\r\n1--b\r\nContent-Disposition: form-data; name=\"_method\"" REST,
	"Content-Disposition: form-data; name=\"_method\"", /* cut off */
};

static const char *const others[] = {
	"",
	"method=DELETE",
	"a=_method&b=_method=",
	"{\"_method\": \"DELETE\"}",
	PART "name=\"method\"" REST,
	PART "name=\"a_method\"" REST,
	PART "name=\"_methods\"" REST,
	PART "name=\"_method[a]\"" REST,
	PART "name=\"file\"; filename=\"_method\"" REST,
	PART "name=\"file\"; filename*=utf-8''_method" REST,
	PART "name=\"file\"; filename=\"=?utf-8?B?eA==?=\"" REST,
	PART "name=\"a\"\r\n\r\n<input name=\"_method\" value=\"put\">\r\n--b--\r\n",
	PART "name=\"_method_of_payment\"" REST,
	PART "name=\"a\"\r\nContent-ID: <_methods@host>" REST,
	"\r\n\r\nname=\"_method\"\r\n\r\n",
};

static void fields_of_forms(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(replacing); i++)
		if (!form_has_method(replacing[i], strlen(replacing[i])))
			fail_msg("not found: %s", replacing[i]);
	for (size_t i = 0; i < ARRAY_SIZE(others); i++)
		if (form_has_method(others[i], strlen(others[i])))
			fail_msg("found: %s", others[i]);
}

/* A body has any bytes, and its end is where it ends. */
static void bytes_of_forms(void **state)
{
	static const char zeros[] = "a\0b=1&\0x=2&_method\0=3";
	static const char cut[] = "_methods=1";

	assert_true(form_has_method(zeros, sizeof(zeros) - 1));
	assert_false(form_has_method(zeros, 10));
	assert_false(form_has_method(cut, 6));
	assert_true(form_has_method(cut, 7));
	for (size_t i = 0; i < ARRAY_SIZE(replacing); i++) {
		size_t n = strlen(replacing[i]);

		for (size_t part = 0; part <= n; part++) {
			char *copy = malloc(part + 1); /* so that a sanitizer sees its end */

			assert_non_null(copy);
			memcpy(copy, replacing[i], part);
			(void)form_has_method(copy, part);
			free(copy);
		}
	}
}

/* No body takes long. */
static void hard_forms(void **state)
{
	static const char *const pieces[] = {"[", "&", "]", "%5B", "_method]", "name", "name ",
		"name=", "name=\"", "content-id", "content-id:", "content-disposition",
		"Content-ID\r\n\r\n", "c"};
	char *body = malloc(CALL_BODY_MAX);

	assert_non_null(body);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		size_t n = strlen(pieces[i]), all = CALL_BODY_MAX - CALL_BODY_MAX % n;
		uint64_t begin = clock_monotonic_ns();

		for (size_t at = 0; at < all; at += n)
			memcpy(body + at, pieces[i], n);
		memcpy(body, "content-id", 10);
		(void)form_has_method(body, all);
		if (clock_monotonic_ns() - begin > 10 * NS_PER_S)
			fail_msg("%s", pieces[i]);
	}
	free(body);
}

static struct http_headers headers_of(
	struct http_header items[2], const char *name, const char *value)
{
	items[0] = (struct http_header){"host", "a.test", 4, 6};
	items[1] = (struct http_header){name, value, strlen(name), strlen(value)};
	return (struct http_headers){items, 2};
}

static void types_of_forms(void **state)
{
	static const struct {
		const char *type;
		bool likely, hidden;
	} rows[] = {
		{"application/x-www-form-urlencoded", true, false},
		{"Application/X-WWW-Form-Urlencoded; charset=UTF-8", true, false},
		{"application/x-www-form-urlencoded; charset=\"iso-8859-1\"", true, false},
		{"application/x-www-form-urlencoded; charset=utf-16", true, true},
		{"application/x-www-form-urlencoded; charset=utf-8; charset=ibm037", true, true},
		{"multipart/form-data; boundary=b", true, false},
		{"multipart/mixed; boundary=b", true, false},
		{"text/plain, multipart/form-data; boundary=b", true, false},
		{"", true, false},
		{"application/json", false, false},
		{"application/octet-stream", false, false},
	};
	struct http_header items[2];

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct http_headers h = headers_of(items, "Content-Type", rows[i].type);

		if (form_is_likely(&h) != rows[i].likely || form_is_hidden(&h) != rows[i].hidden)
			fail_msg("%s", rows[i].type);
	}
	assert_true(form_is_likely(&(struct http_headers){items, 1}));
	assert_true(form_is_likely(NULL));
}

static void codings_of_forms(void **state)
{
	struct http_header items[2];
	struct http_headers h = headers_of(items, "content-encoding", "gzip");

	assert_true(form_is_hidden(&h));
	h = headers_of(items, "content_encoding", "br");
	assert_true(form_is_hidden(&h));
	h = headers_of(items, "content-encoding", "Identity");
	assert_false(form_is_hidden(&h));
	assert_false(form_is_hidden(NULL));
}

static bool read_form(const struct http_headers *h, const char *body, size_t n, size_t piece)
{
	struct call_reader *r = call_reader_new(CALL_FORM, "/", h);
	bool more = true, two;

	assert_non_null(r);
	for (size_t at = 0; at < n && more; at += piece)
		more = call_reader_feed(r, body + at, n - at < piece ? n - at : piece);
	two = call_reader_end(r)->two_methods;
	assert_true(more || two);
	call_reader_free(r);
	return two;
}

static void forms_are_read_in_pieces(void **state)
{
	struct http_header items[2];
	struct http_headers packed = headers_of(items, "content-encoding", "gzip");

	for (size_t piece = 1; piece < 200; piece += 7) {
		for (size_t i = 0; i < ARRAY_SIZE(replacing); i++)
			assert_true(read_form(NULL, replacing[i], strlen(replacing[i]), piece));
		for (size_t i = 0; i < ARRAY_SIZE(others); i++)
			assert_false(read_form(NULL, others[i], strlen(others[i]), piece));
	}
	assert_true(read_form(&packed, "a=1", 3, 3));
}

static void large_forms(void **state)
{
	char *body = malloc(CALL_BODY_MAX + 1);

	assert_non_null(body);
	memset(body, 'a', CALL_BODY_MAX + 1);
	assert_false(read_form(NULL, body, CALL_BODY_MAX, 60000));
	assert_true(read_form(NULL, body, CALL_BODY_MAX + 1, 60000));
	memcpy(body + CALL_BODY_MAX - 9, "&_method=", 9);
	assert_true(read_form(NULL, body, CALL_BODY_MAX, 60000));
	free(body);
}

/* A body that is read as JSON, too, may be unclear as that long before the form ends. */
static void forms_beside_models(void **state)
{
	static const char body[] = "a=1&_method=PUT";
	struct call_reader *r = call_reader_new(CALL_FORM | CALL_ANTHROPIC, "/v1/messages", NULL);

	assert_non_null(r);
	assert_true(call_reader_feed(r, body, 4));
	assert_true(call_reader_feed(r, body + 4, sizeof(body) - 5));
	assert_non_null(call_reader_end(r)->unclear);
	assert_true(call_reader_end(r)->two_methods);
	call_reader_free(r);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(fields_of_forms),
		cmocka_unit_test(bytes_of_forms),
		cmocka_unit_test(hard_forms),
		cmocka_unit_test(types_of_forms),
		cmocka_unit_test(codings_of_forms),
		cmocka_unit_test(forms_are_read_in_pieces),
		cmocka_unit_test(large_forms),
		cmocka_unit_test(forms_beside_models),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
