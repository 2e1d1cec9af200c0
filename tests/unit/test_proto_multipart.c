/* src/proto/multipart: what the SDKs send, split anywhere, and what must be refused. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/multipart.h"

#define TYPE "multipart/form-data; boundary=b"

/* A transcript: {name|filename|type} for a part, its data, and '}' at its end, '.' at the end. */
static bool feed(struct multipart *m, const char *data, size_t n, struct buf *out)
{
	char *copy = malloc(n + !n);
	enum multipart_event event;
	size_t at = 0, used, len;

	memcpy(copy, data, n);
	do {
		const struct multipart_part *part = multipart_part(m);
		const uint8_t *bytes;

		event = multipart_next(m, copy + at, n - at, &used);
		at += used;
		assert_true(at <= n);
		switch (event) {
		case MULTIPART_PART:
			assert_int_equal(
				buf_printf(out, "{%s|%s|%s:", part->name ? part->name : "-",
					part->filename ? part->filename : "-",
					part->content_type ? part->content_type : "-"),
				0);
			break;
		case MULTIPART_DATA:
			bytes = multipart_data(m, &len);
			assert_true(len > 0);
			assert_int_equal(buf_add(out, bytes, len), 0);
			break;
		case MULTIPART_PART_END:
			assert_int_equal(buf_add_str(out, "}"), 0);
			break;
		case MULTIPART_END:
			assert_int_equal(buf_add_str(out, "."), 0);
			break;
		default:
			break;
		}
	} while (event != MULTIPART_MORE && event != MULTIPART_ERROR);
	if (event == MULTIPART_MORE)
		assert_int_equal(at, n);
	free(copy);
	return event == MULTIPART_MORE;
}

static char *run(const char *type, const char *data, size_t n, size_t a, size_t b)
{
	struct buf out = BUF_INIT(1 << 20);
	struct multipart *m;
	char *text;

	assert_int_equal(multipart_new(type, 3, &m), 0);
	if (!feed(m, data, a, &out) || !feed(m, data + a, b - a, &out) ||
		!feed(m, data + b, n - b, &out) || multipart_finish(m) == MULTIPART_ERROR) {
		assert_int_equal(buf_add_str(&out, "ERROR"), 0);
		assert_true(multipart_reason(m)[0] != '\0');
		assert_int_equal(multipart_finish(m), MULTIPART_ERROR);
	}
	assert_int_equal(buf_add_u8(&out, 0), 0);
	text = strdup((const char *)buf_head(&out));
	buf_done(&out);
	multipart_free(m);
	return text;
}

static void expect_n(const char *type, const char *data, size_t n, const char *want)
{
	for (size_t a = 0; a <= n; a++)
		for (size_t b = a; b <= n; b += 1 + (b - a) / 4) {
			char *text = run(type, data, n, a, b);

			if (strcmp(text, want) != 0)
				print_error("%zu %zu\n", a, b);
			assert_string_equal(text, want);
			free(text);
		}
}

static void expect(const char *data, const char *want)
{
	expect_n(TYPE, data, strlen(data), want);
}

#define PART "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"a\"\r\n\r\n"

/* --- what is accepted --- */

static void js_upload(void **state)
{
	static const char data[] =
		"------formdata-undici-024326289751\r\n"
		"Content-Disposition: form-data; name=\"file\"; filename=\"/home/user/a.txt\"\r\n"
		"Content-Type: application/octet-stream\r\n\r\nhello\r\n"
		"------formdata-undici-024326289751--\r\n";

	expect_n("multipart/form-data; boundary=----formdata-undici-024326289751", data,
		sizeof(data) - 1, "{file|/home/user/a.txt|application/octet-stream:hello}.");
}

static void several_parts_and_an_empty_one(void **state)
{
	expect(PART "one\r\n" PART "\r\n--b\r\nContent-Type: x/y\r\n\r\nthree\r\n--b--",
		"{file|a|-:one}{file|a|-:}{-|-|x/y:three}.");
	expect("--b--", ".");
	expect("--b\r\n\r\nno headers\r\n--b--\r\n", "{-|-|-:no headers}.");
}

