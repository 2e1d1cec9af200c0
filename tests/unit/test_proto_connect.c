/* src/proto/connect and proto_json: envelopes, errors, messages, requests, and proto3 JSON. */
#include "test.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/connect.h"
#include "proto/proto_json.h"

#define BYTES(s) (s), sizeof(s) - 1

static void expect_bytes(struct buf *b, const char *want, size_t n)
{
	assert_int_equal(buf_len(b), n);
	assert_memory_equal(buf_head(b), want, n);
	buf_clear(b);
}

/* --- writing --- */

static void observed_response(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	const struct connect_process_end end = {.exited = true, .status = "exit status 0"};

	assert_int_equal(connect_process_start(&b, 1234), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x20{\"event\":{\"start\":{\"pid\":1234}}}"));
	assert_int_equal(connect_process_keepalive(&b), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x1a{\"event\":{\"keepalive\":{}}}"));
	assert_int_equal(connect_process_data(&b, CONNECT_STDOUT, "hi\n", 3), 0);
	assert_int_equal(buf_len(&b), connect_process_data_len(CONNECT_STDOUT, 3));
	expect_bytes(&b, BYTES("\0\0\0\0\x24{\"event\":{\"data\":{\"stdout\":\"aGkK\"}}}"));
	assert_int_equal(connect_process_end(&b, &end), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x47{\"event\":{\"end\":{\"exitCode\":0,\"exited\":true,"
			       "\"status\":\"exit status 0\"}}}"));
	assert_int_equal(connect_end_ok(&b), 0);
	expect_bytes(&b, BYTES("\x02\0\0\0\x02{}"));
	buf_done(&b);
}

static void other_messages(void **state)
{
	struct buf b = BUF_INIT(1 << 16);

	assert_int_equal(connect_process_data(&b, CONNECT_STDERR, "", 0), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x20{\"event\":{\"data\":{\"stderr\":\"\"}}}"));
	assert_int_equal(connect_process_data(&b, CONNECT_PTY, "x", 1), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x21{\"event\":{\"data\":{\"pty\":\"eA==\"}}}"));
	assert_int_equal(connect_watch_start(&b), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x0c{\"start\":{}}"));
	assert_int_equal(connect_watch_keepalive(&b), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\x10{\"keepalive\":{}}"));
	assert_int_equal(connect_envelope(&b, 0, "abc", 3), 0);
	expect_bytes(&b, BYTES("\0\0\0\0\3abc"));
	buf_done(&b);
}

static void errors_are_written(void **state)
{
	struct buf b = BUF_INIT(1 << 16);

	assert_int_equal(connect_end_error(&b, CONNECT_NOT_FOUND, "no \"x\""), 0);
	expect_bytes(&b, BYTES("\x02\0\0\0\x33{\"error\":{\"code\":\"not_found\",\"message\":"
			       "\"no \\\"x\\\"\"}}"));
	assert_int_equal(connect_unary_error(&b, CONNECT_INVALID_ARGUMENT, "m"), 0);
	expect_bytes(&b, BYTES("{\"code\":\"invalid_argument\",\"message\":\"m\"}"));
	buf_done(&b);
}

static void codes(void **state)
{
	static const struct {
		enum connect_code code;
		const char *name;
		unsigned status;
	} table[] = {{CONNECT_CANCELED, "canceled", 499}, {CONNECT_UNKNOWN, "unknown", 500},
		{CONNECT_INVALID_ARGUMENT, "invalid_argument", 400},
		{CONNECT_DEADLINE_EXCEEDED, "deadline_exceeded", 504},
		{CONNECT_NOT_FOUND, "not_found", 404},
		{CONNECT_ALREADY_EXISTS, "already_exists", 409},
		{CONNECT_PERMISSION_DENIED, "permission_denied", 403},
		{CONNECT_RESOURCE_EXHAUSTED, "resource_exhausted", 429},
		{CONNECT_FAILED_PRECONDITION, "failed_precondition", 400},
		{CONNECT_UNIMPLEMENTED, "unimplemented", 501}, {CONNECT_INTERNAL, "internal", 500},
		{CONNECT_UNAVAILABLE, "unavailable", 503},
		{CONNECT_UNAUTHENTICATED, "unauthenticated", 401}};

	for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
		assert_string_equal(connect_code_name(table[i].code), table[i].name);
		assert_int_equal(connect_code_http_status(table[i].code), table[i].status);
	}
	for (unsigned c = 1; c < CONNECT_CODES; c++)
		assert_true(connect_code_name(c)[0] && connect_code_http_status(c) >= 400);
	assert_int_equal(connect_code_http_status(CONNECT_OK), 200);
	assert_int_equal(connect_code_http_status(1000), 500);
}

