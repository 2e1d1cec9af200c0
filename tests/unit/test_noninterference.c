/* What a program gets of answers, and when, tells nothing of secrets: with two secrets of equal
 * length it gets the same, step by step, whatever it lets the server send. See twins.h. */
#include "test.h"

#include "base/cleanup.h"
#include "h2_peer.h"
#include "twins.h"

/* The bytes of an answer; '\1' stands for a guess. */
static const struct row {
	const char *host, *answer;
	bool end; /* the server ends then */
} rows[] = {
	{"held.test", "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\n\1"},
	{"held.test", "HTTP/1.1 200 OK\r\nContent-Length: 99\r\nX-\1: \1\r\n\r\n \1 \1\1\n"},
	{"api.test", "HTTP/1.1 200 OK\r\nContent-Length: 64\r\n\r\ndata: \1"},
	{"api.test", "HTTP/1.1 200 OK\r\n\r\n\1", true},
	{"api.test", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3a\r\n\1"},
	{"text.test", "HTTP/1.1 200 OK\r\n\r\n{\"x\": \"\1", true},
	{"many.test", "HTTP/1.1 200 OK\r\n\r\n\1,\1", true},
	{"held.test", "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n\1", true},
	{"held.test", "HTTP/1.1 206 Partial\r\nContent-Range: bytes 3-9/9\r\n\r\n\1", true},
	{"held.test", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
		      "Upgrade: websocket\r\n\r\n\x81\x40\1"},
	{"held.test", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\n"
		      "Upgrade: websocket\r\n\r\n\1\n\1"},
};

/* The first n bytes of one of the first twin's secrets, or with the last of them changed. */
static void put_guess(struct buf *b, const char *host, size_t n, bool wrong)
{
	const struct twins_secrets *s = &twins_secrets[0];
	const char *secret = strcmp(host, "text.test") == 0   ? s->text
			     : strcmp(host, "many.test") == 0 ? "number-3-abcdef"
							      : s->held;
	size_t most = strlen(secret) - 1;

	n = n < most ? n : most;
	assert_int_equal(buf_add(b, secret, n), 0);
	if (wrong)
		b->data[b->end - 1] ^= 1;
}

static void make_answer(struct buf *b, const struct row *row, size_t n, bool wrong)
{
	for (const char *p = row->answer; *p; p++)
		if (*p == 1)
			put_guess(b, row->host, n, wrong);
		else
			assert_int_equal(buf_add_u8(b, (uint8_t)*p), 0);
}

static void play_row(const struct row *row, size_t guess, bool wrong, size_t piece)
{
	struct buf answer = BUF_INIT(4096), request = BUF_INIT(4096);
	struct twins t;

	assert_true(twins_open(&t, EXCHANGE_HTTP1, row->host));
	make_answer(&answer, row, guess, wrong);
	(void)buf_printf(&request,
		"GET / HTTP/1.1\r\nHost: %s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
		"Authorization: Basic YWFhYWFhYWE6c2stbWZseS0wMTIzNDU2Nzg5\r\n\r\n",
		row->host);
	assert_true(twins_feed(&t, EXCHANGE_GUEST, buf_head(&request), buf_len(&request)));
	for (size_t at = 0; at < buf_len(&answer); at += piece) {
		size_t n = buf_len(&answer) - at < piece ? buf_len(&answer) - at : piece;

		if (!twins_feed(&t, EXCHANGE_SERVER, buf_head(&answer) + at, n))
			fail_msg("%s, %s: a guess of %zu bytes is told at %zu", row->host,
				row->answer, guess, at);
	}
	if (row->end)
		assert_true(twins_end(&t, EXCHANGE_SERVER));
	assert_false(twins_said(&t));
	twins_close(&t);
	buf_done(&answer);
	buf_done(&request);
}

static void guesses_in_answers_tell_nothing(void **state)
{
	static const size_t pieces[] = {1, 7, SIZE_MAX / 2};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		for (size_t guess = 1; guess < 24; guess++)
			for (size_t k = 0; k < ARRAY_SIZE(pieces); k++) {
				play_row(&rows[i], guess, false, pieces[k]);
				play_row(&rows[i], guess, true, pieces[k]);
			}
}

/* The program knows the beginning of the base64 text that we make, as it has chosen it. */
static void credentials_tell_nothing(void **state)
{
	static const char answer[] = "HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n";
	/* "aaaaaaaa:sk-real-5up3r5ecret" */
	static const char coded[] = "YWFhYWFhYWE6c2stcmVhbC01dXAzcjVlY3JldA";

	for (size_t guess = 1; guess < sizeof(coded) - 2; guess++) {
		struct twins t;

		assert_true(twins_open(&t, EXCHANGE_HTTP1, "held.test"));
		assert_true(twins_feed(&t, EXCHANGE_GUEST,
			"GET / HTTP/1.1\r\nHost: held.test\r\nAuthorization: "
			"Basic YWFhYWFhYWE6c2stbWZseS0wMTIzNDU2Nzg5\r\n\r\n",
			101));
		assert_non_null(strstr(fixture_sent(&t.f[0], EXCHANGE_SERVER), coded));
		assert_true(twins_feed(&t, EXCHANGE_SERVER, answer, sizeof(answer) - 1));
		assert_true(twins_feed(&t, EXCHANGE_SERVER, coded, guess));
		assert_true(twins_feed(&t, EXCHANGE_SERVER, "\n", 1));
		assert_true(twins_feed(&t, EXCHANGE_SERVER, coded, guess));
		twins_close(&t);
	}
}

/* It stores a large object, and reads so much of it that a guess stands where we stop. */
static void stored_objects_tell_nothing(void **state)
{
	static const char head[] = "HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n";
	struct buf object = BUF_INIT(2 << 20);
	size_t n = strlen(twins_secrets[0].held) - 1;

	for (size_t i = 0; i < 1000000 / n; i++)
		assert_int_equal(buf_add(&object, twins_secrets[0].held, n), 0);
	for (size_t shift = 0; shift < n; shift++) {
		struct twins t;

		assert_true(twins_open(&t, EXCHANGE_HTTP1, "held.test"));
		assert_true(twins_feed(
			&t, EXCHANGE_GUEST, "GET / HTTP/1.1\r\nHost: held.test\r\n\r\n", 37));
		t.deaf = true;
		assert_true(twins_feed(&t, EXCHANGE_SERVER, head, sizeof(head) - 1));
		assert_true(twins_feed(
			&t, EXCHANGE_SERVER, buf_head(&object) + shift, buf_len(&object) - shift));
		t.deaf = false;
		assert_true(twins_feed(&t, EXCHANGE_SERVER, buf_head(&object) + shift, 1000));
		twins_close(&t);
	}
	buf_done(&object);
}

/* --- HTTP/2 --- */

struct scene {
	struct twins t;
	struct peer guest[2], server[2];
};

static void run(struct scene *s)
{
	for (unsigned n = 0; n < 2; n++) {
		bool more = true;

		while (more) {
			more = peer_move(&s->guest[n]);
			more = peer_move(&s->server[n]) || more;
		}
	}
	assert_string_equal(peer_log(&s->guest[0]), peer_log(&s->guest[1]));
	assert_int_equal(s->guest[0].bytes, s->guest[1].bytes);
}

static void open_scene(struct scene *s, const struct peer_answer *answer, uint32_t window)
{
	nghttp2_settings_entry settings = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};

	assert_true(twins_open(&s->t, EXCHANGE_HTTP2, "held.test"));
	for (unsigned n = 0; n < 2; n++) {
		assert_true(peer_open(&s->guest[n], &s->t.f[n], EXCHANGE_GUEST));
		assert_true(peer_open(&s->server[n], &s->t.f[n], EXCHANGE_SERVER));
		assert_int_equal(nghttp2_submit_settings(s->guest[n].n, 0, &settings, 1), 0);
		s->server[n].answer = *answer;
	}
	run(s);
}

