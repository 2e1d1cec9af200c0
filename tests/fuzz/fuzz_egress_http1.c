/* HTTP/1.1 of an intercepted connection between a program and a server that both send anything.
 * Pieces that 0xff ends go to the exchange in turn, of the program first; the first byte chooses
 * the host and the size of what is received at once.
 *
 * What the server gets is read by a reader of its own, which knows nothing of ours: only requests
 * that were judged, for just this host, with one framing each. What the program gets has no secret
 * in it. However the bytes are cut, the same becomes of the requests. */
#include "fuzz.h"

#include "exchange_play.h"
#include "intercept/exchange.h"
#include "intercept/rewrite.h"
#include "proto/http.h"

/* --- a strict reader of requests --- */

struct reader {
	const char *at, *end;
	unsigned heads;
	bool websocket;
};

/* The length of the line here without its CRLF; -1 when it is not all there. */
static ptrdiff_t line(const struct reader *r)
{
	const char *lf = memchr(r->at, '\n', (size_t)(r->end - r->at));

	if (!lf)
		return -1;
	check(lf > r->at && lf[-1] == '\r');
	check(!memchr(r->at, '\r', (size_t)(lf - 1 - r->at)));
	return lf - 1 - r->at;
}

static bool is_field(const char *p, size_t n, const char *name, const char **ret)
{
	size_t length = strlen(name);

	if (n < length + 2 || strncasecmp(p, name, length) != 0 || p[length] != ':')
		return false;
	*ret = p + length + 2;
	return true;
}

struct framing {
	unsigned hosts, lengths, codings;
	unsigned long long length;
};

static void read_field(struct reader *r, size_t n, const char *host, struct framing *f)
{
	const char *value;

	check(r->at[0] != ' ' && r->at[0] != '\t' && memchr(r->at, ':', n));
	if (is_field(r->at, n, "host", &value)) {
		f->hosts++;
		check((size_t)(r->at + n - value) == strlen(host) &&
			memcmp(value, host, strlen(host)) == 0);
	} else if (is_field(r->at, n, "content-length", &value)) {
		f->lengths++;
		f->length = strtoull(value, NULL, 10);
	} else if (is_field(r->at, n, "transfer-encoding", &value)) {
		f->codings++;
		check((size_t)(r->at + n - value) == 7 && memcmp(value, "chunked", 7) == 0);
	} else if (is_field(r->at, n, "upgrade", &value)) {
		r->websocket = true;
		check(memcmp(value, "websocket", 9) == 0);
	}
}

/* False when the rest is not there. */
static bool skip(struct reader *r, unsigned long long n)
{
	if ((unsigned long long)(r->end - r->at) < n)
		return false;
	r->at += n;
	return true;
}

static bool read_chunks(struct reader *r)
{
	ptrdiff_t n;
	unsigned long long size;

	do {
		char *stop;

		n = line(r);
		if (n < 0)
			return false;
		size = strtoull(r->at, &stop, 16);
		check(n > 0 && stop == r->at + n);
		r->at += n + 2;
		if (!skip(r, size))
			return false;
		if (r->end - r->at < 2)
			return false;
		check(r->at[0] == '\r' && r->at[1] == '\n');
		r->at += 2;
	} while (size);
	return true;
}

/* Reads a request. False at the end, or when it is not all there. */
static bool read_request(struct reader *r, const char *host)
{
	struct framing f = {0};
	const char *blank;
	ptrdiff_t n = line(r);

	if (n < 0)
		return false;
	blank = memchr(r->at, ' ', (size_t)n);
	check(n > 11 && memcmp(r->at + n - 9, " HTTP/1.1", 9) == 0);
	check(blank && blank > r->at && (blank[1] == '/' || blank[1] == '*'));
	check(memchr(blank + 1, ' ', (size_t)(r->at + n - blank - 1)) == r->at + n - 9);
	for (r->at += n + 2; (n = line(r)) > 0; r->at += n + 2)
		read_field(r, (size_t)n, host, &f);
	if (n < 0)
		return false;
	r->at += 2;
	r->heads++;
	check(f.hosts == 1 && f.lengths + f.codings <= 1);
	return f.codings ? read_chunks(r) : skip(r, f.length);
}

/* --- the program's side --- */

/* Of the secrets that may have gone to this host. */
static void no_secret(const struct buf *b, const char *host)
{
	const void *text = buf_head(b);
	size_t n = buf_len(b);

	if (text && n && strcmp(host, "api.test") == 0)
		check(!memmem(text, n, RULE_SECRET, strlen(RULE_SECRET)));
	if (text && n && (strcmp(host, "api.test") == 0 || strcmp(host, "held.test") == 0))
		check(!memmem(text, n, HELD_SECRET, strlen(HELD_SECRET)));
}

