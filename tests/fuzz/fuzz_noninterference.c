/* Two exchanges whose secrets differ in their bytes only: a program that lets a server send
 * anything gets the same of both, step by step (tests/unit/twins.h). The first byte of the input
 * chooses the protocol and the host. A step is a byte with its kind and a count, and for bytes of a
 * side, these. A guess is the beginning of a secret; so is one of the base64 text that is made of
 * it. As soon as a whole secret is there the run ends, because that may be told. */
#include "fuzz.h"

#include "../unit/twins.h"
#include "intercept/frames.h"
#include "intercept/scrub.h"

enum kind { GUEST, SERVER, GUESS, CODED, SPACE, DEAF, HEARS, END };

enum { KINDS = 8, COUNT = 32, FRAME_HEAD = 9 };

static const char *const hosts[] = {"held.test", "api.test", "text.test", "many.test"};
static const char coded[] = "YWFhYWFhYWE6c2stcmVhbC01dXAzcjVlY3JldA";

/* Bytes of the server; of HTTP/2, data of the first stream. */
static bool feed_answer(struct twins *t, bool h2, const void *data, size_t n)
{
	uint8_t frame[FRAME_HEAD + 4096] = {
		(uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n, 0, 0, 0, 0, 0, 1};

	if (!h2)
		return twins_feed(t, EXCHANGE_SERVER, data, n);
	memcpy(frame + FRAME_HEAD, data, n);
	return twins_feed(t, EXCHANGE_SERVER, frame, FRAME_HEAD + n);
}

static bool feed_guess(struct twins *t, bool h2, const char *text, size_t n)
{
	size_t most = strlen(text) - 1;

	return feed_answer(t, h2, text, n < most ? n : most);
}

static const char *secret_of(const char *host)
{
	const struct twins_secrets *s = &twins_secrets[0];

	if (strcmp(host, "text.test") == 0)
		return s->text;
	return strcmp(host, "many.test") == 0 ? "number-3-abcdef" : s->held;
}

/* A page of blanks and letters, so that windows and buffers fill. */
static bool feed_space(struct twins *t, bool h2, size_t n)
{
	uint8_t page[4096];

	memset(page, n % 2 ? ' ' : 'k', sizeof(page));
	for (size_t i = 0; i < n; i++)
		if (!feed_answer(t, h2, page, sizeof(page)))
			return false;
	return true;
}

static bool step(struct twins *t, bool h2, const char *host, unsigned kind, size_t n)
{
	switch ((enum kind)kind) {
	case GUESS:
		return feed_guess(t, h2, secret_of(host), n);
	case CODED:
		return feed_guess(t, h2, coded, n);
	case SPACE:
		return feed_space(t, h2, n);
	case DEAF:
	case HEARS:
		t->deaf = kind == DEAF;
		return twins_feed(t, EXCHANGE_SERVER, "", 0);
	default:
		return twins_end(t, n % 2 ? EXCHANGE_GUEST : EXCHANGE_SERVER);
	}
}

/* A request, so that the server may answer. */
static void begin1(struct twins *t, const char *host)
{
	struct buf b = BUF_INIT(4096);

	(void)buf_printf(&b,
		"GET / HTTP/1.1\r\nHost: %s\r\nConnection: upgrade\r\nUpgrade: websocket\r\n"
		"Authorization: Basic YWFhYWFhYWE6c2stbWZseS0wMTIzNDU2Nzg5\r\n\r\n",
		host);
	check(twins_feed(t, EXCHANGE_GUEST, buf_head(&b), buf_len(&b)));
	buf_done(&b);
}

static void begin2(struct twins *t, const char *host)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
			     settings[FRAME_HEAD] = {0, 0, 0, 4},
			     answer[] = {0, 0, 1, 1, 4, 0, 0, 0, 1, 0x88};
	uint8_t head[64] = {0, 0, (uint8_t)(5 + strlen(host)), 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x84,
		0x01, (uint8_t)strlen(host)};

	memcpy(head + FRAME_HEAD + 5, host, strlen(host));
	check(twins_feed(t, EXCHANGE_GUEST, preface, sizeof(preface) - 1));
	check(twins_feed(t, EXCHANGE_SERVER, settings, sizeof(settings)));
	check(twins_feed(t, EXCHANGE_GUEST, head, FRAME_HEAD + 5 + strlen(host)));
	check(twins_feed(t, EXCHANGE_SERVER, answer, sizeof(answer)));
}

static void run(struct twins *t, bool h2, const char *host, const uint8_t *data, size_t size)
{
	for (size_t at = 0; at < size;) {
		unsigned kind = data[at] % KINDS;
		size_t n = data[at++] / KINDS, left = size - at;
		bool equal;

		if (kind <= SERVER) {
			n = n == COUNT - 1 ? 64 * n : n;
			n = n < left ? n : left;
			equal = twins_feed(
				t, kind == GUEST ? EXCHANGE_GUEST : EXCHANGE_SERVER, data + at, n);
			at += n;
		} else {
			equal = step(t, h2, host, kind, n);
		}
		if (twins_said(t))
			return;
		check(equal);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct twins t;
	const char *host;

	if (size < 1 || size > 4096)
		return 0;
	host = hosts[data[0] & 3];
	check(twins_open(&t, data[0] & 4 ? EXCHANGE_HTTP2 : EXCHANGE_HTTP1, host));
	if (data[0] & 4)
		begin2(&t, host);
	else
		begin1(&t, host);
	run(&t, data[0] & 4, host, data + 1, size - 1);
	twins_close(&t);
	return 0;
}
