/* src/proto/http_response and http_proxy: what is written, and what cannot be. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proto/http_proxy.h"
#include "proto/http_response.h"

static const char *text_of(struct buf *b)
{
	assert_int_equal(buf_add_u8(b, 0), 0);
	b->end--;
	return (const char *)buf_head(b);
}

/* The same with the Date header, which changes, taken out. */
static const char *undated(struct buf *b)
{
	char *text = (char *)text_of(b), *date = strstr(text, "Date: "), *end;

	if (date) {
		end = strstr(date, "\r\n") + 2;
		assert_int_equal(end - date, 6 + 29 + 2);
		memmove(date, end, strlen(end) + 1);
	}
	return text;
}

/* --- the writer --- */

static void a_head(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	struct http_writer w = http_writer_response(&b, 201);

	http_writer_header(&w, "X-A", "b c");
	http_writer_header_n(&w, "X-B", "value", 3);
	http_writer_header_u64(&w, "Content-Length", UINT64_MAX);
	assert_int_equal(http_writer_finish(&w), 0);
	assert_string_equal(undated(&b), "HTTP/1.1 201 Created\r\nX-A: b c\r\nX-B: val\r\n"
					 "Content-Length: 18446744073709551615\r\n\r\n");
	buf_done(&b);
}

static void refuse_header(const char *name, const char *value, size_t n)
{
	struct buf b = BUF_INIT(1 << 16);
	struct http_writer w;

	assert_int_equal(buf_add_str(&b, "before"), 0);
	w = http_writer_response(&b, 200);
	http_writer_header_n(&w, name, value, n);
	http_writer_header(&w, "X-After", "fine");
	assert_int_equal(http_writer_finish(&w), -EINVAL);
	assert_string_equal(text_of(&b), "before");
	buf_done(&b);
}

static void headers_cannot_be_injected(void **state)
{
	refuse_header("A", "b\r\nSet-Cookie: x", 16);
	refuse_header("A", "b\n", 2);
	refuse_header("A", "b\r", 2);
	refuse_header("A", "b\0c", 3);
	refuse_header("A", "b\x7f", 2);
	refuse_header("A: b\r\nC", "d", 1);
	refuse_header("A ", "d", 1);
	refuse_header("", "d", 1);
	refuse_header("A\x80", "d", 1);
}

static void requests_cannot_be_injected(void **state)
{
	static const char *const bad[][2] = {{"GET", "/ HTTP/1.1\r\nX: y"}, {"GET", "/a b"},
		{"GET", ""}, {"GE T", "/"}, {"", "/"}, {"GET", "/\n"}};
	struct buf b = BUF_INIT(1 << 16);
	struct http_writer w = http_writer_request(&b, "GET", "/a?b");

	assert_int_equal(http_writer_finish(&w), 0);
	assert_string_equal(text_of(&b), "GET /a?b HTTP/1.1\r\n\r\n");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		w = http_writer_request(&b, bad[i][0], bad[i][1]);
		assert_int_equal(http_writer_finish(&w), -EINVAL);
	}
	assert_string_equal(text_of(&b), "GET /a?b HTTP/1.1\r\n\r\n");
	buf_done(&b);
}

static void a_full_buffer_is_left_as_it_was(void **state)
{
	for (size_t max = 2; max < 200; max++) {
		struct buf b = BUF_INIT(max);
		struct http_reply reply = {.status = 200, .body = "hello", .len = 5};
		int r;

		assert_int_equal(buf_add_str(&b, "x"), 0);
		r = http_reply(&b, &reply);
		if (r == 0) {
			buf_done(&b);
			return;
		}
		assert_int_equal(r, -EMSGSIZE);
		assert_int_equal(buf_len(&b), 1);
		buf_done(&b);
	}
	fail();
}

/* --- whole answers --- */

