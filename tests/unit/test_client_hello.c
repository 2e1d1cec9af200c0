/* The first message of a TLS client: what real clients send, and what is refused. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test.h"

#include "base/cleanup.h"
#include "client_hellos.h"
#include "intercept/client_hello.h"

enum { ROOM = 70000 };

struct bytes {
	uint8_t data[ROOM];
	size_t n;
};

static struct bytes made; /* by the builders below */

static struct bytes *captured(const char *hex)
{
	made.n = strlen(hex) / 2;
	for (size_t i = 0; i < made.n; i++) {
		unsigned byte;

		assert_int_equal(sscanf(hex + 2 * i, "%2x", &byte), 1);
		made.data[i] = (uint8_t)byte;
	}
	return &made;
}

static void add(struct bytes *b, const void *data, size_t n)
{
	assert_true(b->n + n <= ROOM);
	memcpy(b->data + b->n, data, n);
	b->n += n;
}

static void add_number(struct bytes *b, unsigned number, unsigned bytes)
{
	while (bytes--)
		add(b, &(uint8_t){(uint8_t)(number >> (8 * bytes))}, 1);
}

/* A hello in one record with these extensions. */
static struct bytes *hello_with(const void *extensions, size_t n)
{
	static const uint8_t random[32];
	struct bytes *b = &made;
	size_t body = 2 + 32 + 1 + 2 + 2 + 1 + 1 + 2 + n;

	b->n = 0;
	add(b, "\x16\x03\x01", 3);
	add_number(b, (unsigned)body + 4, 2);
	add_number(b, 1, 1);
	add_number(b, (unsigned)body, 3);
	add(b, "\x03\x03", 2);
	add(b, random, sizeof(random));
	add_number(b, 0, 1);
	add(b, "\x00\x02\x13\x01\x01\x00", 6);
	add_number(b, (unsigned)n, 2);
	add(b, extensions, n);
	return b;
}

#define HELLO_WITH(text) hello_with(text, sizeof(text) - 1)

/* The same message in records of `piece` bytes. */
static void split(const struct bytes *one, size_t piece, struct bytes *ret)
{
	ret->n = 0;
	for (size_t at = 5; at < one->n; at += piece) {
		size_t n = one->n - at < piece ? one->n - at : piece;

		add(ret, "\x16\x03\x01", 3);
		add_number(ret, (unsigned)n, 2);
		add(ret, one->data + at, n);
	}
}

static enum client_hello_result parse(const struct bytes *b, struct client_hello *h)
{
	const char *why = NULL;
	enum client_hello_result r = client_hello_parse(b->data, b->n, h, &why);

	assert_true((r == CLIENT_HELLO_BAD) == (why != NULL));
	return r;
}

static void real_clients_are_understood(void **state)
{
	static const struct {
		const char *hex, *name;
		bool alpn, h2, http1;
	} rows[] = {
		{hello_openssl, "", false, false, false},
		{hello_openssl_tls12, "api.example.com", true, false, false},
		{hello_curl, "api.example.com", true, true, true},
		{hello_python, "api.example.com", false, false, false},
		{hello_node, "api.example.com", true, false, true},
		{hello_go, "api.example.com", true, true, true},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct client_hello h;

		assert_int_equal(parse(captured(rows[i].hex), &h), CLIENT_HELLO_OK);
		assert_string_equal(h.name, rows[i].name);
		assert_false(h.encrypted);
		assert_int_equal(h.alpn, rows[i].alpn);
		assert_int_equal(h.h2, rows[i].h2);
		assert_int_equal(h.http1, rows[i].http1);
		assert_int_equal(h.bytes, made.n);
		assert_false(h.early_data);
	}
}

/* Whatever the sizes of records and of what came so far, the answer is the same, and comes with the
 * last byte. */
static void pieces_are_joined(void **state)
{
	static const size_t pieces[] = {1, 2, 3, 5, 100, 16384};
	static struct bytes one, many;
	struct client_hello h;

	one = *captured(hello_go);
	for (size_t i = 0; i < ARRAY_SIZE(pieces); i++) {
		split(&one, pieces[i], &many);
		add(&many, "\x17\x03\x03\x00\x01x", 6); /* what follows is not looked at */
		assert_int_equal(parse(&many, &h), CLIENT_HELLO_OK);
		assert_string_equal(h.name, "api.example.com");
		for (many.n -= 7; many.n; many.n -= many.n > 600 ? 300 : 1)
			assert_int_equal(parse(&many, &h), CLIENT_HELLO_MORE);
	}
}