/* Takes chunks apart, in which a secret might be cut. */
static void read_answers(const struct buf *b, const char *host)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http_parser *p;
	struct buf bodies = BUF_INIT(64 << 20);
	const uint8_t *at = buf_len(b) ? buf_head(b) : NULL, *body;
	size_t left = buf_len(b), used, n;
	enum http_event event = HTTP_MORE;

	limits.head_max = REWRITE_HEAD_MAX;
	limits.headers_max = EXCHANGE_FIELDS_MAX + 8;
	p = http_parser_new(HTTP_ROLE_CLIENT, &limits);
	while (at && (event = http_parser_next(p, at, left, &used)) != HTTP_MORE &&
		event != HTTP_ERROR && event != HTTP_UPGRADE) {
		at += used;
		left -= used;
		if (event == HTTP_BODY) {
			body = http_parser_body(p, &n);
			(void)buf_add(&bodies, body, n);
		} else if (event == HTTP_END) {
			http_parser_continue(p);
		}
	}
	no_secret(&bodies, host);
	buf_done(&bodies);
	http_parser_free(p);
}

/* --- a run --- */

static void open_play(struct play *p, const char *host)
{
	struct intercept *i = fixture_intercept(fixture_rules);
	struct exchange_options o = {.protocol = EXCHANGE_HTTP1,
		.host = host,
		.port = 443,
		.intercept = i,
		.callbacks = {play_judge, play_record, p}};

	*p = (struct play){.least_status = 101,
		.f = {.out = {BUF_INIT(64 << 20), BUF_INIT(64 << 20)}, .log = BUF_INIT(16 << 20)},
		.wait = {BUF_INIT(16 << 20), BUF_INIT(16 << 20)}};
	check(i && exchange_new(&o, &p->f.x) == 0);
	intercept_unref(i);
}

/* Feeds what waits on both sides as long as something is taken. */
static void feed(struct play *p, size_t piece)
{
	size_t took = 1;

	while (took) {
		took = 0;
		for (unsigned side = 0; side < 2; side++) {
			struct buf *w = &p->wait[side];
			size_t n = buf_len(w) ? fixture_feed(
							&p->f, side, buf_head(w), buf_len(w), piece)
					      : 0;

			buf_consume(w, n);
			took += n;
		}
	}
	check(exchange_memory(p->f.x) < 2 << 20);
}

static void run(struct play *p, const uint8_t *data, size_t size, size_t piece)
{
	enum exchange_side side = EXCHANGE_GUEST;

	while (size) {
		const uint8_t *end = memchr(data, 0xff, size);
		size_t n = end ? (size_t)(end - data) : size;

		(void)buf_add(&p->wait[side], data, n);
		feed(p, piece);
		n += end != NULL;
		data += n;
		size -= n;
		side = !side;
	}
	if (!buf_len(&p->wait[EXCHANGE_SERVER]))
		exchange_receive_end(p->f.x, EXCHANGE_SERVER);
	fixture_drain(&p->f);
}

static void judge_play(struct play *p, const char *host)
{
	const struct buf *sent = &p->f.out[EXCHANGE_SERVER];
	struct reader r = {0};

	if (buf_len(sent))
		r = (struct reader){(const char *)buf_head(sent),
			(const char *)buf_head(sent) + buf_len(sent), 0, false};
	while (r.at && read_request(&r, host) && !r.websocket) {
	}
	/* one that was held may wait for another server */
	check(r.websocket || exchange_needs_server(p->f.x) ? r.heads <= p->judged
							   : r.heads == p->judged);
	no_secret(&p->f.out[EXCHANGE_GUEST], host);
	read_answers(&p->f.out[EXCHANGE_GUEST], host);
}

static void close_play(struct play *p)
{
	buf_done(&p->wait[0]);
	buf_done(&p->wait[1]);
	fixture_close(&p->f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const hosts[] = {"api.test", "held.test", "plain.test", "a.test"};
	struct play whole, pieces;
	const char *host;

	if (size < 1)
		return 0;
	host = hosts[data[0] & 3];
	open_play(&whole, host);
	run(&whole, data + 1, size - 1, SIZE_MAX);
	judge_play(&whole, host);
	open_play(&pieces, host);
	run(&pieces, data + 1, size - 1, 1 + (data[0] >> 2) % 16);
	judge_play(&pieces, host);
	check(same(&whole.f.log, &pieces.f.log));
	check(same(&whole.f.out[EXCHANGE_SERVER], &pieces.f.out[EXCHANGE_SERVER]) ||
		strstr(fixture_sent(&whole.f, EXCHANGE_SERVER), "Transfer-Encoding: chunked"));
	close_play(&whole);
	close_play(&pieces);
	return 0;
}
