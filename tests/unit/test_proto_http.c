/* src/proto/http: requests and responses, whole and split anywhere, and what must be refused. */
#include "test.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "proto/http.h"

/* --- a transcript of events, in which neighbouring BODY events are one --- */

struct transcript {
	struct buf text;
	bool in_body;
};

static void note(struct transcript *t, const char *s)
{
	if (t->in_body)
		assert_int_equal(buf_add_str(&t->text, "]"), 0);
	t->in_body = false;
	assert_int_equal(buf_add_str(&t->text, s), 0);
}

static void note_head(struct transcript *t, const struct http_parser *p, const char *what)
{
	const struct http_head *h = http_parser_head(p);
	char line[4096];

	if (h->method)
		(void)snprintf(line, sizeof(line), "%s %s %s?%s host=%s", what, h->method, h->path,
			h->query ? h->query : "-", h->host ? h->host : "-");
	else
		(void)snprintf(line, sizeof(line), "%s %u (%s)", what, h->status, h->reason);
	note(t, line);
	(void)snprintf(line, sizeof(line), " 1.%u n=%u len=%lld%s%s%s%s%s%s;", h->minor,
		h->headers.count, (long long)h->content_length, h->chunked ? " chunked" : "",
		h->has_body ? " body" : "", h->until_eof ? " eof" : "",
		h->keep_alive ? " keep" : "", h->upgrade ? " up=" : "",
		h->upgrade ? h->upgrade : "");
	note(t, line);
}

static void note_body(struct transcript *t, const struct http_parser *p)
{
	size_t n;
	const uint8_t *data = http_parser_body(p, &n);

	assert_true(n > 0);
	if (!t->in_body)
		assert_int_equal(buf_add_str(&t->text, "["), 0);
	t->in_body = true;
	assert_int_equal(buf_add(&t->text, data, n), 0);
}

static void note_error(struct transcript *t, const struct http_parser *p)
{
	char line[64];

	(void)snprintf(line, sizeof(line), "ERROR %u", http_parser_status(p));
	note(t, line);
	assert_true(http_parser_reason(p)[0] != '\0');
}

/* Feeds n bytes, from memory of just that size so that a read beyond them is found. */
static bool feed(struct http_parser *p, struct transcript *t, const char *data, size_t n)
{
	char *copy = malloc(n + !n);
	size_t at = 0, used;
	bool go_on = true;

	memcpy(copy, data, n);
	while (go_on) {
		enum http_event event = http_parser_next(p, copy + at, n - at, &used);

		at += used;
		assert_true(at <= n);
		switch (event) {
		case HTTP_MORE:
			assert_int_equal(at, n);
			free(copy);
			return true;
		case HTTP_HEAD:
			note_head(t, p, "HEAD");
			break;
		case HTTP_INTERIM:
			note_head(t, p, "INTERIM");
			break;
		case HTTP_BODY:
			note_body(t, p);
			break;
		case HTTP_END:
			note(t, "END;");
			http_parser_continue(p);
			break;
		case HTTP_UPGRADE:
			note(t, "UPGRADE;");
			http_parser_continue(p);
			break;
		default:
			note_error(t, p);
			go_on = false;
		}
	}
	free(copy);
	return false;
}

/* The transcript of these bytes, fed in pieces that end at a and b. */
static char *run(enum http_role role, const struct http_limits *limits, const char *data, size_t n,
	size_t a, size_t b, bool eof)
{
	struct http_parser *p = http_parser_new(role, limits);
	struct transcript t = {.text = BUF_INIT(1 << 20)};
	char *text;

	assert_non_null(p);
	if (feed(p, &t, data, a) && feed(p, &t, data + a, b - a) && feed(p, &t, data + b, n - b) &&
		eof) {
		enum http_event event = http_parser_eof(p);

		note(&t, event == HTTP_END ? "EOF-END" : event == HTTP_MORE ? "EOF" : "CUT");
	}
	note(&t, "");
	assert_int_equal(buf_add_u8(&t.text, 0), 0);
	text = strdup((const char *)buf_head(&t.text));
	buf_done(&t.text);
	http_parser_free(p);
	return text;
}

static void expect(enum http_role role, const char *data, size_t n, bool eof, const char *want)
{
	char *text = run(role, NULL, data, n, 0, n, eof);

	assert_string_equal(text, want);
	free(text);
	for (size_t i = 0; i <= n; i++) {
		text = run(role, NULL, data, n, i, i < n ? i + 1 : n, eof);
		assert_string_equal(text, want);
		free(text);
	}
}

