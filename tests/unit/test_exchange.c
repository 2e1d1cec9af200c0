/* HTTP/1.1 of intercepted connections: what is refused, what goes to the server, what comes
 * back. */
#include "test.h"

#include <stdlib.h>

#include "exchange_fixture.h"
#include "base/cleanup.h"
#include "proto/base64.h"

static void feed(struct fixture *f, enum exchange_side from, const char *text, size_t piece)
{
	assert_int_equal(fixture_feed(f, from, text, strlen(text), piece), strlen(text));
}

/* --- requests that are refused, and the server hears nothing --- */

#define HOST "Host: plain.test\r\n"

static const struct refused_row {
	const char *request;
	unsigned status;
} refused[] = {
	/* framing that two readers understand differently */
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5\r\nContent-Length: 6\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5, 5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: +5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: -5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 0x5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5a\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 5 5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length:\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length: 99999999999999999999\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Content-Length : 5\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding : chunked\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: gzip, chunked\r\n\r\n", 501},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, chunked\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: chunked, identity\r\n\r\n", 400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: identity\r\n\r\n", 501},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding: xchunked\r\n\r\n", 501},
	{"POST / HTTP/1.1\r\n" HOST
	 "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer-Encoding:\x0b"
	 "chunked\r\n\r\n",
		400},
	{"POST / HTTP/1.1\r\n" HOST "Transfer_Encoding: chunked\r\nContent-Length: 3 \x01\r\n\r\n",
		400},
	{"POST / HTTP/1.0\r\n" HOST "Transfer-Encoding: chunked\r\n\r\n", 400},
	/* lines */
	{"GET / HTTP/1.1\nHost: plain.test\n\n", 400},
	{"GET / HTTP/1.1\r\nHost: plain.test\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A: b\rC: d\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A: b\r\n c\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A: b\r\n\tc\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n " HOST "\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A: b\x7f\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A: \x01\r\n\r\n", 400},
	/* names */
	{"GET / HTTP/1.1\r\n" HOST ": b\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A b: c\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A\tb: c\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A(b): c\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "A\xc3\xa4: c\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "no colon\r\n\r\n", 400},
	/* the request line */
	{"GET  / HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET /  HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET / HTTP/1.1 \r\n" HOST "\r\n", 400},
	{"GET\t/\tHTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET /a b HTTP/1.1\r\n" HOST "\r\n", 400},
	{" GET / HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET /\r\n" HOST "\r\n", 400},
	{"GET /#part HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET plain.test/ HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET * HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET / HTTP/2.0\r\n" HOST "\r\n", 505},
	{"GET / HTTP/1.2\r\n" HOST "\r\n", 505},
	{"GET / http/1.1\r\n" HOST "\r\n", 400},
	{"GET / HTTP/1.0\r\n" HOST "\r\n", 505},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
	{"G@T / HTTP/1.1\r\n" HOST "\r\n", 400},
	{"BREW / HTTP/1.1\r\n" HOST "\r\n", 501},
	{"CONNECT plain.test:443 HTTP/1.1\r\n" HOST "\r\n", 501},
	/* for whom it is */
	{"GET / HTTP/1.1\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST HOST "\r\n", 400},
	{"GET / HTTP/1.1\r\n" HOST "Host: evil.test\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: api.test\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: a.plain.test\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test.\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.tes\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test:80\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test:8443\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test:\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test:x\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: plain.test:443:443\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost:\r\n\r\n", 421},
	{"GET / HTTP/1.1\r\nHost: user@plain.test\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\nHost: plain.test, evil.test\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\nHost: plain.test/x\r\n\r\n", 400},
	{"GET / HTTP/1.1\r\nHost: [::1]\r\n\r\n", 421},
	{"GET https://evil.test/ HTTP/1.1\r\n" HOST "\r\n", 421},
	{"GET https://plain.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
	{"GET https://plain.test@evil.test/ HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET http://plain.test/ HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET ftp://plain.test/ HTTP/1.1\r\n" HOST "\r\n", 400},
	{"GET //evil.test/ HTTP/1.1\r\nHost: evil.test\r\n\r\n", 421},
	/* the rest */
	{"GET / HTTP/1.1\r\n" HOST "Expect: 200-maybe\r\n\r\n", 417},
	{"GET /denied HTTP/1.1\r\n" HOST "\r\n", 403},
	{"GET /denied?even=so HTTP/1.1\r\n" HOST "\r\n", 403},
	{"GET https://plain.test/denied HTTP/1.1\r\n" HOST "\r\n", 403},
	{"POST /denied HTTP/1.1\r\n" HOST "Content-Length: 3\r\n\r\nabc", 403},
};

static void refuse_one(const struct refused_row *row, size_t piece)
{
	char begin[20], no_pass[] = "GET /smuggled HTTP/1.1\r\n" HOST "\r\n";
	struct fixture f;
	unsigned status = 0;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	f.denied = "/denied";
	(void)fixture_feed(&f, EXCHANGE_GUEST, row->request, strlen(row->request), piece);
	assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 0);
	(void)sscanf(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 %u ", &status);
	if (status != row->status)
		fail_msg("%s: %u instead of %u", row->request, status, row->status);
	(void)snprintf(begin, sizeof(begin), " %u denied ", row->status);
	assert_non_null(strstr(fixture_log(&f), begin));
	/* What comes behind is answered by itself, or not at all. */
	if (exchange_state(f.x) == EXCHANGE_GOING) {
		feed(&f, EXCHANGE_GUEST, no_pass, piece);
		assert_memory_equal(buf_head(&f.out[EXCHANGE_SERVER]), no_pass, 23);
	} else {
		assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
		(void)fixture_feed(&f, EXCHANGE_GUEST, no_pass, strlen(no_pass), piece);
		assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 0);
	}
	fixture_close(&f);
}