/* No bit of a hello, flipped, leads out of the buffer or to another name without being seen. */
static void flipped_bits(void **state)
{
	struct bytes *b = captured(hello_curl);
	struct client_hello h;

	for (size_t bit = 0; bit < b->n * 8; bit++) {
		b->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (parse(b, &h) == CLIENT_HELLO_OK)
			assert_true(strlen(h.name) < sizeof(h.name));
		b->data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
}

#define SNI_A                                                                                      \
	"\x00\x00\x00\x06\x00\x04\x00\x00\x01"                                                     \
	"A"
#define ALPN_H2 "\x00\x10\x00\x05\x00\x03\x02h2"

static void extensions_are_read(void **state)
{
	struct client_hello h;

	assert_int_equal(parse(HELLO_WITH(""), &h), CLIENT_HELLO_OK);
	assert_string_equal(h.name, "");
	assert_int_equal(parse(HELLO_WITH(ALPN_H2 "\xfe\x0d\x00\x01x" SNI_A), &h), CLIENT_HELLO_OK);
	assert_string_equal(h.name, "a");
	assert_true(h.encrypted && h.h2 && h.alpn && !h.http1);
}

static void wrong_hellos(void **state)
{
	static const struct {
		const char *what;
		const char *extensions;
		size_t n;
	} rows[] = {
#define ROW(what, text) {what, text, sizeof(text) - 1}
		ROW("two names", SNI_A SNI_A),
		ROW("two lists of protocols", ALPN_H2 ALPN_H2),
		ROW("two entries", "\x00\x00\x00\x0a\x00\x08\x00\x00\x01"
				   "a\x00\x00\x01"
				   "b"),
		ROW("another type of name", "\x00\x00\x00\x06\x00\x04\x01\x00\x01"
					    "a"),
		ROW("an empty name", "\x00\x00\x00\x05\x00\x03\x00\x00\x00"),
		ROW("a NUL", "\x00\x00\x00\x07\x00\x05\x00\x00\x02"
			     "a\0"),
		ROW("a space", "\x00\x00\x00\x07\x00\x05\x00\x00\x02"
			       "a "),
		ROW("a byte of UTF-8", "\x00\x00\x00\x07\x00\x05\x00\x00\x02"
				       "\xc3\xa4"),
		ROW("no list", "\x00\x00\x00\x00"),
		ROW("a list that is too short", "\x00\x00\x00\x06\x00\x03\x00\x00\x01"
						"A"),
		ROW("a list that is too long", "\x00\x00\x00\x06\x00\x05\x00\x00\x01"
					       "A"),
		ROW("bytes behind the list", "\x00\x00\x00\x07\x00\x04\x00\x00\x01"
					     "Ax"),
		ROW("no protocols", "\x00\x10\x00\x02\x00\x00"),
		ROW("an empty protocol", "\x00\x10\x00\x03\x00\x01\x00"),
		ROW("half an extension", "\x00\x10\x00"),
		ROW("an extension that is too long", "\x00\x2a\x00\x01"),
#undef ROW
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct client_hello h;

		if (parse(hello_with(rows[i].extensions, rows[i].n), &h) != CLIENT_HELLO_BAD)
			fail_msg("%s is accepted", rows[i].what);
	}
}

static void long_names(void **state)
{
	uint8_t extension[9 + 256] = {0};
	struct client_hello h;

	for (unsigned n = 255; n <= 256; n++) {
		struct bytes b = {.n = 0};

		add_number(&b, 0, 2);
		add_number(&b, n + 5, 2);
		add_number(&b, n + 3, 2);
		add_number(&b, 0, 1);
		add_number(&b, n, 2);
		memcpy(extension, b.data, b.n);
		memset(extension + 9, 'a', n);
		assert_int_equal(parse(hello_with(extension, 9 + n), &h),
			n == 255 ? CLIENT_HELLO_OK : CLIENT_HELLO_BAD);
	}
	assert_int_equal(strlen(h.name), 255);
}

static void wrong_records(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} rows[] = {
		{2, 1},	   /* of no matter: the minor version */
		{3, 0xff}, /* too long a record */
		{5, 2},	   /* another message */
		{6, 1},	   /* too long a message */
		{8, 10},   /* shorter than its record */
		{9, 2},	   /* another major version */
		{43, 33},  /* too long a session id */
		{45, 3},   /* half a cipher suite */
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		struct bytes *b = HELLO_WITH(SNI_A);
		struct client_hello h;

		b->data[rows[i].at] = rows[i].value;
		if (rows[i].at == 6) /* the wait for it ends at 16 KiB */
			for (size_t n = 0; n < 20; n++)
				add(b, "\x16\x03\x01\x03\xe8", 5), b->n += 1000;
		assert_int_equal(parse(b, &h), i == 0 ? CLIENT_HELLO_OK : CLIENT_HELLO_BAD);
	}
}