static void expect_request(const char *data, const char *want)
{
	expect(HTTP_ROLE_SERVER, data, strlen(data), false, want);
}

static void expect_response(const char *data, const char *want)
{
	expect(HTTP_ROLE_CLIENT, data, strlen(data), true, want);
}

static void refuse(const char *data, unsigned status)
{
	char want[32];
	char *text;

	(void)snprintf(want, sizeof(want), "ERROR %u", status);
	for (size_t i = 0; i <= strlen(data); i++) {
		text = run(HTTP_ROLE_SERVER, NULL, data, strlen(data), i, i, false);
		if (!strstr(text, want) || strstr(text, "HEAD"))
			print_error("%s: %s\n", data, text);
		assert_non_null(strstr(text, want));
		assert_null(strstr(text, "HEAD"));
		free(text);
	}
}

/* --- what the SDKs send --- */

static const char create_head[] =
	"POST /v2/sandboxes HTTP/1.1\r\nhost: 127.0.0.1:3000\r\nconnection: keep-alive\r\n"
	"browser: unknown\r\ncontent-type: application/json\r\nlang: js\r\n"
	"lang_version: 20.20.2\r\npackage_version: 2.51.0\r\npublisher: e2b\r\n"
	"sdk_runtime: node\r\nsystem: Linux\r\nuser-agent: e2b-js-sdk/2.51.0\r\n"
	"x-api-key: e2b_0000000000000000000000000000000000000000\r\naccept: */*\r\n"
	"accept-language: *\r\nsec-fetch-mode: cors\r\naccept-encoding: gzip, deflate\r\n"
	"transfer-encoding: chunked\r\n\r\n";

static void js_create_in_two_segments(void **state)
{
	char data[2048];

	(void)snprintf(data, sizeof(data), "%s4c\r\n%s\r\n0\r\n\r\n", create_head,
		"{\"templateID\":\"base\",\"metadata\":{\"a\":\"b\"},\"envVars\":{\"X\":\"1\"},"
		"\"timeout\":120}");
	expect_request(data,
		"HEAD POST /v2/sandboxes?- host=127.0.0.1:3000 1.1 n=17 len=-1 chunked body keep;"
		"[{\"templateID\":\"base\",\"metadata\":{\"a\":\"b\"},\"envVars\":{\"X\":\"1\"},"
		"\"timeout\":120}]END;");
}

static void js_start_with_binary_body(void **state)
{
	char data[1024];
	const char *json =
		"{\"process\":{\"cmd\":\"/bin/bash\",\"args\":[\"-l\",\"-c\",\"echo hi\"]},"
		"\"stdin\":false}";
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	int n = snprintf(data, sizeof(data),
		"POST /process.Process/Start HTTP/1.1\r\nhost: 127.0.0.1:3000\r\n"
		"content-length: %zu\r\n\r\n",
		5 + strlen(json));
	size_t used, body;

	assert_int_equal(strlen(json), 74);
	memcpy(data + n, "\0\0\0\0\x4a", 5);
	memcpy(data + n + 5, json, 74);
	assert_int_equal(http_parser_next(p, data, (size_t)n + 79, &used), HTTP_HEAD);
	assert_int_equal(used, n);
	assert_int_equal(http_parser_head(p)->content_length, 79);
	assert_int_equal(http_parser_next(p, data + n, 79, &used), HTTP_BODY);
	assert_ptr_equal(http_parser_body(p, &body), data + n); /* no copy */
	assert_int_equal(body, 79);
	assert_int_equal(http_parser_next(p, NULL, 0, &used), HTTP_END);
	http_parser_free(p);
}

static void js_multipart_upload_in_chunks(void **state)
{
	expect_request("POST /files?path=%2Fhome%2Fuser%2Fa.txt HTTP/1.1\r\nhost: h\r\n"
		       "transfer-encoding: chunked\r\n\r\n"
		       "4\r\nhead\r\n5\r\nhello\r\n2\r\n\r\n\r\n4\r\ntail\r\n0\r\n\r\n",
		"HEAD POST /files?path=%2Fhome%2Fuser%2Fa.txt host=h 1.1 n=2 len=-1 chunked body "
		"keep;[headhello\r\ntail]END;");
}