static void bad_requests_are_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(refused); i++) {
		refuse_one(&refused[i], SIZE_MAX);
		refuse_one(&refused[i], 1);
	}
}

/* --- requests that pass, and how --- */

static const struct passed_row {
	const char *host;
	uint16_t port;
	const char *request, *forwarded;
} passed[] = {
	{"plain.test", 443, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443, "GET /a?b=c HTTP/1.1\r\nhOST: PLAIN.test:443\r\n\r\n",
		"GET /a?b=c HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 8443, "GET / HTTP/1.1\r\nHost: plain.test:8443\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test:8443\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 8443, "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test:8443\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443, "GET https://plain.test/a?b HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET /a?b HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443, "GET https://plain.test?q HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET /?q HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443, "OPTIONS * HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"OPTIONS * HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443, "\r\nGET / HTTP/1.1\r\nHost: plain.test\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	/* a rule's header takes the place of all that the guest sent */
	{"plain.test", 443,
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX-Fixed: no\r\nA: b\r\nx-FIXED: no\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nA: b\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443,
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: x-fixed, close\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\nConnection: close\r\n\r\n"},
	/* what is for one connection only */
	{"plain.test", 443,
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: keep-alive, a\r\nA: b\r\n"
		"Keep-Alive: 5\r\nTE: trailers\r\nTrailer: x\r\nProxy-Connection: close\r\n"
		"Proxy-Authorization: Basic eDp5\r\nHTTP2-Settings: AA\r\nB: c\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nB: c\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443,
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade, HTTP2-Settings\r\n"
		"Upgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n"},
	{"plain.test", 443,
		"GET / HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: "
		"WebSocket\r\n"
		"Sec-WebSocket-Extensions: permessage-deflate\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nSec-WebSocket-Extensions: "
		"permessage-deflate\r\n"
		"x-fixed: yes\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"},
	{"plain.test", 443,
		"POST / HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n"
		"Content-Length: 1\r\n\r\nx",
		"POST / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\nContent-Length: "
		"1\r\n\r\nx"},
	/* bodies */
	{"plain.test", 443, "POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 0\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\nContent-Length: 0\r\n\r\n"},
	{"plain.test", 443,
		"POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 30\r\n\r\n"
		"GET / HTTP/1.1\r\nHost: evil\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\nContent-Length: 30\r\n\r\n"
		"GET / HTTP/1.1\r\nHost: evil\r\n\r\n"},
	{"plain.test", 443,
		"POST / HTTP/1.1\r\nHost: plain.test\r\nTransfer-Encoding: Chunked\r\n\r\n"
		"3;x=y\r\nabc\r\n0\r\nX-Fixed: no\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\nTransfer-Encoding: "
		"chunked\r\n\r\n"
		"3\r\nabc\r\n0\r\n\r\n"},
	/* secrets */
	{"api.test", 443, "GET / HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer mine\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.test\r\nAuthorization: Bearer " RULE_SECRET "\r\n"
		"x-fixed: yes\r\naccept-encoding: identity\r\n\r\n"},
	{"api.test", 443,
		"GET / HTTP/1.1\r\nHost: api.test\r\nAccept-Encoding: gzip, br\r\n"
		"Sec-WebSocket-Extensions: x\r\nX-Key: a" PLACEHOLDER "b" PLACEHOLDER "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: api.test\r\nX-Key: a" HELD_SECRET "b" HELD_SECRET "\r\n"
		"Authorization: Bearer " RULE_SECRET "\r\nx-fixed: yes\r\n"
		"accept-encoding: identity\r\n\r\n"},
	{"held.test", 443, "GET / HTTP/1.1\r\nHost: held.test\r\nX: " PLACEHOLDER "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: held.test\r\nX: " HELD_SECRET "\r\n"
		"accept-encoding: identity\r\n\r\n"},
	/* "user:sk-mfly-0123456789" and "user:sk-real-5up3r5ecret" */
	{"held.test", 443,
		"GET / HTTP/1.1\r\nHost: held.test\r\n"
		"Authorization: Basic dXNlcjpzay1tZmx5LTAxMjM0NTY3ODk=\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: held.test\r\n"
		"Authorization: Basic dXNlcjpzay1yZWFsLTV1cDNyNWVjcmV0\r\n"
		"accept-encoding: identity\r\n\r\n"},
	{"held.test", 443,
		"GET / HTTP/1.1\r\nHost: held.test\r\nAuthorization: basic  dXNlcjpwYXNz\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: held.test\r\nAuthorization: basic  dXNlcjpwYXNz\r\n"
		"accept-encoding: identity\r\n\r\n"},
	{"held.test", 443, "GET / HTTP/1.1\r\nHost: held.test\r\nAuthorization: Basic !!!\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: held.test\r\nAuthorization: Basic !!!\r\n"
		"accept-encoding: identity\r\n\r\n"},
	/* a placeholder of another host stays one, and so it does in paths and bodies */
	{"held.test", 443,
		"GET /" PLACEHOLDER
		" HTTP/1.1\r\nHost: held.test\r\nX: sk-mfly-another-host\r\n\r\n",
		"GET /" PLACEHOLDER " HTTP/1.1\r\nHost: held.test\r\nX: sk-mfly-another-host\r\n"
		"accept-encoding: identity\r\n\r\n"},
	{"plain.test", 443, "GET / HTTP/1.1\r\nHost: plain.test\r\nX: " PLACEHOLDER "\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: plain.test\r\nX: " PLACEHOLDER "\r\nx-fixed: yes\r\n\r\n"},
};

static void pass_one(const struct passed_row *row, size_t piece)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, row->host, row->port));
	feed(&f, EXCHANGE_GUEST, row->request, piece);
	assert_int_equal(exchange_state(f.x), EXCHANGE_GOING);
	assert_int_equal(buf_len(&f.out[EXCHANGE_GUEST]), 0);
	if (piece > 1 || !strstr(row->request, "hunked"))
		assert_string_equal(fixture_sent(&f, EXCHANGE_SERVER), row->forwarded);
	fixture_close(&f);
}