static void another_record_between(void **state)
{
	static struct bytes many;
	struct client_hello h;

	split(captured(hello_curl), 100, &many);
	many.data[105] = 21; /* an alert */
	assert_int_equal(parse(&many, &h), CLIENT_HELLO_BAD);
	many.n = 106;
	assert_int_equal(parse(&many, &h), CLIENT_HELLO_BAD); /* before all is there */
}

static void other_protocols_pass(void **state)
{
	static const char *const rows[] = {"SSH-2.0-OpenSSH_9.2\r\n", "GET / HTTP/1.1\r\n", "x",
		"\x16", "\x14", "\x18", "\x16Hello", "\x15Hello", "\x19\x03\x01", "\x80\x01\x02",
		"PRI * HTTP/2.0\r\n", "\n", "\x80\x2e\x01\x03\x01\x01\x01\x01\x01\x01\x01"};
	struct client_hello h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		made.n = 0;
		add(&made, rows[i], strlen(rows[i]));
		assert_int_equal(parse(&made, &h),
			strlen(rows[i]) == 1 && rows[i][0] >= 20 && rows[i][0] <= 24
				? CLIENT_HELLO_MORE
				: CLIENT_HELLO_NOT_TLS);
	}
}

/* Go's servers skip an alert before the hello, and take any version in the first record. */
static void other_records_are_refused(void **state)
{
	static const char *const rows[] = {"\x15\x03\x01", "\x15\x03", "\x14\x03\x03",
		"\x17\x03\x03", "\x18\x02", "\x15\x0f\x0f", "\x16\x02\x01\x01\x01",
		"\x16\x0f\x01\x01\x01"};
	struct client_hello h;

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		made.n = 0;
		add(&made, rows[i], strlen(rows[i]));
		assert_int_equal(parse(&made, &h), CLIENT_HELLO_BAD);
	}
}

static void an_alert_before_the_hello(void **state)
{
	static const uint8_t alert[] = {21, 3, 1, 0, 2, 1, 90};
	struct client_hello h;
	struct bytes *b = HELLO_WITH(SNI_A);

	memmove(b->data + sizeof(alert), b->data, b->n);
	memcpy(b->data, alert, sizeof(alert));
	b->n += sizeof(alert);
	assert_int_equal(parse(b, &h), CLIENT_HELLO_BAD);
}

/* A server that still takes it would get no name to compare. */
static void ssl2_is_refused(void **state)
{
	static const uint8_t head[] = {0x80, 46, 1, 3, 1, 0, 21, 0, 0, 0, 16};
	struct client_hello h;

	made.n = 0;
	add(&made, head, sizeof(head));
	for (; made.n > 0; made.n--)
		assert_int_equal(parse(&made, &h),
			made.n == sizeof(head) ? CLIENT_HELLO_BAD : CLIENT_HELLO_MORE);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(real_clients_are_understood),
		cmocka_unit_test(pieces_are_joined),
		cmocka_unit_test(flipped_bits),
		cmocka_unit_test(extensions_are_read),
		cmocka_unit_test(wrong_hellos),
		cmocka_unit_test(long_names),
		cmocka_unit_test(wrong_records),
		cmocka_unit_test(another_record_between),
		cmocka_unit_test(other_protocols_pass),
		cmocka_unit_test(other_records_are_refused),
		cmocka_unit_test(an_alert_before_the_hello),
		cmocka_unit_test(ssl2_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