static void a_full_buffer_is_left_as_it_was(void **state)
{
	const struct connect_process_end end = {.status = "s", .error = "e"};

	for (size_t max = 1; max < 32; max++) {
		struct buf b = BUF_INIT(max);

		assert_int_equal(buf_add_u8(&b, 'x'), 0);
		assert_int_equal(connect_process_start(&b, 1), -EMSGSIZE);
		assert_int_equal(connect_process_data(&b, CONNECT_PTY, "x", 1), -EMSGSIZE);
		assert_int_equal(connect_process_end(&b, &end), -EMSGSIZE);
		assert_int_equal(connect_end_error(&b, CONNECT_INTERNAL, "long text"), -EMSGSIZE);
		assert_int_equal(connect_unary_error(&b, CONNECT_INTERNAL, "long"), -EMSGSIZE);
		assert_int_equal(buf_len(&b), 1);
		buf_done(&b);
	}
}

static void an_envelope_around_text(void **state)
{
	struct buf b = BUF_INIT(1 << 16);
	size_t mark;

	assert_int_equal(buf_add_str(&b, "x"), 0);
	assert_int_equal(connect_envelope_begin(&b, CONNECT_END, &mark), 0);
	assert_int_equal(buf_add_str(&b, "text"), 0);
	assert_int_equal(connect_envelope_end(&b, mark, -ENOMEM), -ENOMEM);
	assert_int_equal(buf_len(&b), 1);
	assert_int_equal(connect_envelope_begin(&b, CONNECT_END, &mark), 0);
	for (unsigned i = 0; i < 300; i++)
		assert_int_equal(buf_add_u8(&b, 'y'), 0);
	assert_int_equal(connect_envelope_end(&b, mark, 0), 0);
	assert_memory_equal(buf_head(&b), "x\x02\0\0\x01\x2cyy", 8);
	buf_done(&b);
}

static void wait_statuses(void **state)
{
	static const struct {
		int status, exit_code;
		bool exited;
		const char *text;
		bool error;
	} cases[] = {{0, 0, true, "exit status 0", false}, {3 << 8, 3, true, "exit status 3", true},
		{SIGKILL, -1, false, "signal: killed", true},
		{SIGSEGV | 0x80, -1, false, "signal: segmentation fault", true},
		{40, -1, false, "signal: signal 40", true},
		{SIGSTKFLT, -1, false, "signal: signal 16", true}};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct connect_process_end end;
		char text[64];

		connect_process_end_of(cases[i].status, text, &end);
		assert_int_equal(connect_process_signal(text),
			WIFSIGNALED(cases[i].status) ? WTERMSIG(cases[i].status) : 0);
		assert_int_equal(end.exit_code, cases[i].exit_code);
		assert_int_equal(end.exited, cases[i].exited);
		assert_string_equal(end.status, cases[i].text);
		if (cases[i].error)
			assert_string_equal(end.error, cases[i].text);
		else
			assert_null(end.error);
	}
}

/* --- reading --- */

static const char stream[] = "\0\0\0\0\5hello\0\0\0\0\0\0\0\0\0\1x\x02\0\0\0\2{}";

/* Messages, each in brackets, END marked with '!'. */
static void feed(struct connect_decoder *d, const char *data, size_t n, struct buf *out)
{
	enum connect_event event;
	char *copy = malloc(n + !n);
	size_t at = 0, used, len;

	memcpy(copy, data, n);
	while ((event = connect_decoder_next(d, copy + at, n - at, &used)) != CONNECT_EVENT_MORE) {
		const uint8_t *message = connect_decoder_message(d, &len);

		assert_int_not_equal(event, CONNECT_EVENT_ERROR);
		at += used;
		assert_int_equal(buf_add_str(out, event == CONNECT_EVENT_END ? "!" : "["), 0);
		assert_int_equal(buf_add(out, message, len), 0);
		assert_int_equal(buf_add_str(out, "]"), 0);
	}
	assert_int_equal(at + used, n);
	free(copy);
}