static void good_requests_pass(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(passed); i++) {
		pass_one(&passed[i], SIZE_MAX);
		pass_one(&passed[i], 1);
	}
}

/* --- answers --- */

static const struct answer_row {
	const char *method, *host, *answer, *to_guest, *log;
	bool ends; /* the server closes behind it */
} answers[] = {
	{"GET", "plain.test", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nA: b\r\n\r\nhi",
		"HTTP/1.1 200 OK\r\nA: b\r\nContent-Length: 2\r\n\r\nhi",
		"GET / 200 allowed 0 2\n"},
	{"GET", "plain.test",
		"HTTP/1.1 200 Fine\r\nTransfer-Encoding: chunked\r\nTrailer: x\r\n\r\n"
		"2\r\nhi\r\n0\r\nX: y\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n00000002\r\nhi\r\n0\r\n\r\n",
		"GET / 200 allowed 0 2\n"},
	{"GET", "plain.test", "HTTP/1.0 200 OK\r\n\r\nall of it",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
		"00000009\r\nall of it\r\n0\r\n\r\n",
		"GET / 200 allowed 0 9\n", true},
	{"GET", "plain.test", "HTTP/1.1 204 No Content\r\nAlt-Svc: h3=\":443\"\r\n\r\n",
		"HTTP/1.1 204 No Content\r\n\r\n", "GET / 204 allowed 0 0\n"},
	{"GET", "plain.test", "HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
		"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n",
		"GET / 304 allowed 0 0\n"},
	{"HEAD", "plain.test", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n", "HEAD / 200 allowed 0 0\n"},
	{"HEAD", "plain.test", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
		"HEAD / 200 allowed 0 0\n"},
	{"GET", "plain.test",
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close, a\r\nA: b\r\n\r\n",
		"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
		"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n",
		"GET / 200 allowed 0 0\n"},
	/* secrets that come back */
	{"GET", "api.test",
		"HTTP/1.1 200 OK\r\nX: a" HELD_SECRET "b" RULE_SECRET
		"\r\nContent-Length: 42\r\n\r\n"
		"{\"" HELD_SECRET "\":\"" RULE_SECRET "}",
		"HTTP/1.1 200 OK\r\nX: a" HELD_SCRUBBED "b" RULE_SCRUBBED
		"\r\nContent-Length: 42\r\n\r\n"
		"{\"" HELD_SCRUBBED "\":\"" RULE_SCRUBBED "}",
		"GET / 200 allowed 0 42 rule\n"},
	{"GET", "held.test", "HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nsk-realsk-real-5up3r",
		"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nsk-realsk-real-5up3r",
		"GET / 200 allowed 0 20\n"},
	{"GET", "held.test", "HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\n\r\n" HELD_SECRET,
		"HTTP/1.1 200 OK\r\nContent-Encoding: identity\r\nTransfer-Encoding: chunked\r\n"
		"Connection: close\r\n\r\n00000001\r\ns\r\n00000012\r\nk-mfly-0123456789*"
		"\r\n0\r\n\r\n",
		"GET / 200 allowed 0 19\n", true},
	{"GET", "plain.test",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nzz",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nzz",
		"GET / 200 allowed 0 2\n"},
	{"HEAD", "held.test",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n",
		"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n",
		"HEAD / 200 allowed 0 0\n"},
};

static void answer_one(const struct answer_row *row, size_t piece)
{
	char request[128];
	struct fixture f;

	(void)snprintf(request, sizeof(request), "%s / HTTP/1.1\r\nHost: %s\r\n\r\n", row->method,
		row->host);
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, row->host, 443));
	feed(&f, EXCHANGE_GUEST, request, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, row->answer, piece);
	if (row->ends)
		exchange_receive_end(f.x, EXCHANGE_SERVER);
	fixture_drain(&f);
	if (piece > 1)
		assert_string_equal(fixture_sent(&f, EXCHANGE_GUEST), row->to_guest);
	assert_null(strstr(fixture_sent(&f, EXCHANGE_GUEST), HELD_SECRET));
	assert_null(strstr(fixture_sent(&f, EXCHANGE_GUEST), RULE_SECRET));
	assert_string_equal(fixture_log(&f), row->log);
	if (strstr(row->to_guest, "Connection: close"))
		assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	else
		assert_int_equal(exchange_state(f.x), EXCHANGE_GOING);
	fixture_close(&f);
}