static void close_scene(struct scene *s)
{
	twins_close(&s->t);
	for (unsigned n = 0; n < 2; n++) {
		peer_close(&s->guest[n]);
		peer_close(&s->server[n]);
	}
}

static void request(struct scene *s)
{
	for (unsigned n = 0; n < 2; n++)
		(void)peer_request(&s->guest[n],
			":method=GET\n:scheme=https\n:authority=held.test\n:path=/\n"
			"authorization=" PLACEHOLDER "\n",
			NULL, 0, NULL);
	run(s);
}

/* The guess stands at the end of the window that servers have, and that of the program is opened
 * byte by byte. */
static void closed_windows_tell_nothing(void **state)
{
	enum { BYTES = 128 << 10 };
	char *object = malloc(BYTES + 1);

	for (size_t guess = 1; guess < strlen(twins_secrets[0].held); guess++) {
		struct peer_answer answer = {
			.fields = ":status=200\n", .body = object, .stays = true};
		struct scene s;

		memset(object, ' ', BYTES);
		object[BYTES] = '\0';
		memcpy(object + BYTES - guess, twins_secrets[0].held, guess);
		open_scene(&s, &answer, 0);
		request(&s);
		for (uint32_t window = BYTES - 40; window < BYTES + 4; window++) {
			nghttp2_settings_entry e = {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, window};

			for (unsigned n = 0; n < 2; n++) {
				s.guest[n].hold = true;
				(void)nghttp2_submit_settings(s.guest[n].n, 0, &e, 1);
				(void)nghttp2_session_set_local_window_size(
					s.guest[n].n, 0, 0, 1 << 20);
			}
			run(&s);
		}
		assert_int_equal(s.guest[0].bytes, BYTES - guess);
		close_scene(&s);
	}
	free(object);
}

static void stalled_streams_tell_nothing(void **state)
{
	static const char *const types[] = {":status=200\n",
		":status=200\ncontent-type=application/grpc\n", ":status=200\ncontent-length=999\n",
		":status=200\ncontent-encoding=gzip\n"};
	size_t most = strlen(twins_secrets[0].held);

	for (size_t i = 0; i < ARRAY_SIZE(types); i++)
		for (size_t guess = 1; guess < most; guess++) {
			_cleanup_free_ char *body = strndup(twins_secrets[0].held, guess);
			struct peer_answer answer = {
				.fields = types[i], .body = body, .stays = true};
			struct scene s;

			open_scene(&s, &answer, 65535);
			for (unsigned n = 0; n < 12; n++)
				request(&s);
			close_scene(&s);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(guesses_in_answers_tell_nothing),
		cmocka_unit_test(credentials_tell_nothing),
		cmocka_unit_test(stored_objects_tell_nothing),
		cmocka_unit_test(closed_windows_tell_nothing),
		cmocka_unit_test(stalled_streams_tell_nothing),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