static void preamble_epilogue_and_padding(void **state)
{
	expect("preamble\r\n-\r\n--\r\n--c\r\n" PART "x\r\n--b-- \t\r\nepilogue\r\n--b\r\n",
		"{file|a|-:x}.");
	expect("--b\r\nContent-Disposition: form-data; filename=\"a\x01\t\x7f\"\r\n\r\nx\r\n--b--",
		"{-|a\x01\t\x7f|-:x}.");
	expect("--b \t \r\nA: b\r\n\r\nx\r\n--b  \r\n\r\ny\r\n--b--", "{-|-|-:x}{-|-|-:y}.");
}

static void data_that_looks_like_a_boundary(void **state)
{
	expect(PART "\r\r\n\r\n-\r\n--\r\n--a\r\n-\r\r--b\n--b\r\n--B--\r\n--b--",
		"{file|a|-:\r\r\n\r\n-\r\n--\r\n--a\r\n-\r\r--b\n--b\r\n--B--}.");
	expect(PART "\r\n\r\n--b--", "{file|a|-:\r\n}.");
	expect(PART "\r\r\n--b--", "{file|a|-:\r}.");
}

static void binary_data(void **state)
{
	char data[1024], want[1024];
	int n = snprintf(data, sizeof(data), "%s", PART);
	char *text;

	for (int i = 1; i < 256; i++)
		data[n++] = (char)i;
	memcpy(data + n, "\r\n--b--", 7);
	memcpy(want, "{file|a|-:", 10);
	memcpy(want + 10, data + n - 255, 255);
	strcpy(want + 265, "}.");
	for (size_t a = 0; a <= (size_t)n + 7; a++) {
		text = run(TYPE, data, (size_t)n + 7, a, (size_t)n + 7);
		assert_string_equal(text, want);
		free(text);
	}
}

static void data_is_not_copied(void **state)
{
	const char *data = PART "hello\r\n--b--";
	struct multipart *m;
	size_t used, at, n;

	assert_int_equal(multipart_new(TYPE, 0, &m), 0);
	assert_int_equal(multipart_next(m, data, strlen(data), &at), MULTIPART_PART);
	assert_int_equal(multipart_next(m, data + at, strlen(data) - at, &used), MULTIPART_DATA);
	assert_ptr_equal(multipart_data(m, &n), data + at);
	assert_int_equal(n, 5);
	multipart_free(m);
}

static void file_names(void **state)
{
	static const char *const cases[][2] = {
		{"name=\"file\"; filename=\"/home/user/dir/a b.txt\"",
			"{file|/home/user/dir/a b.txt|"},
		{"name=file;filename=a.txt", "{file|a.txt|"},
		{"NAME=\"f\"; FileName=\"a\\\"b\\\\c\"", "{f|a\"b\\c|"},
		{"name=\"f\"; filename=\"C:\\dir\\x\"", "{f|C:\\dir\\x|"},
		{"name=\"f\"; filename=\"a;b=c\"", "{f|a;b=c|"},
		{"name=\"f\"; filename=\"%22\xc3\xa4\"", "{f|%22\xc3\xa4|"},
		{"name=\"f\"; filename=\"x\"; filename*=UTF-8''%e2%82%ac%20/a",
			"{f|\xe2\x82\xac /a|"},
		{"name=\"f\"; filename*=utf-8'en'b; filename=\"x\"", "{f|b|"},
		{"name=\"f\"; filename=\"x\"; filename*=iso-8859-1''%e4", "{f|x|"},
		{"name=\"f\"; filename=\"x\"; filename*=UTF-8''%00", "{f|x|"},
		{"name=\"f\"; filename=\"\"", "{f||"},
		{"name=\"f\"", "{f|-|"},
		{"filename=\"x\" ; other=1;", "{-|x|"},
	};
	char data[512], want[128];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		(void)snprintf(data, sizeof(data),
			"--b\r\ncontent-disposition:form-data; %s \r\n\r\nx\r\n--b--", cases[i][0]);
		(void)snprintf(want, sizeof(want), "%s-:x}.", cases[i][1]);
		expect(data, want);
	}
}