static void answers_pass(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(answers); i++) {
		answer_one(&answers[i], SIZE_MAX);
		answer_one(&answers[i], 1);
	}
}

static const char *const bad_answers[] = {
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
	"HTTP/1.1 200 OK\nContent-Length: 5\n\n",
	"HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\r\n",
	"HTTP/2 200 OK\r\n\r\n",
	"ICY 200 OK\r\n\r\n",
	"HTTP/1.1 2000 OK\r\n\r\n",
	"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
	"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: websocket\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\n",
	"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Encoding: identity\r\n\r\n",
};

static void bad_answers_are_502(void **state)
{
	struct fixture f;

	for (size_t i = 0; i < ARRAY_SIZE(bad_answers); i++) {
		assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
		feed(&f, EXCHANGE_GUEST, "GET / HTTP/1.1\r\nHost: held.test\r\n\r\n", SIZE_MAX);
		(void)fixture_feed(
			&f, EXCHANGE_SERVER, bad_answers[i], strlen(bad_answers[i]), SIZE_MAX);
		assert_memory_equal(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 502 ", 13);
		assert_string_equal(fixture_log(&f), "GET / 502 failed 0 0\n");
		assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
		fixture_close(&f);
	}
}

/* --- several requests --- */

static const char get[] = "GET / HTTP/1.1\r\nHost: plain.test\r\n\r\n";
static const char got[] = "GET / HTTP/1.1\r\nHost: plain.test\r\nx-fixed: yes\r\n\r\n";
static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

static void each_request_of_a_connection_is_judged(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	f.denied = "/denied";
	for (unsigned i = 0; i < 3; i++) {
		feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
		feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	}
	feed(&f, EXCHANGE_GUEST, "GET /denied HTTP/1.1\r\nHost: plain.test\r\n\r\n", SIZE_MAX);
	f.asked = "/asked";
	feed(&f, EXCHANGE_GUEST, "GET /asked?x=/ HTTP/1.1\r\nHost: plain.test\r\n\r\n", SIZE_MAX);
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	feed(&f, EXCHANGE_GUEST, "GET / HTTP/1.1\r\nHost: evil.test\r\n\r\n", SIZE_MAX);
	assert_string_equal(fixture_log(&f),
		"GET / 200 allowed 0 2\nGET / 200 allowed 0 2\nGET / 200 allowed 0 2\n"
		"GET /denied 403 denied 0 0\nGET /asked 403 denied 0 0\nGET / 200 allowed 0 2\nGET "
		"/ 421 denied 0 0\n");
	assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 4 * strlen(got));
	fixture_close(&f);
}

static void a_pipelined_request_waits(void **state)
{
	struct fixture f;
	char two[2 * sizeof(get)];

	(void)snprintf(two, sizeof(two), "%s%s", get, get);
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	assert_int_equal(fixture_feed(&f, EXCHANGE_GUEST, two, strlen(two), SIZE_MAX), strlen(get));
	assert_false(exchange_wants(f.x, EXCHANGE_GUEST));
	assert_string_equal(fixture_sent(&f, EXCHANGE_SERVER), got);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	assert_true(exchange_wants(f.x, EXCHANGE_GUEST));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 2 * strlen(got));
	fixture_close(&f);
}

static void new_rules_are_for_new_requests(void **state)
{
	struct intercept *other = fixture_intercept(
		"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"hosts\": [{\"host\": "
		"\"*.test\", \"headers\": [{\"name\": \"x-new\", \"value\": \"1\"}]}]}");
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	exchange_set_intercept(f.x, other);
	intercept_unref(other);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	assert_non_null(strstr(fixture_sent(&f, EXCHANGE_SERVER), "x-new: 1"));
	fixture_close(&f);
}

/* A server that answers at once and does not read the rest would take it for a new request. */
static void an_early_answer_ends_the_connection(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST,
		"POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 100\r\n\r\nab", SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	buf_clear(&f.out[EXCHANGE_SERVER]);
	(void)fixture_feed(&f, EXCHANGE_GUEST, get, strlen(get), SIZE_MAX);
	assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 0);
	assert_string_equal(fixture_log(&f), "POST / 200 allowed 2 2\n");
	fixture_close(&f);
}

