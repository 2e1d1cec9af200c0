/* HTTP/2 of an intercepted connection between a program and a server that both send anything behind
 * their prefaces. The input is pieces: two bytes with a side (the highest bit) and a length, then
 * the bytes; the first byte of all chooses the host.
 *
 * What the server gets is read by a strict session of nghttp2: requests for just this host, no more
 * than were judged. What the program gets has no secret in it: headers are unpacked, bodies put
 * together. */
#include "fuzz.h"

#include <nghttp2/nghttp2.h>

#include "exchange_play.h"
#include "intercept/exchange.h"
#include "intercept/rewrite.h"
#include "intercept/scrub.h"

enum { BODIES = 16, FRAME_HEAD = 9, PREFACE = 24 };

/* The bytes of the frame that begins at `at`; 0: it is cut off. */
static size_t frame_bytes(const struct buf *b, size_t at)
{
	const uint8_t *head = buf_head(b) + at;
	size_t left = buf_len(b) - at, n;

	if (left < FRAME_HEAD)
		return 0;
	n = FRAME_HEAD + ((size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2]);
	return n <= left ? n : 0;
}

/* --- the server's side --- */

static int on_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags, void *arg)
{
	struct play *p = arg;

	check(strcmp((const char *)name, "host") != 0 && strcmp((const char *)name, "expect") != 0);
	if (strcmp((const char *)name, ":authority") == 0) {
		p->heads++;
		check(strcmp((const char *)value, p->host) == 0);
	}
	return 0;
}

static int on_invalid_frame(nghttp2_session *n, const nghttp2_frame *frame, int code, void *arg)
{
	(void)fprintf(stderr, "frame %u: %s\n", frame->hd.type, nghttp2_strerror(code));
	check(false);
}

/* To settings and promises that the reader below did not send. */
static bool is_answer_to_server(const uint8_t *head)
{
	bool promised = (head[5] || head[6] || head[7] || head[8]) && head[8] % 2 == 0;

	return promised || (head[3] == NGHTTP2_SETTINGS && head[4] & NGHTTP2_FLAG_ACK);
}

static void read_requests(struct play *p)
{
	const struct buf *sent = &p->f.out[EXCHANGE_SERVER];
	nghttp2_session_callbacks *c;
	nghttp2_session *n;
	nghttp2_option *o;
	const uint8_t *answer;

	check(nghttp2_session_callbacks_new(&c) == 0 && nghttp2_option_new(&o) == 0);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_frame_recv_callback(c, on_invalid_frame);
	nghttp2_option_set_stream_reset_rate_limit(o, 100000, 100000);
	check(nghttp2_session_server_new2(&n, c, p, o) == 0);
	check(nghttp2_session_mem_recv(n, buf_head(sent), PREFACE) == PREFACE);
	for (size_t at = PREFACE, bytes; at < buf_len(sent); at += bytes) {
		const uint8_t *head = buf_head(sent) + at;

		bytes = frame_bytes(sent, at);
		if (bytes == 0)
			break; /* cut off */
		if (is_answer_to_server(head))
			continue;
		check(nghttp2_session_mem_recv(n, head, bytes) == (ssize_t)bytes);
		while (nghttp2_session_mem_send(n, &answer) > 0) {
		}
	}
	check(p->heads <= p->judged);
	nghttp2_session_del(n);
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
}

/* --- the program's side --- */

/* Of the secrets that may have gone to this host. */
static void no_secret(const struct play *p, const void *data, size_t n)
{
	if (n && strcmp(p->host, "api.test") == 0)
		check(!memmem(data, n, RULE_SECRET, strlen(RULE_SECRET)));
	if (n && (strcmp(p->host, "api.test") == 0 || strcmp(p->host, "held.test") == 0))
		check(!memmem(data, n, HELD_SECRET, strlen(HELD_SECRET)));
}