static void boundaries_of_content_types(void **state)
{
	static const char *const bad[] = {"multipart/form-data", "multipart/mixed; boundary=b",
		"multipart/form-data; boundary=", "multipart/form-data; boundary=\"\"",
		"multipart/form-data; boundary=\"a \"",
		"multipart/form-data; boundary=a; boundary=b", "multipart/form-data; boundary=\"a",
		"text/plain", "",
		("multipart/form-data; boundary="
		 "01234567890123456789012345678901234567890123456789012345678901234567890")};
	struct multipart *m;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(multipart_new(bad[i], 0, &m), -EINVAL);
	assert_int_equal(multipart_new(NULL, 0, &m), -EINVAL);
	expect_n("Multipart/Form-Data; charset=x; Boundary=\"a b'()+,-./:=?\"",
		"--a b'()+,-./:=?\r\n\r\nx\r\n--a b'()+,-./:=?--", 41, "{-|-|-:x}.");
}

/* --- what is refused --- */

static void refuse_n(const char *data, size_t n)
{
	for (size_t a = 0; a <= n; a++) {
		char *text = run(TYPE, data, n, a, n);

		if (!strstr(text, "ERROR"))
			print_error("%s: %s\n", data, text);
		assert_non_null(strstr(text, "ERROR"));
		free(text);
	}
}

static void missing_last_boundary(void **state)
{
	const char *data = PART "x\r\n--b--";

	for (size_t n = 0; n < strlen(data); n++)
		refuse_n(data, n);
	refuse_n("", 0);
	refuse_n("no boundary at all", 18);
}

static void malformed_forms(void **state)
{
	static const char with_nul[] = "--b\r\nA: b\0c\r\n\r\nx\r\n--b--";
	static const char *const bad[] = {
		"--bX\r\n\r\nx\r\n--b--",
		"--b\n\r\nx\r\n--b--",
		"--b\rX\n\r\nx\r\n--b--",
		"--b-X",
		"--b -",
		"--b\r\nA: b\n\r\n",
		"--b\r\nA: b\r\n c\r\n\r\nx\r\n--b--",
		"--b\r\nA : b\r\n\r\nx\r\n--b--",
		"--b\r\nno colon\r\n\r\nx\r\n--b--",
		"--b\r\n: b\r\n\r\nx\r\n--b--",
		"--b\r\nA: b\rc\r\n\r\nx\r\n--b--",
		"--b\r\n\rX\r\n\r\nx\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"x\r\n\r\nx\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name\r\n\r\nx\r\n--b--",
		"--b\r\nContent-Disposition: form-data; name=\"x\\\r\n\r\nx\r\n--b--",
		PART "1\r\n" PART "2\r\n" PART "3\r\n" PART "too many\r\n--b--",
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		refuse_n(bad[i], strlen(bad[i]));
	refuse_n(with_nul, sizeof(with_nul) - 1);
}

static void too_much_of_everything(void **state)
{
	size_t n = 40000;
	char *data = malloc(n), *text;

	memset(data, 'x', n);
	text = run(TYPE, data, n, 100, 200); /* a preamble */
	assert_string_equal(text, "ERROR");
	free(text);
	memcpy(data, "--b\r\nA: ", 8);
	text = run(TYPE, data, n, 100, 30000); /* a header */
	assert_string_equal(text, "ERROR");
	free(text);
	for (size_t i = 5; i + 6 <= n; i += 6)
		memcpy(data + i, "A: b\r\n", 6);
	text = run(TYPE, data, n, 100, 30000); /* many headers */
	assert_string_equal(text, "ERROR");
	free(text);
	memset(data + 3, ' ', n - 3);
	text = run(TYPE, data, n, 100, 30000); /* padding */
	assert_string_equal(text, "ERROR");
	free(text);
	free(data);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(js_upload),
		cmocka_unit_test(several_parts_and_an_empty_one),
		cmocka_unit_test(preamble_epilogue_and_padding),
		cmocka_unit_test(data_that_looks_like_a_boundary),
		cmocka_unit_test(binary_data),
		cmocka_unit_test(data_is_not_copied),
		cmocka_unit_test(file_names),
		cmocka_unit_test(boundaries_of_content_types),
		cmocka_unit_test(missing_last_boundary),
		cmocka_unit_test(malformed_forms),
		cmocka_unit_test(too_much_of_everything),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