/* --- requests --- */

static void pipelined_requests(void **state)
{
	expect_request("GET /a HTTP/1.1\r\nHost: x\r\n\r\n"
		       "POST /b?c HTTP/1.1\r\nHost: y\r\nContent-Length: 3\r\n\r\nabc"
		       "\r\nGET /d HTTP/1.0\r\n\r\n",
		"HEAD GET /a?- host=x 1.1 n=1 len=-1 keep;END;"
		"HEAD POST /b?c host=y 1.1 n=2 len=3 body keep;[abc]END;"
		"HEAD GET /d?- host=- 1.0 n=0 len=-1;END;");
}

static void parser_rests_until_told(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	const char *data = "GET /a HTTP/1.1\r\nHost: x\r\n\r\nGET /b";
	size_t used, n = strlen(data);

	assert_true(http_parser_idle(p));
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_HEAD);
	assert_false(http_parser_idle(p));
	data += used;
	n -= used;
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_END);
	assert_int_equal(used, 0);
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_REST);
	assert_int_equal(used, 0);
	assert_string_equal(http_parser_head(p)->path, "/a");
	http_parser_continue(p);
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_MORE);
	assert_int_equal(used, 6);
	assert_int_equal(http_parser_head_bytes(p), 6);
	assert_int_equal(http_parser_eof(p), HTTP_ERROR);
	http_parser_free(p);
}

static void targets(void **state)
{
	expect_request("GET http://h:80/a?b=c HTTP/1.1\r\nHost: other\r\n\r\n",
		"HEAD GET /a?b=c host=h:80 1.1 n=1 len=-1 keep;END;");
	expect_request("GET HTTPS://h HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD GET /?- host=h 1.1 n=1 len=-1 keep;END;");
	expect_request("GET http://h?q HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD GET /?q host=h 1.1 n=1 len=-1 keep;END;");
	expect_request("OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD OPTIONS *?- host=h 1.1 n=1 len=-1 keep;END;");
	expect_request("GET /a%2Fb?c?d=%20 HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD GET /a%2Fb?c?d=%20 host=h 1.1 n=1 len=-1 keep;END;");
	expect_request("GET /a? HTTP/1.1\r\nHost: [::1]:80\r\n\r\n",
		"HEAD GET /a? host=[::1]:80 1.1 n=1 len=-1 keep;END;");
	expect_request("GET //evil/a HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD GET //evil/a?- host=h 1.1 n=1 len=-1 keep;END;");
	refuse("GET a HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET * HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET /a#b HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET http:///a HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET http://u@h/a HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET ftp://h/a HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET /\x80 HTTP/1.1\r\nHost: h\r\n\r\n", 400);
}

static void connection_and_upgrade(void **state)
{
	expect_request("GET / HTTP/1.1\r\nHost: h\r\nConnection: foo, Close\r\n\r\n",
		"HEAD GET /?- host=h 1.1 n=2 len=-1;END;");
	expect_request("GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n",
		"HEAD GET /?- host=- 1.0 n=1 len=-1 keep;END;");
	expect_request("GET /ws HTTP/1.1\r\nHost: h\r\nConnection: keep-alive, Upgrade\r\n"
		       "Upgrade: websocket\r\n\r\n",
		"HEAD GET /ws?- host=h 1.1 n=3 len=-1 keep up=websocket;UPGRADE;");
	expect_request("GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\n\r\n",
		"HEAD GET /?- host=h 1.1 n=2 len=-1 keep;END;");
}

static void upgrade_hands_over_what_follows(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	const char *data = "GET /ws HTTP/1.1\r\nHost: h\r\nConnection: upgrade\r\n"
			   "Upgrade: websocket\r\n\r\n\x81\x05hello";
	size_t used, n = strlen(data);

	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_HEAD);
	data += used;
	n -= used;
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_UPGRADE);
	assert_int_equal(used, 0);
	assert_int_equal(n, 7);
	assert_int_equal(http_parser_next(p, data, n, &used), HTTP_REST);
	http_parser_free(p);
}

static void expectations(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	const char *data = "PUT / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\n"
			   "Content-Length: 1\r\n\r\n";
	size_t used;

	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	assert_true(http_parser_head(p)->expect_continue);
	http_parser_free(p);
	refuse("PUT / HTTP/1.1\r\nHost: h\r\nExpect: magic\r\n\r\n", 417);
}