static void expect_is_answered_here(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST,
		"PUT / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 2\r\nExpect: "
		"100-continue\r\n\r\n",
		SIZE_MAX);
	assert_string_equal(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 100 Continue\r\n\r\n");
	assert_null(strstr(fixture_sent(&f, EXCHANGE_SERVER), "xpect"));
	feed(&f, EXCHANGE_GUEST, "ab", SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	assert_string_equal(fixture_log(&f), "PUT / 200 allowed 2 2\n");
	fixture_close(&f);
}

/* --- websockets --- */

static void websockets_pass_bytes_after_101(void **state)
{
	static const char frames[] = "\x81\x13" HELD_SECRET "\x81\x02hi";
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	feed(&f, EXCHANGE_GUEST,
		"GET /ws HTTP/1.1\r\nHost: held.test\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\n",
		SIZE_MAX);
	assert_false(exchange_wants(f.x, EXCHANGE_GUEST)); /* not before the answer */
	feed(&f, EXCHANGE_SERVER,
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
		"Sec-WebSocket-Accept: x\r\n\r\n\x81\x05"
		"hello",
		SIZE_MAX);
	assert_string_equal(fixture_sent(&f, EXCHANGE_GUEST),
		"HTTP/1.1 101 Switching Protocols\r\nSec-WebSocket-Accept: x\r\n"
		"Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x81\x05"
		"hello");
	buf_clear(&f.out[EXCHANGE_GUEST]);
	feed(&f, EXCHANGE_SERVER, frames, 1);
	assert_string_equal(
		fixture_sent(&f, EXCHANGE_GUEST), "\x81\x13" HELD_SCRUBBED "\x81\x02hi");
	buf_clear(&f.out[EXCHANGE_GUEST]);
	feed(&f, EXCHANGE_SERVER,
		"\x81\x04"
		"sk-r\x81\x04"
		"a b",
		SIZE_MAX); /* a message that is whole, and one that is not */
	assert_string_equal(fixture_sent(&f, EXCHANGE_GUEST), "\x81\x04"
							      "sk-r\x81\x04"
							      "a ");
	assert_false(exchange_is_quiet(f.x));
	feed(&f, EXCHANGE_GUEST, "GET / HTTP/1.1\r\n\r\n", SIZE_MAX); /* bytes like any others */
	exchange_receive_end(f.x, EXCHANGE_GUEST);
	assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	assert_string_equal(fixture_log(&f), "GET /ws 101 allowed 18 43\n");
	fixture_close(&f);
}

static void a_refused_websocket_is_an_answer(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST,
		"GET /ws HTTP/1.1\r\nHost: plain.test\r\nConnection: Upgrade\r\nUpgrade: "
		"websocket\r\n\r\n",
		SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	assert_string_equal(fixture_log(&f), "GET /ws 200 allowed 0 2\nGET / 200 allowed 0 2\n");
	fixture_close(&f);
}

/* --- secrets that are not there, servers that are not --- */

static void unknown_secrets_are_502(void **state)
{
	static const char *const hosts[] = {"unknown.test", "tokens.test", "lines.test"};
	char request[64];
	struct fixture f;

	for (size_t i = 0; i < ARRAY_SIZE(hosts); i++) {
		(void)snprintf(
			request, sizeof(request), "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", hosts[i]);
		assert_true(fixture_open(&f, EXCHANGE_HTTP1, hosts[i], 443));
		feed(&f, EXCHANGE_GUEST, request, SIZE_MAX);
		assert_memory_equal(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 502 ", 13);
		assert_null(strstr(fixture_sent(&f, EXCHANGE_GUEST), "line end\r"));
		assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 0);
		assert_string_equal(fixture_log(&f), "GET / 502 denied 0 0\n");
		fixture_close(&f);
	}
}

/* There may be more secrets than an integer has bits. */
static void a_late_secret_is_recorded_alone(void **state)
{
	struct buf rules = BUF_INIT(1 << 20);
	struct intercept *i;
	struct fixture f;

	(void)buf_add_str(
		&rules, "{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"secrets\": [");
	for (unsigned n = 0; n < INTERCEPT_SECRETS_MAX; n++)
		(void)buf_printf(&rules, "%s{\"name\": \"s%u\", \"value\": \"value-%u\"}",
			n ? "," : "", n, n);
	(void)buf_printf(&rules,
		"], \"hosts\": [{\"host\": \"plain.test\", \"headers\": ["
		"{\"name\": \"a\", \"value\": \"${e2b.secrets.s70} ${e2b.secrets.s383}\"}]}]}%c",
		0);
	i = fixture_intercept((const char *)buf_head(&rules));
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	exchange_set_intercept(f.x, i);
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, "HTTP/1.1 204 No Content\r\n\r\n", SIZE_MAX);
	assert_string_equal(fixture_log(&f), "GET / 204 allowed 0 0 s70 s383\n");
	fixture_close(&f);
	intercept_unref(i);
	buf_done(&rules);
}