static void envelopes_split_anywhere(void **state)
{
	size_t n = sizeof(stream) - 1;

	for (size_t a = 0; a <= n; a++)
		for (size_t b = a; b <= n; b++) {
			struct buf out = BUF_INIT(1000);
			struct connect_decoder d;

			connect_decoder_init(&d, 5, true);
			feed(&d, stream, a, &out);
			feed(&d, stream + a, b - a, &out);
			assert_int_equal(connect_decoder_at_boundary(&d),
				b == 0 || b == 10 || b == 15 || b == 21 || b == 28);
			feed(&d, stream + b, n - b, &out);
			expect_bytes(&out, BYTES("[hello][][x]!{}]"));
			assert_true(connect_decoder_at_boundary(&d));
			connect_decoder_done(&d);
			buf_done(&out);
		}
}

static void a_whole_message_is_not_copied(void **state)
{
	struct connect_decoder d;
	size_t used, n;

	connect_decoder_init(&d, 0, false);
	assert_int_equal(connect_decoder_next(&d, stream, 21, &used), CONNECT_EVENT_MESSAGE);
	assert_int_equal(used, 10);
	assert_ptr_equal(connect_decoder_message(&d, &n), stream + 5);
	connect_decoder_done(&d);
}

static void refuse(const char *data, size_t n, size_t max, bool response, enum connect_code code)
{
	for (size_t cut = 0; cut < n; cut++) {
		struct connect_decoder d;
		size_t used;
		enum connect_event event;

		connect_decoder_init(&d, max, response);
		event = connect_decoder_next(&d, data, cut, &used);
		if (event == CONNECT_EVENT_END || event == CONNECT_EVENT_MESSAGE)
			event = connect_decoder_next(&d, data + used, cut - used, &used);
		if (event != CONNECT_EVENT_ERROR)
			event = connect_decoder_next(&d, data + cut, n - cut, &used);
		if (event == CONNECT_EVENT_END)
			event = connect_decoder_next(&d, data + cut + used, n - cut - used, &used);
		assert_int_equal(event, CONNECT_EVENT_ERROR);
		assert_int_equal(d.error, code);
		assert_non_null(d.reason);
		assert_int_equal(connect_decoder_next(&d, data, n, &used), CONNECT_EVENT_ERROR);
		assert_int_equal(used, 0);
		connect_decoder_done(&d);
	}
}

static void hostile_envelopes(void **state)
{
	refuse(BYTES("\1\0\0\0\1x"), 0, true, CONNECT_UNIMPLEMENTED);
	refuse(BYTES("\2\0\0\0\2{}"), 0, false, CONNECT_INVALID_ARGUMENT);
	refuse(BYTES("\4\0\0\0\2{}"), 0, true, CONNECT_INVALID_ARGUMENT);
	refuse(BYTES("\x80\0\0\0\2{}"), 0, false, CONNECT_INVALID_ARGUMENT);
	refuse(BYTES("\0\0\0\0\6"), 5, false, CONNECT_RESOURCE_EXHAUSTED);
	refuse(BYTES("\0\xff\xff\xff\xff"), SIZE_MAX, false, CONNECT_RESOURCE_EXHAUSTED);
	refuse(BYTES("\0\0\x40\0\1"), 0, false, CONNECT_RESOURCE_EXHAUSTED); /* 4 MiB and one */
	refuse(BYTES("\2\0\0\0\2{}x"), 0, true, CONNECT_INVALID_ARGUMENT);
}

/* --- requests --- */

static int parse(const char *headers, struct connect_request *r, enum connect_code *code)
{
	struct http_parser *p = http_parser_new(HTTP_ROLE_SERVER, NULL);
	char data[4096];
	const char *reason = NULL;
	size_t used;
	int err;

	(void)snprintf(data, sizeof(data), "%s\r\nHost: h\r\n\r\n", headers);
	assert_int_equal(http_parser_next(p, data, strlen(data), &used), HTTP_HEAD);
	err = connect_request_parse(http_parser_head(p), r, code, &reason);
	if (err == -EINVAL)
		assert_non_null(reason);
	http_parser_free(p);
	return err;
}