static void unpack(const struct play *p, nghttp2_hd_inflater *inflater, const uint8_t *data,
	size_t n, bool last)
{
	nghttp2_nv nv;
	int flags = 0;
	ssize_t used;

	do {
		used = nghttp2_hd_inflate_hd2(inflater, &nv, &flags, data, n, last);
		check(used >= 0);
		data += used;
		n -= (size_t)used;
		if (flags & NGHTTP2_HD_INFLATE_EMIT) {
			no_secret(p, nv.name, nv.namelen);
			no_secret(p, nv.value, nv.valuelen);
		}
	} while (!(flags & NGHTTP2_HD_INFLATE_FINAL) && (n || flags & NGHTTP2_HD_INFLATE_EMIT));
	if (flags & NGHTTP2_HD_INFLATE_FINAL)
		check(nghttp2_hd_inflate_end_headers(inflater) == 0);
}

static void read_frame(const struct play *p, nghttp2_hd_inflater *inflater, const uint8_t *head,
	size_t n, struct buf bodies[BODIES])
{
	const uint8_t *body = head + FRAME_HEAD;
	unsigned id = head[8];

	no_secret(p, body, n);
	if (head[3] == NGHTTP2_DATA)
		(void)buf_add(&bodies[id % BODIES], body, n);
	else if (head[3] == NGHTTP2_HEADERS || head[3] == NGHTTP2_CONTINUATION)
		unpack(p, inflater, body, n, head[4] & NGHTTP2_FLAG_END_HEADERS);
}

static void read_answers(struct play *p)
{
	const struct buf *sent = &p->f.out[EXCHANGE_GUEST];
	struct buf bodies[BODIES] = {0};
	nghttp2_hd_inflater *inflater;
	size_t at = 0, n;

	check(nghttp2_hd_inflate_new(&inflater) == 0);
	for (unsigned i = 0; i < BODIES; i++)
		buf_init(&bodies[i], 64 << 20);
	for (; (n = frame_bytes(sent, at)); at += n)
		read_frame(p, inflater, buf_head(sent) + at, n - FRAME_HEAD, bodies);
	for (unsigned i = 0; i < BODIES; i++) {
		if (buf_len(&bodies[i]))
			no_secret(p, buf_head(&bodies[i]), buf_len(&bodies[i]));
		buf_done(&bodies[i]);
	}
	nghttp2_hd_inflate_del(inflater);
}

/* --- a run --- */

static void open_play(struct play *p, const char *host)
{
	static const uint8_t preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0",
			     settings[FRAME_HEAD] = {0, 0, 0, 4};
	struct intercept *i = fixture_intercept(fixture_rules);
	struct exchange_options o = {.protocol = EXCHANGE_HTTP2,
		.host = host,
		.port = 443,
		.intercept = i,
		.callbacks = {play_judge, play_record, p}};

	*p = (struct play){.least_status = 200,
		.f = {.out = {BUF_INIT(64 << 20), BUF_INIT(64 << 20)}, .log = BUF_INIT(16 << 20)},
		.host = host};
	check(i && exchange_new(&o, &p->f.x) == 0);
	intercept_unref(i);
	(void)fixture_feed(&p->f, EXCHANGE_GUEST, preface, sizeof(preface) - 1, SIZE_MAX);
	(void)fixture_feed(&p->f, EXCHANGE_SERVER, settings, sizeof(settings), SIZE_MAX);
	check(exchange_state(p->f.x) == EXCHANGE_GOING);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hosts[] = {"api.test", "held.test", "plain.test", "a.test"};
	struct play p;

	if (size < 1)
		return 0;
	open_play(&p, hosts[data[0] & 3]);
	for (size_t at = 1; size - at >= 2;) {
		size_t n = (size_t)(data[at] & 0x7f) << 8 | data[at + 1];
		enum exchange_side side = data[at] & 0x80 ? EXCHANGE_SERVER : EXCHANGE_GUEST;

		at += 2;
		n = n < size - at ? n : size - at;
		(void)fixture_feed(&p.f, side, data + at, n, SIZE_MAX);
		at += n;
		check(exchange_memory(p.f.x) < 4 << 20);
	}
	exchange_receive_end(p.f.x, EXCHANGE_SERVER);
	fixture_drain(&p.f);
	read_requests(&p);
	read_answers(&p);
	fixture_close(&p.f);
	return 0;
}