static void a_server_that_cannot_be_had_is_502(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	exchange_fail_server(f.x, "the server's certificate has expired");
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	assert_memory_equal(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 502 ", 13);
	assert_non_null(strstr(fixture_sent(&f, EXCHANGE_GUEST), "certificate has expired\n"));
	assert_int_equal(buf_len(&f.out[EXCHANGE_SERVER]), 0);
	fixture_close(&f);

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	exchange_fail_server(f.x, "gone");
	fixture_drain(&f);
	assert_string_equal(fixture_log(&f), "GET / 502 failed 0 0\n");
	assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	fixture_close(&f);
}

/* A server may also tell the credentials as they came. */
static void credentials_do_not_come_back(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 38\r\n\r\n"
				     "Basic dXNlcjpzay1yZWFsLTV1cDNyNWVjcmV0";
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	feed(&f, EXCHANGE_GUEST,
		"GET / HTTP/1.1\r\nHost: held.test\r\n"
		"Authorization: Basic dXNlcjpzay1tZmx5LTAxMjM0NTY3ODk=\r\n\r\n",
		SIZE_MAX);
	assert_non_null(strstr(
		fixture_sent(&f, EXCHANGE_SERVER), "Basic dXNlcjpzay1yZWFsLTV1cDNyNWVjcmV0\r\n"));
	feed(&f, EXCHANGE_SERVER, answer, 1);
	assert_non_null(strstr(fixture_sent(&f, EXCHANGE_GUEST),
		"\r\n\r\nBasic dXNlcj**************************"));
	fixture_close(&f);
}

/* A connection with many of them ends behind an answer, and within one that has very many. */
static void many_secrets_in_answers_end_the_connection(void **state)
{
	static const char one[] = "HTTP/1.1 200 OK\r\nContent-Length: 19\r\n\r\n" HELD_SECRET;
	static const char held[] = "GET / HTTP/1.1\r\nHost: held.test\r\n\r\n";
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	for (unsigned i = 0; i < EXCHANGE_SAID_MAX; i++) {
		assert_int_equal(exchange_state(f.x), EXCHANGE_GOING);
		feed(&f, EXCHANGE_GUEST, held, SIZE_MAX);
		feed(&f, EXCHANGE_SERVER, one, SIZE_MAX);
	}
	assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	assert_non_null(strstr(exchange_reason(f.x), "64 secrets"));
	fixture_close(&f);

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	feed(&f, EXCHANGE_GUEST, held, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, "HTTP/1.1 200 OK\r\n\r\n", SIZE_MAX);
	for (unsigned i = 0; i < EXCHANGE_SAID_CUT; i++) {
		assert_int_equal(exchange_state(f.x), EXCHANGE_GOING);
		feed(&f, EXCHANGE_SERVER, HELD_SECRET "\n", SIZE_MAX);
	}
	assert_int_equal(exchange_state(f.x), EXCHANGE_FAILED);
	assert_string_equal(fixture_log(&f), "GET / 200 reset 0 5120\n");
	fixture_close(&f);
}

static void add_credentials(struct buf *request, const char *name, const char *user, size_t padding)
{
	struct buf plain = BUF_INIT(1 << 20);
	char *text = calloc(1, 64 << 10);

	(void)buf_printf(&plain, "%s:" PLACEHOLDER, user);
	for (size_t i = 0; i < padding; i++)
		(void)buf_add_str(&plain, "x");
	base64_encode(text, buf_head(&plain), buf_len(&plain));
	(void)buf_printf(request, "%s: Basic %.*s\r\n", name,
		(int)base64_encoded_len(buf_len(&plain)), text);
	buf_done(&plain);
	free(text);
}

/* Sends credentials of so many users, with the secret in other places. `users`: after such a number
 * of users, they begin again. value: of the secret. */
static void send_credentials(
	const char *value, unsigned count, unsigned users, size_t padding, const char *log)
{
	static const char *const names[] = {
		"xxx", "xx", "x", "user-0123456789-user", "xuser-0123456789-user"};
	struct buf request = BUF_INIT(1 << 20), rules = BUF_INIT(64 << 10);
	struct intercept *i;
	struct fixture f;

	(void)buf_printf(&rules,
		"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"secrets\": [{\"name\": "
		"\"a\", \"value\": \"%s\"}, {\"name\": \"b\", \"value\": \"%s\"}], "
		"\"placeholders\": ["
		"{\"text\": \"" PLACEHOLDER "\", \"secret\": \"a\", \"hosts\": [\"held.test\"]},"
		"{\"text\": \"user-0123456789-user\", \"secret\": \"b\", \"hosts\": "
		"[\"held.test\"]}]}%c",
		value, value, 0);
	i = fixture_intercept((const char *)buf_head(&rules));
	(void)buf_add_str(&request, "GET / HTTP/1.1\r\nHost: held.test\r\n");
	for (unsigned n = 0; n < count; n++)
		add_credentials(&request, "Authorization", names[n % users], padding);
	(void)buf_add_str(&request, "\r\n");
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	exchange_set_intercept(f.x, i);
	(void)fixture_feed(&f, EXCHANGE_GUEST, buf_head(&request), buf_len(&request), SIZE_MAX);
	assert_string_equal(fixture_log(&f), log);
	assert_true((buf_len(&f.out[EXCHANGE_SERVER]) > 0) == (log[0] == '\0'));
	fixture_close(&f);
	intercept_unref(i);
	buf_done(&request);
	buf_done(&rules);
}

/* They count by secret and place, never by their text. */
static void credentials_that_could_come_back_are_refused(void **state)
{
	static const char denied[] = "GET / 431 denied 0 0\n";
	char large[24602] = "";

	send_credentials("0123456789abcdef", 9, 3, 0, "");
	send_credentials("0123456789abcdef", 3, 3, 30000 / 3, "");
	send_credentials("0123456789abcdef", 4, 4, 0, "");
	send_credentials("0123456789abcdef", 5, 5, 0, denied);
	memset(large, 'x', 24570);
	send_credentials(large, 1, 1, 0, "");
	memset(large, 'x', sizeof(large) - 1);
	send_credentials(large, 1, 1, 0, denied);
}

static void other_fields_have_no_credentials(void **state)
{
	struct buf request = BUF_INIT(1 << 20);
	struct fixture f;

	(void)buf_add_str(&request, "GET / HTTP/1.1\r\nHost: held.test\r\n");
	add_credentials(&request, "X-Authorization", "user", 0);
	(void)buf_add_str(&request, "\r\n");
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "held.test", 443));
	(void)fixture_feed(&f, EXCHANGE_GUEST, buf_head(&request), buf_len(&request), SIZE_MAX);
	assert_non_null(strstr(
		fixture_sent(&f, EXCHANGE_SERVER), "Basic dXNlcjpzay1tZmx5LTAxMjM0NTY3ODk=\r\n"));
	fixture_close(&f);
	buf_done(&request);
}