static void requests(void **state)
{
	struct connect_request r;
	enum connect_code code;

	assert_int_equal(parse("POST /process.Process/Start HTTP/1.1\r\n"
			       "connect-protocol-version: 1\r\nconnect-timeout-ms: 60000\r\n"
			       "content-type: application/connect+json; charset=utf-8\r\n"
			       "keepalive-ping-interval: 50\r\nauthorization: Basic cm9vdDo=",
				 &r, &code),
		0);
	assert_int_equal(r.kind, CONNECT_KIND_STREAM);
	assert_int_equal(r.timeout_ms, 60000);
	assert_int_equal(r.keepalive_s, 50);
	assert_true(r.has_user);
	assert_string_equal(r.user, "root");
	assert_int_equal(parse("POST /x HTTP/1.1\r\nContent-Type: application/json", &r, &code), 0);
	assert_int_equal(r.kind, CONNECT_KIND_UNARY);
	assert_true(r.timeout_ms == UINT64_MAX);
	assert_int_equal(r.keepalive_s, 90);
	assert_false(r.has_user);
	assert_int_equal(parse("POST /x HTTP/1.1\r\nContent-Type: application/json\r\n"
			       "Keepalive-Ping-Interval: 0\r\nAuthorization: Bearer x",
				 &r, &code),
		0);
	assert_int_equal(r.keepalive_s, 90);
	assert_false(r.has_user);
}

static void bad_requests(void **state)
{
#define UNARY "POST /x HTTP/1.1\r\nContent-Type: application/json\r\n"
	struct connect_request r;
	enum connect_code code = CONNECT_OK;

	assert_int_equal(parse("GET /x HTTP/1.1", &r, &code), -EOPNOTSUPP);
	assert_int_equal(parse("POST /x HTTP/1.1", &r, &code), -EPROTONOSUPPORT);
	assert_int_equal(parse("POST /x HTTP/1.1\r\nContent-Type: application/proto", &r, &code),
		-EPROTONOSUPPORT);
	assert_int_equal(parse(UNARY "Connect-Timeout-Ms: -1", &r, &code), -EINVAL);
	assert_int_equal(code, CONNECT_INVALID_ARGUMENT);
	assert_int_equal(parse(UNARY "Connect-Timeout-Ms: 12345678901", &r, &code), -EINVAL);
	assert_int_equal(parse(UNARY "Connect-Protocol-Version: 2", &r, &code), -EINVAL);
	assert_int_equal(parse(UNARY "Content-Encoding: gzip", &r, &code), -EINVAL);
	assert_int_equal(code, CONNECT_UNIMPLEMENTED);
	assert_int_equal(parse(UNARY "Content-Encoding: identity", &r, &code), 0);
	assert_int_equal(parse(UNARY "Authorization: Basic !!!", &r, &code), -EINVAL);
	assert_int_equal(code, CONNECT_UNAUTHENTICATED);
}

static void basic_users(void **state)
{
	char user[CONNECT_USER_MAX + 1];
	char longer[600] = "Basic ";

	assert_int_equal(connect_basic_user("Basic cm9vdDo=", user), 1);
	assert_string_equal(user, "root");
	assert_int_equal(connect_basic_user("basic   dTpwYXNzOndvcmQ", user), 1);
	assert_string_equal(user, "u");
	assert_int_equal(connect_basic_user("Basic Og==", user), 0);	       /* ":" */
	assert_int_equal(connect_basic_user("Basic cm9vdA==", user), -EINVAL); /* no colon */
	assert_int_equal(connect_basic_user("Basic ", user), -EINVAL);
	assert_int_equal(connect_basic_user("Basic AHg6", user), -EINVAL); /* NUL */
	assert_int_equal(connect_basic_user("Basic Cgo6", user), -EINVAL); /* line feeds */
	assert_int_equal(connect_basic_user("Bearer abc", user), 0);
	assert_int_equal(connect_basic_user(NULL, user), 0);
	memset(longer + 6, 'Y', 500);
	strcpy(longer + 506, "YTo=");
	assert_int_equal(connect_basic_user(longer, user), -EINVAL);
}