static void expect_reply(const struct http_reply *reply, const char *want)
{
	struct buf b = BUF_INIT(1 << 16);

	assert_int_equal(http_reply(&b, reply), 0);
	assert_string_equal(undated(&b), want);
	buf_done(&b);
}

static void whole_answers(void **state)
{
	const struct http_field next = {"X-Next-Token", "t"};

	expect_reply(&(struct http_reply){.status = 200,
			     .content_type = "application/json",
			     .fields = &next,
			     .field_count = 1,
			     .body = "[]",
			     .len = 2},
		"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Next-Token: t\r\n"
		"Content-Length: 2\r\n\r\n[]");
	expect_reply(&(struct http_reply){.status = 202},
		"HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n");
	expect_reply(&(struct http_reply){.status = 204, .close = true},
		"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	expect_reply(&(struct http_reply){.status = 200, .body = "x", .len = 1, .head_only = true},
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n");
	expect_reply(&(struct http_reply){.status = 299, .keep_alive_10 = true},
		"HTTP/1.1 299 \r\nConnection: keep-alive\r\nContent-Length: 0\r\n\r\n");
}

static void no_body_where_none_is_allowed(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	struct http_reply reply = {.status = 204, .body = "x", .len = 1};

	assert_int_equal(http_reply(&b, &reply), -EINVAL);
	reply.status = 304;
	assert_int_equal(http_reply(&b, &reply), -EINVAL);
	reply.status = 99;
	assert_int_equal(http_reply(&b, &reply), -EINVAL);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

static void errors_of_the_api(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	struct http_reply reply = {.status = 404};

	assert_int_equal(http_reply_error(&b, &reply, NULL, "no \"sandbox\"\n"), 0);
	assert_string_equal(undated(&b),
		"HTTP/1.1 404 Not Found\r\nContent-Type: application/json; charset=utf-8\r\n"
		"Content-Length: 41\r\n\r\n{\"code\":404,\"message\":\"no \\\"sandbox\\\"\\n\"}");
	buf_clear(&b);
	reply.status = 429;
	assert_int_equal(http_reply_error(&b, &reply, "too_many", "m"), 0);
	assert_non_null(strstr(
		text_of(&b), "{\"code\":429,\"message\":\"m\",\"error_code\":\"too_many\"}"));
	buf_done(&b);
}

static void streams_and_chunks(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	struct http_reply reply = {.status = 200, .content_type = "a/b"};
	size_t mark;

	assert_int_equal(http_reply_stream(&b, &reply, 1), 0);
	assert_string_equal(undated(&b),
		"HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nTransfer-Encoding: chunked\r\n\r\n");
	buf_clear(&b);
	assert_int_equal(http_reply_stream(&b, &reply, 0), 0);
	assert_string_equal(
		undated(&b), "HTTP/1.1 200 OK\r\nContent-Type: a/b\r\nConnection: close\r\n\r\n");
	buf_clear(&b);
	assert_int_equal(http_chunk(&b, "0123456789abcdefg", 17), 0);
	assert_int_equal(http_chunk(&b, NULL, 0), 0);
	assert_int_equal(http_chunk_begin(&b, &mark), 0);
	assert_int_equal(http_chunk_end(&b, mark), 0);
	assert_int_equal(http_chunk_begin(&b, &mark), 0);
	assert_int_equal(buf_add_str(&b, "hi"), 0);
	assert_int_equal(http_chunk_end(&b, mark), 0);
	assert_int_equal(http_chunk_last(&b), 0);
	assert_string_equal(text_of(&b), "11\r\n0123456789abcdefg\r\n00000002\r\nhi\r\n0\r\n\r\n");
	buf_clear(&b);
	assert_int_equal(http_reply_continue(&b), 0);
	assert_string_equal(text_of(&b), "HTTP/1.1 100 Continue\r\n\r\n");
	buf_done(&b);
}

/* What is written is what the parser reads. */
static void chunks_come_back(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct http_reply reply = {.status = 200};
	struct http_parser *p = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	size_t used, n, total = 0;
	char block[999];
	enum http_event event;

	memset(block, 'b', sizeof(block));
	assert_int_equal(http_reply_stream(&b, &reply, 1), 0);
	for (size_t i = 0; i < 100; i++)
		assert_int_equal(http_chunk(&b, block, i * 10), 0);
	assert_int_equal(http_chunk_last(&b), 0);
	while ((event = http_parser_next(p, buf_head(&b), buf_len(&b), &used)) != HTTP_END) {
		assert_true(event == HTTP_HEAD || event == HTTP_BODY);
		if (event == HTTP_BODY) {
			(void)http_parser_body(p, &n);
			total += n;
		}
		buf_consume(&b, used);
	}
	assert_int_equal(total, 49500);
	http_parser_free(p);
	buf_done(&b);
}

/* --- dates and ranges --- */

static void dates(void **state)
{
	char text[HTTP_DATE_BYTES];
	time_t t;

	http_date_format(784111777, text);
	assert_string_equal(text, "Sun, 06 Nov 1994 08:49:37 GMT");
	assert_int_equal(http_date_parse(text, &t), 0);
	assert_int_equal(t, 784111777);
	http_date_format(0, text);
	assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
	http_date_format(INT64_C(253402300799), text);
	assert_string_equal(text, "Fri, 31 Dec 9999 23:59:59 GMT");
	http_date_format(INT64_MAX, text);
	assert_string_equal(text, "Thu, 01 Jan 1970 00:00:00 GMT");
	assert_int_equal(http_date_parse("Mon, 06 Nov 1994 08:49:37 GMT", &t), -EINVAL);
	assert_int_equal(http_date_parse("Sun, 31 Feb 1994 08:49:37 GMT", &t), -EINVAL);
	assert_int_equal(http_date_parse("Sun, 06 Nov 1994 24:49:37 GMT", &t), -EINVAL);
	assert_int_equal(http_date_parse("Sunday, 06-Nov-94 08:49:37 GMT", &t), -EINVAL);
	assert_int_equal(http_date_parse("Sun Nov  6 08:49:37 1994", &t), -EINVAL);
	assert_int_equal(http_date_parse("", &t), -EINVAL);
}

static void ranges(void **state)
{
	static const struct {
		const char *value;
		uint64_t size;
		int r;
		uint64_t offset, len;
	} cases[] = {
		{"bytes=0-4", 10, 0, 0, 5},
		{"bytes=5-", 10, 0, 5, 5},
		{"bytes=-3", 10, 0, 7, 3},
		{"bytes=-30", 10, 0, 0, 10},
		{"bytes=9-100", 10, 0, 9, 1},
		{"bytes=0-999999999999999999", 10, 0, 0, 10},
		{"bytes=10-", 10, -ERANGE, 0, 0},
		{"bytes=0-0", 0, -ERANGE, 0, 0},
		{"bytes=-0", 10, -ERANGE, 0, 0},
		{"bytes=-5", 0, -ERANGE, 0, 0},
		{"bytes=5-4", 10, -ENOENT, 0, 0},
		{"bytes=0-1,3-4", 10, -ENOENT, 0, 0},
		{"bytes=a-b", 10, -ENOENT, 0, 0},
		{"bytes=-", 10, -ENOENT, 0, 0},
		{"lines=0-4", 10, -ENOENT, 0, 0},
		/* numbers of any length, RFC 9110 section 14.1.2 */
		{"bytes=0-9999999999999999999999", 10, 0, 0, 10},
		{"bytes=3-99999999999999999999", 10, 0, 3, 7},
		{"bytes=-99999999999999999999", 10, 0, 0, 10},
		{"bytes=9999999999999999999-", 10, -ERANGE, 0, 0},
		{"bytes=99999999999999999999-99999999999999999999", 10, -ERANGE, 0, 0},
		{"bytes=00000000000000000000002-3", 10, 0, 2, 2},
		{"bytes=99999999999999999999-4", 10, -ENOENT, 0, 0},
		{"bytes=99999999999999999999x-", 10, -ENOENT, 0, 0},
		{NULL, 10, -ENOENT, 0, 0},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t offset = 77, len = 77;
		int r = http_range(cases[i].value, cases[i].size, &offset, &len);

		assert_int_equal(r, cases[i].r);
		assert_int_equal(offset, r ? 77 : cases[i].offset);
		assert_int_equal(len, r ? 77 : cases[i].len);
	}
}

/* --- forwarding --- */

static struct http_parser *head_of(enum http_role role, const char *data)
{
	struct http_parser *p = http_parser_new(role, NULL);
	size_t used;

	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	return p;
}

static void expect_forwarded(const char *data, const struct http_forward *f, const char *want)
{
	struct http_parser *p = head_of(HTTP_ROLE_SERVER, data);
	struct buf b = BUF_INIT(1 << 16);

	assert_int_equal(http_proxy_request(&b, http_parser_head(p), f), 0);
	assert_string_equal(text_of(&b), want);
	buf_done(&b);
	http_parser_free(p);
}

static void requests_are_forwarded(void **state)
{
	static const char *const drop[] = {"x-access-token", "e2b-sandbox-id", NULL};
	const struct http_forward f = {.client = "10.0.0.9", .scheme = "http", .drop = drop};

	expect_forwarded(
		"POST http://3000-i1.x/a%2Fb?q=1 HTTP/1.1\r\nHost: y\r\nTE: trailers\r\n"
		"Connection: close, X-Secret\r\nX-Secret: s\r\nKeep-Alive: 5\r\n"
		"E2b-Sandbox-Id: i1\r\nX-Access-Token: t\r\nX-Other: o\r\n"
		"X-Forwarded-For: 6.6.6.6\r\nX-Forwarded-Proto: https\r\nForwarded: for=x\r\n"
		"Expect: 100-continue\r\nProxy-Authorization: p\r\n"
		"Transfer-Encoding: chunked\r\n\r\n",
		&f,
		"POST /a%2Fb?q=1 HTTP/1.1\r\nHost: 3000-i1.x\r\nX-Other: o\r\n"
		"Transfer-Encoding: chunked\r\nX-Forwarded-For: 10.0.0.9\r\n"
		"X-Forwarded-Proto: http\r\nX-Forwarded-Host: 3000-i1.x\r\n\r\n");
}

static void a_trusted_proxy_in_front(void **state)
{
	const struct http_forward f = {.client = "10.0.0.9",
		.scheme = "http",
		.trust_forwarded = true,
		.host = "localhost:8000"};

	expect_forwarded(
		"GET / HTTP/1.1\r\nHost: y\r\nX-Forwarded-For: 1.1.1.1, 2.2.2.2\r\n"
		"X-Forwarded-Proto: https\r\nX-Forwarded-Host: z\r\nContent-Length: 0\r\n\r\n",
		&f,
		"GET / HTTP/1.1\r\nHost: localhost:8000\r\nContent-Length: 0\r\n"
		"X-Forwarded-For: 1.1.1.1, 2.2.2.2\r\nX-Forwarded-For: 10.0.0.9\r\n"
		"X-Forwarded-Proto: https\r\nX-Forwarded-Host: z\r\n\r\n");
}

static void upgrades_are_forwarded_but_not_to_h2c(void **state)
{
	const struct http_forward f = {0};

	expect_forwarded("GET /ws HTTP/1.1\r\nHost: y\r\nConnection: keep-alive, Upgrade\r\n"
			 "Upgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\n",
		&f,
		"GET /ws HTTP/1.1\r\nHost: y\r\nSec-WebSocket-Key: k\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\nX-Forwarded-Host: y\r\n\r\n");
	expect_forwarded("GET / HTTP/1.1\r\nHost: y\r\nConnection: Upgrade, HTTP2-Settings\r\n"
			 "Upgrade: websocket, h2c\r\nHTTP2-Settings: AAA\r\n\r\n",
		&f, "GET / HTTP/1.1\r\nHost: y\r\nX-Forwarded-Host: y\r\n\r\n");
	expect_forwarded("GET / HTTP/1.0\r\n\r\n", &f, "GET / HTTP/1.1\r\nHost: \r\n\r\n");
}

static void expect_backward(const char *data, const struct http_backward *back, bool no_body,
	bool want_chunked, bool want_close, const char *want)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	struct buf b = BUF_INIT(1 << 16);
	bool chunked, close;
	size_t used;

	if (no_body)
		http_parser_expect_no_body(p);
	(void)http_parser_next(p, data, strlen(data), &used);
	assert_int_equal(http_proxy_response(&b, http_parser_head(p), back, &chunked, &close), 0);
	assert_string_equal(undated(&b), want);
	assert_int_equal(chunked, want_chunked);
	assert_int_equal(close, want_close);
	buf_done(&b);
	http_parser_free(p);
}

static void responses_are_forwarded(void **state)
{
	const struct http_backward v11 = {.client_minor = 1}, v10 = {.client_minor = 0};
	const struct http_backward head = {.client_minor = 1, .client_head = true};
	const struct http_backward last = {.client_minor = 1, .close = true};

	expect_backward(
		"HTTP/1.1 200 Fine\r\nContent-Length: 3\r\nConnection: close, X-A\r\nX-A: a\r\n"
		"Keep-Alive: x\r\nX-B: b\r\nSet-Cookie: 1\r\nSet-Cookie: 2\r\n\r\n",
		&v11, false, false, false,
		"HTTP/1.1 200 OK\r\nX-B: b\r\nSet-Cookie: 1\r\nSet-Cookie: 2\r\n"
		"Content-Length: 3\r\n\r\n");
	expect_backward("HTTP/1.1 200 OK\r\n\r\n", &v11, false, true, false,
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
	expect_backward("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", &v10, false, false,
		true, "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n");
	expect_backward("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", &v10, false, false, false,
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: keep-alive\r\n\r\n");
	expect_backward("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n", &head, true, false, false,
		"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n");
	expect_backward(
		"HTTP/1.1 200 OK\r\n\r\n", &head, true, false, false, "HTTP/1.1 200 OK\r\n\r\n");
	expect_backward("HTTP/1.1 204 x\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"
			"Content-Length: 0\r\n\r\n",
		&last, false, false, true, "HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n");
	expect_backward(
		"HTTP/1.1 101 x\r\nUpgrade: websocket\r\nConnection: upgrade\r\nX-C: c\r\n\r\n",
		&v11, false, false, false,
		"HTTP/1.1 101 Switching Protocols\r\nX-C: c\r\nConnection: Upgrade\r\n"
		"Upgrade: websocket\r\n\r\n");
	expect_backward("HTTP/1.1 103 x\r\nLink: l\r\n\r\n", &last, false, false, true,
		"HTTP/1.1 103 Early Hints\r\nLink: l\r\n\r\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_head),
		cmocka_unit_test(headers_cannot_be_injected),
		cmocka_unit_test(requests_cannot_be_injected),
		cmocka_unit_test(a_full_buffer_is_left_as_it_was),
		cmocka_unit_test(whole_answers),
		cmocka_unit_test(no_body_where_none_is_allowed),
		cmocka_unit_test(errors_of_the_api),
		cmocka_unit_test(streams_and_chunks),
		cmocka_unit_test(chunks_come_back),
		cmocka_unit_test(dates),
		cmocka_unit_test(ranges),
		cmocka_unit_test(requests_are_forwarded),
		cmocka_unit_test(a_trusted_proxy_in_front),
		cmocka_unit_test(upgrades_are_forwarded_but_not_to_h2c),
		cmocka_unit_test(responses_are_forwarded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