static void header_values(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	const char *data = "GET / HTTP/1.1\r\nHost: h\r\nA:1\r\nB: \t two  words \t \r\nEmpty:\r\n"
			   "a: 2\r\nBlank: \t \r\nHigh: \xc3\xa4\xff\r\nX: x\r\n\r\n";
	const struct http_headers *h;
	unsigned i = 0;
	size_t used;

	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	h = &http_parser_head(p)->headers;
	assert_string_equal(http_header_get(h, "b"), "two  words");
	assert_string_equal(http_header_get(h, "EMPTY"), "");
	assert_string_equal(http_header_get(h, "blank"), "");
	assert_string_equal(http_header_get(h, "high"), "\xc3\xa4\xff");
	assert_string_equal(http_header_get(h, "x"), "x");
	assert_null(http_header_get(h, "missing"));
	assert_string_equal(http_header_each(h, "a", &i)->value, "1");
	assert_string_equal(http_header_each(h, "a", &i)->value, "2");
	assert_null(http_header_each(h, "a", &i));
	assert_int_equal(http_header_count(h, "A"), 2);
	http_parser_free(p);
}

/* --- smuggling and other malformed requests --- */

#define HEAD_LINES "POST / HTTP/1.1\r\nHost: h\r\n"

static void two_lengths_are_refused(void **state)
{
	refuse(HEAD_LINES "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	refuse(HEAD_LINES "Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 3\r\nContent-Length: 4\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 3\r\nContent-Length: 3\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 3, 3\r\n\r\n", 400);
}

static void malformed_lengths_are_refused(void **state)
{
	refuse(HEAD_LINES "Content-Length: +3\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: -1\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 0x3\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 3 4\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length:\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 99999999999999999999\r\n\r\n", 400);
	refuse(HEAD_LINES "Content-Length: 9223372036854775808\r\n\r\n", 400);
}

static void unknown_transfer_codings_are_refused(void **state)
{
	refuse(HEAD_LINES "Transfer-Encoding: gzip, chunked\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding: gzip\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding: identity\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding: xchunked\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding: \"chunked\"\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding:\r\n\r\n", 501);
	refuse(HEAD_LINES "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	refuse(HEAD_LINES "Transfer-Encoding: chunked, chunked\r\n\r\n", 400);
	refuse(HEAD_LINES "Transfer-Encoding : chunked\r\n\r\n", 400);
	refuse("POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", 400);
	expect_request(HEAD_LINES "Transfer-Encoding: \tChunked \r\n\r\n0\r\n\r\n",
		"HEAD POST /?- host=h 1.1 n=2 len=-1 chunked body keep;END;");
}

static void lines_must_end_in_crlf(void **state)
{
	refuse("GET / HTTP/1.1\nHost: h\n\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\nA: b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA: b\rC: d\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\n\rX: y\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\n\n", 400);
	refuse("GET / HTTP/1.1\r\r\nHost: h\r\n\r\n", 400);
	refuse("\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
}

static void folded_and_malformed_headers_are_refused(void **state)
{
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n c\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA: b\r\n\tc\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\n Host: h\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\n \r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA : b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\n: b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA\x80: b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA(b): c\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA: b\x01\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: h\r\nA: b\x7f\r\n\r\n", 400);
}

static void nul_is_refused(void **state)
{
	static const char data[] = "GET / HTTP/1.1\r\nHost: h\r\nA: b\0c\r\n\r\n";
	char *text = run(HTTP_ROLE_SERVER, NULL, data, sizeof(data) - 1, 0, 0, false);

	assert_string_equal(text, "ERROR 400");
	free(text);
}

static void exactly_one_host(void **state)
{
	refuse("GET / HTTP/1.1\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400);
	refuse("GET / HTTP/1.0\r\nHost: a\r\nHost: b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: a b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", 400);
	refuse("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400);
	refuse("GET http://a/ HTTP/1.1\r\n\r\n", 400);
}

static void request_lines(void **state)
{
	refuse("GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET /  HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET / HTTP/1.1 \r\nHost: h\r\n\r\n", 400);
	refuse(" GET / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET\t/ HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET /\r\n\r\n", 400);
	refuse("GET\r\n\r\n", 400);
	refuse("GET / ICE/1.0\r\nHost: h\r\n\r\n", 400);
	refuse("GET / http/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("GET / HTTP/1.2\r\nHost: h\r\n\r\n", 505);
	refuse("GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505);
	refuse("GET / HTTP/1.10\r\nHost: h\r\n\r\n", 505);
	refuse("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505);
	refuse("BREW /pot HTTP/1.1\r\nHost: h\r\n\r\n", 501);
	refuse("get / HTTP/1.1\r\nHost: h\r\n\r\n", 501);
	refuse("CONNECT a:1 HTTP/1.1\r\nHost: a:1\r\n\r\n", 501);
	refuse("DESCRIBE / HTTP/1.1\r\nHost: h\r\n\r\n", 501);
	refuse("SOURCE / HTTP/1.1\r\nHost: h\r\n\r\n", 501);
	refuse("G(T / HTTP/1.1\r\nHost: h\r\n\r\n", 400);
	refuse("\x16\x03\x01\x02", 400); /* TLS on the plain port, at its first byte */
}

static void malformed_chunks(void **state)
{
	static const char *const bodies[] = {
		"\r\n",
		"g\r\n",
		"-1\r\n",
		"+1\r\nx",
		"0x1\r\nx",
		" 1\r\nx",
		"1 \r\nx",
		"1\nx",
		"1\r\nxy\r\n",
		"1\r\nx\n",
		"1\r\nx\rY",
		"1\rx",
		"1;a=b\nx",
		"1;a\x01\r\nx",
		"10000000000000000\r\n",
		"0\r\n X: y\r\n\r\n",
		"0\r\nX y\r\n\r\n",
		"0\r\n: y\r\n\r\n",
		"0\r\nX: y\n\r\n",
		"0\r\nX: y\rz",
		"0\r\n\rX",
		"0\n\n",
		"0\r\nX: \x01\r\n\r\n",
		";a\r\n",
	};
	char data[256];

	for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
		(void)snprintf(data, sizeof(data),
			HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n%s", bodies[i]);
		for (size_t cut = 0; cut <= strlen(data); cut++) {
			char *text =
				run(HTTP_ROLE_SERVER, NULL, data, strlen(data), cut, cut, false);

			if (!strstr(text, "ERROR 400"))
				print_error("%s: %s\n", bodies[i], text);
			assert_non_null(strstr(text, "ERROR 400"));
			free(text);
		}
	}
}

static void chunk_extensions_and_trailers_are_dropped(void **state)
{
	expect_request(HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n"
				  "3;name=\"va lue\"\r\nabc\r\n00;x\r\nContent-Length: 5\r\n"
				  "X-Y:\r\n\r\nGET /n HTTP/1.1\r\nHost: h\r\n\r\n",
		"HEAD POST /?- host=h 1.1 n=2 len=-1 chunked body keep;[abc]END;"
		"HEAD GET /n?- host=h 1.1 n=1 len=-1 keep;END;");
}

/* --- limits --- */

static char *run_limited(struct http_limits limits, const char *data)
{
	return run(HTTP_ROLE_SERVER, &limits, data, strlen(data), strlen(data) / 2, strlen(data),
		false);
}

static void expect_limited(struct http_limits limits, const char *data, const char *want)
{
	char *text = run_limited(limits, data);

	if (!strstr(text, want))
		print_error("%s\n", text);
	assert_non_null(strstr(text, want));
	free(text);
}

static void limits_of_the_head(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	const char *data = "GET /0123456789 HTTP/1.1\r\nHost: h\r\nA: b\r\n\r\n";

	limits.head_max = strlen(data);
	limits.headers_max = 2;
	limits.target_max = 11;
	expect_limited(limits, data, "END;");
	limits.head_max--;
	expect_limited(limits, data, "ERROR 431");
	limits.head_max = 10; /* less than the usual first allocation */
	expect_limited(limits, "GET / HTTP/1.1\r\n", "ERROR 431");
	limits.head_max = 1000;
	limits.headers_max = 1;
	expect_limited(limits, data, "ERROR 431");
	limits.headers_max = 2;
	limits.target_max = 10;
	expect_limited(limits, data, "ERROR 414");
}

static void a_head_of_64_kib_and_100_headers(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	char *text;

	assert_int_equal(buf_add_str(&b, "GET / HTTP/1.1\r\nHost: h\r\n"), 0);
	for (unsigned i = 1; i < 100; i++)
		assert_int_equal(buf_printf(&b, "X-%u: %0640u\r\n", i, i), 0);
	assert_int_equal(buf_add_str(&b, "\r\n"), 0);
	assert_true(buf_len(&b) < 65536);
	text = run(
		HTTP_ROLE_SERVER, NULL, (const char *)buf_head(&b), buf_len(&b), 1000, 2000, false);
	assert_string_equal(text, "HEAD GET /?- host=h 1.1 n=100 len=-1 keep;END;");
	free(text);
	buf_done(&b);
}

static void an_endless_target_is_414(void **state)
{
	size_t n = 20000;
	char *data = malloc(n), *text;

	memset(data, 'a', n);
	memcpy(data, "GET /", 5);
	text = run(HTTP_ROLE_SERVER, NULL, data, n, 100, 10000, false);
	assert_string_equal(text, "ERROR 414");
	free(text);
	free(data);
}

static void limits_of_the_body(void **state)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;

	limits.body_max = 3;
	expect_limited(limits, HEAD_LINES "Content-Length: 3\r\n\r\nabc", "[abc]END;");
	expect_limited(limits, HEAD_LINES "Content-Length: 4\r\n\r\nabcd", "ERROR 413");
	expect_limited(limits,
		HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1\r\nc\r\n"
			   "0\r\n\r\n",
		"[abc]END;");
	expect_limited(limits, HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n2\r\ncd",
		"[ab]ERROR 413");
	limits.chunk_line_max = 8;
	expect_limited(
		limits, HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n1;abcdef\r\n", "ERROR 400");
	limits.chunk_line_max = 100;
	limits.extensions_max = 5;
	expect_limited(limits,
		HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n1;abc\r\nx\r\n1;abc\r\n",
		"[x]ERROR 400");
	limits.trailer_max = 10;
	expect_limited(limits, HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n0\r\nX: 67890\r\n\r\n",
		"ERROR 431");
}

static void the_limit_of_one_body(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	const char *data = HEAD_LINES "Content-Length: 1000\r\n\r\n";
	size_t used;

	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	http_parser_limit_body(p, 999);
	assert_int_equal(http_parser_next(p, NULL, 0, &used), HTTP_ERROR);
	assert_int_equal(http_parser_status(p), 413);
	assert_int_equal(http_parser_next(p, "x", 1, &used), HTTP_ERROR);
	http_parser_free(p);
}

static void cut_off_requests(void **state)
{
	static const char *const cut[] = {"GET /", HEAD_LINES,
		HEAD_LINES "Content-Length: 2\r\n\r\nx",
		HEAD_LINES "Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"};

	for (size_t i = 0; i < sizeof(cut) / sizeof(cut[0]); i++) {
		char *text = run(HTTP_ROLE_SERVER, NULL, cut[i], strlen(cut[i]), 0, 0, true);

		assert_non_null(strstr(text, "CUT"));
		free(text);
	}
	expect(HTTP_ROLE_SERVER, "", 0, true, "EOF");
	expect(HTTP_ROLE_SERVER, "\r\n", 2, true, "EOF");
}

/* --- responses --- */

static void responses(void **state)
{
	expect_response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
		"HEAD 200 (OK) 1.1 n=1 len=3 body keep;[abc]END;EOF");
	expect_response("HTTP/1.1 200\r\nContent-Length: 0\r\n\r\n",
		"HEAD 200 () 1.1 n=1 len=0 keep;END;EOF");
	expect_response("HTTP/1.1 200 \r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n",
		"HEAD 200 () 1.1 n=1 len=-1 chunked body keep;[a]END;EOF");
	expect_response("HTTP/1.1 404 Not \xc3\xa4 Found\r\n\r\nuntil the end",
		"HEAD 404 (Not \xc3\xa4 Found) 1.1 n=0 len=-1 body eof;[until the end]EOF-END");
	expect_response("HTTP/1.0 200 OK\r\n\r\n", "HEAD 200 (OK) 1.0 n=0 len=-1 body eof;EOF-END");
	expect_response(
		"HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 304 x\r\nContent-Length: 9\r\n\r\n",
		"HEAD 204 (No Content) 1.1 n=0 len=-1 keep;END;HEAD 304 (x) 1.1 n=1 len=9 "
		"keep;END;EOF");
	expect_response("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na",
		"HEAD 200 (OK) 1.1 n=2 len=1 body;[a]END;EOF");
}

static void interim_responses(void **state)
{
	expect_response("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
			"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
		"INTERIM 100 (Continue) 1.1 n=0 len=-1 keep;INTERIM 103 (Early Hints) 1.1 n=1 "
		"len=-1 keep;HEAD 200 (OK) 1.1 n=1 len=1 body keep;[a]END;EOF");
	expect_response(
		"HTTP/1.1 100 Continue\r\n\r\n", "INTERIM 100 (Continue) 1.1 n=0 len=-1 keep;CUT");
}

static void endless_interim_responses_are_refused(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	char *text;

	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(buf_add_str(&b, "HTTP/1.1 100 C\r\n\r\n"), 0);
	text = run(HTTP_ROLE_CLIENT, NULL, (const char *)buf_head(&b), buf_len(&b), 0, 0, false);
	assert_non_null(strstr(text, "ERROR 502"));
	free(text);
	buf_done(&b);
}

static void switching_protocols(void **state)
{
	expect_response(
		"HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"HEAD 101 (Switching) 1.1 n=2 len=-1 keep up=websocket;UPGRADE;EOF");
	expect_response("HTTP/1.1 426 No\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
			"Content-Length: 0\r\n\r\n",
		"HEAD 426 (No) 1.1 n=3 len=0 keep up=h2c;END;EOF");
}

static void response_to_head_has_no_body(void **state)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	const char *data = "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n";
	size_t used;

	for (unsigned i = 0; i < 2; i++) {
		http_parser_expect_no_body(p);
		assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
		assert_int_equal(http_parser_head(p)->content_length, 100);
		assert_false(http_parser_head(p)->has_body);
		assert_int_equal(http_parser_next(p, NULL, 0, &used), HTTP_END);
		http_parser_continue(p);
	}
	http_parser_free(p);
}

static void hostile_responses(void **state)
{
	static const char *const bad[] = {"HTTP/2 200\r\n\r\n", "HTTP/1.1 20 x\r\n\r\n",
		"HTTP/1.1 099 x\r\n\r\n", "HTTP/1.1 2000 x\r\n\r\n", "HTTP/1.1  200 x\r\n\r\n",
		"ICY 200 OK\r\n\r\n", "hello\r\n\r\n", "\r\nHTTP/1.1 200 OK\r\n\r\n",
		"HTTP/1.1 200 OK\nA: b\n\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
		"HTTP/1.1 204 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 101 Switching\r\n\r\n", "HTTP/1.1 200 O\rK\r\n\r\n",
		"HTTP/1.1 200 OK\r\nSet-Cookie: a\r\n b\r\n\r\n", "HTTP/1.1 200 O\x01K\r\n\r\n"};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		for (size_t cut = 0; cut <= strlen(bad[i]); cut++) {
			char *text = run(
				HTTP_ROLE_CLIENT, NULL, bad[i], strlen(bad[i]), cut, cut, false);

			if (strcmp(text, "ERROR 502") != 0)
				print_error("%s: %s\n", bad[i], text);
			assert_string_equal(text, "ERROR 502");
			free(text);
		}
	expect_response("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
		"HEAD 200 (OK) 1.1 n=1 len=3 body keep;[ab]CUT");
}

/* --- values of headers --- */

static struct http_headers one_header(struct http_header *f, const char *name, const char *value)
{
	*f = (struct http_header){name, value, strlen(name), strlen(value)};
	return (struct http_headers){.items = f, .count = 1};
}

static void lists_and_tokens(void **state)
{
	struct http_header f;
	struct http_headers h = one_header(&f, "Connection", " , a ,\"b,c\" d,, Upgrade;x=1 ,");
	const char *cursor = f.value, *item;
	size_t n;

	assert_true(http_list_next(&cursor, &item, &n));
	assert_memory_equal(item, "a", n);
	assert_true(http_list_next(&cursor, &item, &n));
	assert_int_equal(n, 7);
	assert_memory_equal(item, "\"b,c\" d", n);
	assert_true(http_list_next(&cursor, &item, &n));
	assert_false(http_list_next(&cursor, &item, &n));
	assert_true(http_header_has_token(&h, "connection", "upgrade"));
	assert_false(http_header_has_token(&h, "connection", "b"));
	cursor = "\"never closed, \\";
	assert_true(http_list_next(&cursor, &item, &n));
	assert_false(http_list_next(&cursor, &item, &n));
}

static void accepted_encodings(void **state)
{
	static const struct {
		const char *value;
		unsigned gzip, identity;
	} cases[] = {
		{"gzip, deflate", 1000, 1000},
		{"gzip", 1000, 1000},
		{"", 0, 1000},
		{"GZIP;q=0.5, identity;q=0", 500, 0},
		{"*;q=0", 0, 0},
		{"*", 1000, 1000},
		{"gzip;q=1, *;q=0", 1000, 0},
		{"gzip; q=0.123", 123, 1000},
		{"gzip;x=1;q=0", 0, 1000},
		{"gzip;q=2", 1000, 1000},
		{"gzip;q=", 1000, 1000},
		{"gzip;q=1.5", 1000, 1000},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct http_header f;
		struct http_headers h = one_header(&f, "Accept-Encoding", cases[i].value);

		assert_int_equal(http_encoding_weight(&h, "gzip"), cases[i].gzip);
		assert_int_equal(http_encoding_weight(&h, "identity"), cases[i].identity);
	}
}

static void content_types_and_parameters(void **state)
{
	char out[8];

	assert_true(http_content_type_is("application/JSON ; charset=utf-8", "application/json"));
	assert_false(http_content_type_is("application/jsonx", "application/json"));
	assert_false(http_content_type_is(NULL, "application/json"));
	assert_int_equal(http_parameter("a/b; x=1; Y=\"q\\\"z\"", "y", out, sizeof(out)), 3);
	assert_string_equal(out, "q\"z");
	assert_int_equal(http_parameter("a/b;x=1", "x", out, sizeof(out)), 1);
	assert_int_equal(http_parameter("a/b;;x=1;", "y", out, sizeof(out)), -ENOENT);
	assert_int_equal(http_parameter("a/b", "y", out, sizeof(out)), -ENOENT);
	assert_int_equal(http_parameter("a/b;x=12345678", "x", out, sizeof(out)), -EMSGSIZE);
	assert_int_equal(http_parameter("a/b;x=\"1", "x", out, sizeof(out)), -EINVAL);
	assert_int_equal(http_parameter("a/b;x=1;x=2", "x", out, sizeof(out)), -EINVAL);
	assert_int_equal(http_parameter("a/b;x", "x", out, sizeof(out)), -EINVAL);
	assert_int_equal(http_parameter("a/b;x=\"1\"2", "x", out, sizeof(out)), -EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(js_create_in_two_segments),
		cmocka_unit_test(js_start_with_binary_body),
		cmocka_unit_test(js_multipart_upload_in_chunks),
		cmocka_unit_test(pipelined_requests),
		cmocka_unit_test(parser_rests_until_told),
		cmocka_unit_test(targets),
		cmocka_unit_test(connection_and_upgrade),
		cmocka_unit_test(upgrade_hands_over_what_follows),
		cmocka_unit_test(expectations),
		cmocka_unit_test(header_values),
		cmocka_unit_test(two_lengths_are_refused),
		cmocka_unit_test(malformed_lengths_are_refused),
		cmocka_unit_test(unknown_transfer_codings_are_refused),
		cmocka_unit_test(lines_must_end_in_crlf),
		cmocka_unit_test(folded_and_malformed_headers_are_refused),
		cmocka_unit_test(nul_is_refused),
		cmocka_unit_test(exactly_one_host),
		cmocka_unit_test(request_lines),
		cmocka_unit_test(malformed_chunks),
		cmocka_unit_test(chunk_extensions_and_trailers_are_dropped),
		cmocka_unit_test(limits_of_the_head),
		cmocka_unit_test(a_head_of_64_kib_and_100_headers),
		cmocka_unit_test(an_endless_target_is_414),
		cmocka_unit_test(limits_of_the_body),
		cmocka_unit_test(the_limit_of_one_body),
		cmocka_unit_test(cut_off_requests),
		cmocka_unit_test(responses),
		cmocka_unit_test(interim_responses),
		cmocka_unit_test(endless_interim_responses_are_refused),
		cmocka_unit_test(switching_protocols),
		cmocka_unit_test(response_to_head_has_no_body),
		cmocka_unit_test(hostile_responses),
		cmocka_unit_test(lists_and_tokens),
		cmocka_unit_test(accepted_encodings),
		cmocka_unit_test(content_types_and_parameters),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