/* --- proto3 JSON --- */

static json_t *object(const char *text)
{
	const char *reason;
	json_t *j = proto_json_parse(text, strlen(text), &reason);

	assert_non_null(j);
	return j;
}

static void fields(void **state)
{
	json_t *j = object("{\"s\":\"t\",\"n\":null,\"b\":true,\"include_entry\":true,\"o\":{},"
			   "\"a\":[1],\"z\":\"a\\u0000b\",\"fooBar\":\"camel\"}");
	const char *s = "default";
	bool b = false;
	json_t *v;

	assert_int_equal(proto_json_string(j, "s", &s), 1);
	assert_string_equal(s, "t");
	assert_int_equal(proto_json_string(j, "n", &s), 0);
	assert_int_equal(proto_json_string(j, "missing", &s), 0);
	assert_string_equal(s, "t");
	assert_int_equal(proto_json_string(j, "b", &s), -EINVAL);
	assert_int_equal(proto_json_string(j, "z", &s), -EINVAL);
	assert_int_equal(proto_json_string(j, "fooBar", &s), 1);
	assert_int_equal(proto_json_bool(j, "includeEntry", &b), 1);
	assert_true(b);
	assert_int_equal(proto_json_bool(j, "s", &b), -EINVAL);
	assert_int_equal(proto_json_object(j, "o", &v), 1);
	assert_int_equal(proto_json_object(j, "a", &v), -EINVAL);
	assert_int_equal(proto_json_object(j, "n", &v), 0);
	assert_int_equal(proto_json_array(j, "a", &v), 1);
	assert_int_equal(proto_json_array(j, "o", &v), -EINVAL);
	assert_int_equal(proto_json_array(j, "q", &v), 0);
	json_decref(j);
}

static void numbers(void **state)
{
	json_t *j =
		object("{\"i\":12,\"s\":\"9223372036854775807\",\"m\":\"-9223372036854775808\","
		       "\"o\":\"9223372036854775808\",\"r\":3.0,\"f\":3.5,\"e\":1e3,\"h\":1e300,"
		       "\"x\":\"1x\",\"w\":\"\",\"d\":\"-\",\"u\":4294967295,\"v\":4294967296,"
		       "\"k\":-1,\"t\":true}");
	int64_t i = 0;
	uint32_t u = 0;

	assert_int_equal(proto_json_i64(j, "i", &i), 1);
	assert_int_equal(i, 12);
	assert_int_equal(proto_json_i64(j, "s", &i), 1);
	assert_true(i == INT64_MAX);
	assert_int_equal(proto_json_i64(j, "m", &i), 1);
	assert_true(i == INT64_MIN);
	assert_int_equal(proto_json_i64(j, "o", &i), -ERANGE);
	assert_int_equal(proto_json_i64(j, "r", &i), 1);
	assert_int_equal(i, 3);
	assert_int_equal(proto_json_i64(j, "e", &i), 1);
	assert_int_equal(i, 1000);
	assert_int_equal(proto_json_i64(j, "f", &i), -EINVAL);
	assert_int_equal(proto_json_i64(j, "h", &i), -ERANGE);
	assert_int_equal(proto_json_i64(j, "x", &i), -EINVAL);
	assert_int_equal(proto_json_i64(j, "w", &i), -EINVAL);
	assert_int_equal(proto_json_i64(j, "d", &i), -EINVAL);
	assert_int_equal(proto_json_i64(j, "t", &i), -EINVAL);
	assert_int_equal(proto_json_u32(j, "u", &u), 1);
	assert_true(u == UINT32_MAX);
	assert_int_equal(proto_json_u32(j, "v", &u), -ERANGE);
	assert_int_equal(proto_json_u32(j, "k", &u), -ERANGE);
	assert_int_equal(proto_json_u32(j, "none", &u), 0);
	json_decref(j);
}