/* Many in one value, where one begins within another, or as another does. */
static void placeholders_in_one_value(void **state)
{
	static const char rules[] =
		"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"secrets\": ["
		"{\"name\": \"a\", \"value\": \"AAA\"}, {\"name\": \"b\", \"value\": \"BBB\"},"
		"{\"name\": \"c\", \"value\": \"CCC\"}, {\"name\": \"d\", \"value\": \"DDD\"}],"
		"\"placeholders\": ["
		"{\"text\": \"0123456789abcdef\", \"secret\": \"a\", \"hosts\": [\"api.test\"]},"
		"{\"text\": \"0123456789abcdefgh\", \"secret\": \"b\", \"hosts\": [\"api.test\"]},"
		"{\"text\": \"cdef0123456789ab\", \"secret\": \"c\", \"hosts\": [\"api.test\"]},"
		"{\"text\": \"def0123456789abcd\", \"secret\": \"d\", \"hosts\": [\"b.test\"]}]}";
	struct intercept *i = fixture_intercept(rules);
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "api.test", 443));
	exchange_set_intercept(f.x, i);
	feed(&f, EXCHANGE_GUEST,
		"GET / HTTP/1.1\r\nHost: api.test\r\nA: "
		"0123456789abcdef0123456789abcdefgh0123456789abcdegh-cdef0123456789abcdefgh,"
		"def0123456789abcde-0123456789abcdef\r\n\r\n",
		SIZE_MAX);
	assert_non_null(strstr(fixture_sent(&f, EXCHANGE_SERVER),
		"\r\nA: AAABBB0123456789abcdegh-CCCcdefgh,def0123456789abcde-AAA\r\n"));
	fixture_close(&f);
	intercept_unref(i);
}

static void cut_answers_are_no_answers(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc", SIZE_MAX);
	exchange_receive_end(f.x, EXCHANGE_SERVER);
	assert_int_equal(exchange_state(f.x), EXCHANGE_FAILED);
	assert_string_equal(fixture_log(&f), "GET / 200 reset 0 3\n");
	fixture_close(&f);

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	exchange_receive_end(f.x, EXCHANGE_SERVER);
	fixture_drain(&f);
	assert_memory_equal(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 502 ", 13);
	fixture_close(&f);

	/* A second request that meets the server's goodbye: the client sees that, and tries
	 * again. */
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	feed(&f, EXCHANGE_SERVER, ok, SIZE_MAX);
	buf_clear(&f.out[EXCHANGE_GUEST]);
	feed(&f, EXCHANGE_GUEST, get, SIZE_MAX);
	exchange_receive_end(f.x, EXCHANGE_SERVER);
	assert_int_equal(exchange_state(f.x), EXCHANGE_FAILED);
	assert_int_equal(buf_len(&f.out[EXCHANGE_GUEST]), 0);
	fixture_close(&f);
}

static void what_nobody_asked_for_ends_the_connection(void **state)
{
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	(void)fixture_feed(&f, EXCHANGE_SERVER, ok, strlen(ok), SIZE_MAX);
	assert_int_equal(exchange_state(f.x), EXCHANGE_DONE);
	assert_int_equal(buf_len(&f.out[EXCHANGE_GUEST]), 0);
	fixture_close(&f);
}

/* --- limits --- */

/* A body of `bytes` letters behind a head, received until nothing more is taken. */
static size_t fill(struct exchange *x, enum exchange_side from, size_t bytes)
{
	uint8_t piece[4096];
	size_t done = 0, n;

	memset(piece, 'x', sizeof(piece));
	while (done < bytes && exchange_wants(x, from)) {
		n = exchange_receive(x, from, piece, sizeof(piece));
		done += n;
		if (n < sizeof(piece))
			break;
	}
	return done;
}

static void what_is_not_sent_holds_the_sender(void **state)
{
	static const char head[] =
		"POST / HTTP/1.1\r\nHost: plain.test\r\nContent-Length: 9999999\r\n\r\n";
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n";
	size_t took;
	struct fixture f;

	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "plain.test", 443));
	assert_int_equal(exchange_receive(f.x, EXCHANGE_GUEST, head, strlen(head)), strlen(head));
	took = fill(f.x, EXCHANGE_GUEST, 8 << 20);
	assert_true(took > 128 << 10 && took <= EXCHANGE_HELD_MAX);
	assert_false(exchange_wants(f.x, EXCHANGE_GUEST));
	assert_true(exchange_memory(f.x) < 2 * EXCHANGE_HELD_MAX);
	assert_int_equal(
		exchange_receive(f.x, EXCHANGE_SERVER, answer, strlen(answer)), strlen(answer));
	took = fill(f.x, EXCHANGE_SERVER, 8 << 20);
	assert_true(took > 128 << 10 && took <= EXCHANGE_HELD_MAX);
	assert_false(exchange_wants(f.x, EXCHANGE_SERVER));
	assert_int_equal(exchange_state(f.x), EXCHANGE_GOING);
	fixture_drain(&f);
	assert_true(exchange_wants(f.x, EXCHANGE_GUEST) && exchange_wants(f.x, EXCHANGE_SERVER));
	fixture_close(&f);
}