static void bytes_and_enums(void **state)
{
	static const struct proto_json_enum signals[] = {{"SIGNAL_UNSPECIFIED", 0},
		{"SIGNAL_SIGKILL", 9}, {"SIGNAL_SIGTERM", 15}, {NULL, 0}};
	json_t *j = object("{\"std\":\"YWJjCg==\",\"url\":\"-_8\",\"bad\":\"!\",\"num\":1,"
			   "\"kill\":\"SIGNAL_SIGKILL\",\"term\":15,\"what\":\"SIGNAL_X\","
			   "\"big\":4294967296}");
	struct buf b = BUF_INIT(100);
	int v = -1;

	assert_int_equal(proto_json_bytes(j, "std", &b), 1);
	expect_bytes(&b, BYTES("abc\n"));
	assert_int_equal(proto_json_bytes(j, "url", &b), 1);
	expect_bytes(&b, BYTES("\xfb\xff"));
	assert_int_equal(proto_json_bytes(j, "bad", &b), -EINVAL);
	assert_int_equal(proto_json_bytes(j, "num", &b), -EINVAL);
	assert_int_equal(proto_json_bytes(j, "none", &b), 0);
	assert_int_equal(proto_json_enum(j, "kill", signals, &v), 1);
	assert_int_equal(v, 9);
	assert_int_equal(proto_json_enum(j, "term", signals, &v), 1);
	assert_int_equal(v, 15);
	assert_int_equal(proto_json_enum(j, "what", signals, &v), -EINVAL);
	assert_int_equal(proto_json_enum(j, "big", signals, &v), -ERANGE);
	assert_int_equal(proto_json_enum(j, "none", signals, &v), 0);
	assert_string_equal(proto_json_enum_name(signals, 15), "SIGNAL_SIGTERM");
	assert_null(proto_json_enum_name(signals, 1));
	buf_done(&b);
	json_decref(j);
}

static void bodies(void **state)
{
	static const char *const bad[] = {"[]", "1", "{", "{}x", "{\"a\":1,\"a\":2}", "null", " ",
		"{\"a\":\"\xff\"}", "{\"a\":99999999999999999999}"};
	char deep[1000];
	const char *reason;
	json_t *j;

	j = proto_json_parse("", 0, &reason);
	assert_int_equal(json_object_size(j), 0);
	json_decref(j);
	json_decref(object(" {} "));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		reason = NULL;
		assert_null(proto_json_parse(bad[i], strlen(bad[i]), &reason));
		assert_true(reason && reason[0]);
	}
	memset(deep, '[', sizeof(deep));
	memcpy(deep, "{\"a\":", 5);
	reason = NULL;
	assert_null(proto_json_parse(deep, sizeof(deep), &reason));
	assert_string_equal(reason, "the JSON nests too deep");
	memcpy(deep, "{\"\\\"", 4);
	memcpy(deep + sizeof(deep) - 5, "\":1}", 4); /* brackets in a string do not count */
	json_decref(proto_json_parse(deep, sizeof(deep) - 1, &reason));
}

static void values_are_written(void **state)
{
	json_t *j = json_pack("{s:s,s:i}", "name", "caf\xc3\xa9", "size", 12);
	struct buf b = BUF_INIT(1000), small = BUF_INIT(10);

	assert_int_equal(proto_json_dump(j, &b), 0);
	expect_bytes(&b, BYTES("{\"name\":\"caf\xc3\xa9\",\"size\":12}"));
	assert_int_equal(buf_add_str(&small, "x"), 0);
	assert_int_equal(proto_json_dump(j, &small), -EMSGSIZE);
	assert_int_equal(buf_len(&small), 1);
	buf_done(&small);
	buf_done(&b);
	json_decref(j);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(observed_response),
		cmocka_unit_test(other_messages),
		cmocka_unit_test(errors_are_written),
		cmocka_unit_test(codes),
		cmocka_unit_test(a_full_buffer_is_left_as_it_was),
		cmocka_unit_test(an_envelope_around_text),
		cmocka_unit_test(wait_statuses),
		cmocka_unit_test(envelopes_split_anywhere),
		cmocka_unit_test(a_whole_message_is_not_copied),
		cmocka_unit_test(hostile_envelopes),
		cmocka_unit_test(requests),
		cmocka_unit_test(bad_requests),
		cmocka_unit_test(basic_users),
		cmocka_unit_test(fields),
		cmocka_unit_test(numbers),
		cmocka_unit_test(bytes_and_enums),
		cmocka_unit_test(bodies),
		cmocka_unit_test(values_are_written),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