static unsigned status_of_head(unsigned fields, size_t value_bytes, const char *value)
{
	struct buf b = BUF_INIT(1 << 20);
	struct fixture f;
	unsigned status = 0;

	(void)buf_add_str(&b, "GET / HTTP/1.1\r\nHost: api.test\r\n");
	for (unsigned i = 0; i < fields; i++) {
		(void)buf_printf(&b, "X-%u: ", i);
		for (size_t n = 0; n < value_bytes; n += strlen(value))
			(void)buf_add_str(&b, value);
		(void)buf_add_str(&b, "\r\n");
	}
	(void)buf_add_str(&b, "\r\n");
	assert_true(fixture_open(&f, EXCHANGE_HTTP1, "api.test", 443));
	(void)fixture_feed(&f, EXCHANGE_GUEST, buf_head(&b), buf_len(&b), SIZE_MAX);
	(void)sscanf(fixture_sent(&f, EXCHANGE_GUEST), "HTTP/1.1 %u ", &status);
	assert_true(status || buf_len(&f.out[EXCHANGE_SERVER]));
	fixture_close(&f);
	buf_done(&b);
	return status;
}

static void heads_have_limits(void **state)
{
	assert_int_equal(status_of_head(255, 0, ""), 0);
	assert_int_equal(status_of_head(256, 0, ""), 431);
	assert_int_equal(status_of_head(60, 1000, "x"), 0);
	assert_int_equal(status_of_head(70, 1000, "x"), 431);
	/* Secrets make it longer than what came. */
	assert_int_equal(status_of_head(60, 1000, PLACEHOLDER), 0);
}

static void a_head_with_secrets_has_a_limit(void **state)
{
	char *value = malloc(INTERCEPT_SECRET_MAX + 1);
	struct buf rules = BUF_INIT(1 << 20), head = BUF_INIT(1 << 20);
	struct intercept *i;
	struct fixture f;

	memset(value, 'v', INTERCEPT_SECRET_MAX);
	value[INTERCEPT_SECRET_MAX] = '\0';
	(void)buf_printf(&rules,
		"{\"ca\": {\"certificate\": \"c\", \"key\": \"k\"}, \"secrets\": [{\"name\": "
		"\"a\", "
		"\"value\": \"%s\"}], \"placeholders\": [{\"text\": \"" PLACEHOLDER
		"\", \"secret\": \"a\", \"hosts\": [\"api.test\"]}]}%c",
		value, 0);
	i = fixture_intercept((const char *)buf_head(&rules));
	for (unsigned times = 3; times <= 4; times++) {
		assert_true(fixture_open(&f, EXCHANGE_HTTP1, "api.test", 443));
		exchange_set_intercept(f.x, i);
		buf_clear(&head);
		(void)buf_add_str(&head, "GET / HTTP/1.1\r\nHost: api.test\r\n");
		for (unsigned n = 0; n < times; n++)
			(void)buf_add_str(&head, "A: " PLACEHOLDER "\r\n");
		(void)buf_add_str(&head, "\r\n");
		(void)fixture_feed(&f, EXCHANGE_GUEST, buf_head(&head), buf_len(&head), SIZE_MAX);
		if (times == 3)
			assert_true(buf_len(&f.out[EXCHANGE_SERVER]) > 96 << 10);
		else
			assert_string_equal(fixture_log(&f), "GET / 502 denied 0 0\n");
		fixture_close(&f);
	}
	intercept_unref(i);
	buf_done(&rules);
	buf_done(&head);
	free(value);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_requests_are_refused),
		cmocka_unit_test(good_requests_pass),
		cmocka_unit_test(answers_pass),
		cmocka_unit_test(bad_answers_are_502),
		cmocka_unit_test(each_request_of_a_connection_is_judged),
		cmocka_unit_test(a_pipelined_request_waits),
		cmocka_unit_test(new_rules_are_for_new_requests),
		cmocka_unit_test(an_early_answer_ends_the_connection),
		cmocka_unit_test(expect_is_answered_here),
		cmocka_unit_test(websockets_pass_bytes_after_101),
		cmocka_unit_test(a_refused_websocket_is_an_answer),
		cmocka_unit_test(unknown_secrets_are_502),
		cmocka_unit_test(a_late_secret_is_recorded_alone),
		cmocka_unit_test(a_server_that_cannot_be_had_is_502),
		cmocka_unit_test(credentials_do_not_come_back),
		cmocka_unit_test(many_secrets_in_answers_end_the_connection),
		cmocka_unit_test(placeholders_in_one_value),
		cmocka_unit_test(credentials_that_could_come_back_are_refused),
		cmocka_unit_test(other_fields_have_no_credentials),
		cmocka_unit_test(cut_answers_are_no_answers),
		cmocka_unit_test(what_nobody_asked_for_ends_the_connection),
		cmocka_unit_test(what_is_not_sent_holds_the_sender),
		cmocka_unit_test(heads_have_limits),
		cmocka_unit_test(a_head_with_secrets_has_a_limit),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
