/* Streams of an intercepted connection of HTTP/2, and the bodies that wait in them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "intercept/exchange_http2_internal.h"
#include "intercept/rewrite.h"

enum { STREAMS_KEPT = 2 * EXCHANGE_STREAMS_MAX /* with those that only one side has ended */ };

static void init_way(struct http2_way *w)
{
	fields_init(&w->head, EXCHANGE_HEAD_MAX + EXCHANGE_FIELDS_MAX * 2, EXCHANGE_FIELDS_MAX + 4);
	fields_init(&w->trailers, REWRITE_HEAD_MAX, EXCHANGE_FIELDS_MAX + 4);
	buf_init(&w->body, HTTP2_STREAM_WINDOW + INTERCEPT_SECRET_MAX);
}

static void done_way(struct http2_way *w)
{
	fields_done(&w->head);
	fields_done(&w->trailers);
	buf_done(&w->body);
}

struct http2_stream *http2_stream_new(struct exchange *x, int32_t id)
{
	struct http2 *h = x->http2;
	struct http2_stream *s = h->count < STREAMS_KEPT ? calloc(1, sizeof(*s)) : NULL;

	if (!s)
		return NULL;
	if (exchange_request_begin(x, &s->q) < 0) {
		free(s);
		return NULL;
	}
	s->x = x;
	s->id[EXCHANGE_GUEST] = id;
	s->closed[EXCHANGE_SERVER] = true;
	init_way(&s->from[EXCHANGE_GUEST]);
	init_way(&s->from[EXCHANGE_SERVER]);
	fields_init(&s->held_head, 0, 0);
	s->next = h->streams;
	h->streams = s;
	h->count++;
	h->served = true;
	return s;
}

/* Counts what a stream keeps of fields that came from a side, until it is freed. 0 or -ENOMEM. */
int http2_stream_keep(struct http2_stream *s, enum exchange_side from, size_t n)
{
	if (!http2_account_take(&s->x->http2->account, n))
		return -ENOMEM;
	s->from[from].counted += n;
	return 0;
}

/* Bytes of a held stream for which the connection's window was opened before its own. */
static void take_back(struct http2_stream *s, size_t n)
{
	s->lent -= n;
	s->x->http2->lent -= n;
	http2_budget_give(s->x->budget, n);
}

void http2_stream_free(struct http2_stream *s)
{
	struct http2_stream **p = &s->x->http2->streams;

	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	s->x->http2->count--;
	take_back(s, s->lent);
	fields_done(&s->held_head);
	http2_account_give(&s->x->http2->account,
		s->from[EXCHANGE_GUEST].counted + s->from[EXCHANGE_SERVER].counted);
	exchange_request_end(s->x, &s->q);
	done_way(&s->from[EXCHANGE_GUEST]);
	done_way(&s->from[EXCHANGE_SERVER]);
	free(s);
}

/* Lets a side send so many bytes more. */
static void give_back(struct http2_stream *s, enum exchange_side from, size_t n)
{
	size_t opened = from == EXCHANGE_GUEST && s->opened < n ? s->opened : n;
	size_t lent;

	if (from == EXCHANGE_GUEST) {
		s->opened -= opened;
		n -= opened;
	}
	if (!n || !s->id[from])
		return;
	lent = from == EXCHANGE_GUEST ? s->lent : s->spared - scrub_waiting(&s->q.scrub);
	lent = lent < n ? lent : n;
	if (n > lent)
		(void)nghttp2_session_consume(
			http2_session_of(s, from), s->id[from], n - lent); /* a stream
					       * that is gone counts for the connection */
	if (!lent)
		return;
	(void)nghttp2_session_consume_stream(
		http2_session_of(s, from), s->id[from], lent); /* likewise */
	if (from == EXCHANGE_GUEST)
		take_back(s, lent);
	else
		s->spared -= lent;
}

/* Bytes of a stalled answer that wait in the scrubber must not stop other streams, so the
 * connection's window is opened for them. The account counts them (scrub_memory()). */
static void spare(struct http2_stream *s)
{
	size_t wait = scrub_waiting(&s->q.scrub);

	if (wait <= s->spared)
		return;
	(void)nghttp2_session_consume_connection(
		http2_session_of(s, EXCHANGE_SERVER), wait - s->spared); /* it has so many */
	s->spared = wait;
}

/* Bytes for which the server's windows are closed. */
static size_t waiting(const struct http2_stream *s)
{
	return buf_len(&s->from[EXCHANGE_SERVER].body) + scrub_waiting(&s->q.scrub) +
	       exchange_tools_waiting(&s->q);
}

int http2_take_answer(struct http2_stream *s, const uint8_t *data, size_t bytes)
{
	size_t before = waiting(s);
	int r = exchange_answer_bytes(&s->q, data, bytes, &s->from[EXCHANGE_SERVER].body);
	size_t after = waiting(s);

	spare(s);
	if (after < before + bytes) /* tools were left out */
		give_back(s, EXCHANGE_SERVER, before + bytes - after);
	return r;
}

/* Nobody takes what a side sends. */
void http2_drop_body(struct http2_stream *s, enum exchange_side from)
{
	struct http2_way *w = &s->from[from];

	size_t n = buf_len(&w->body);

	buf_done(&w->body);
	if (from == EXCHANGE_SERVER) {
		n += scrub_waiting(&s->q.scrub) + exchange_tools_waiting(&s->q);
		scrub_drop(&s->q.scrub);
		exchange_tools_free(&s->q);
	}
	give_back(s, from, n);
}

void http2_stream_reset(struct http2_stream *s, enum exchange_side side, uint32_t code)
{
	if (!s->closed[side] && s->id[side] &&
		nghttp2_submit_rst_stream(
			http2_session_of(s, side), NGHTTP2_FLAG_NONE, s->id[side], code) < 0)
		s->x->http2->no_memory = true;
}

void http2_stream_wake(struct http2_stream *s, enum exchange_side to)
{
	if (!s->closed[to])
		(void)nghttp2_session_resume_data(
			http2_session_of(s, to), s->id[to]); /* if it waited */
}

/* ---- bodies ---- */

static int send_trailers(
	struct http2_stream *s, enum exchange_side to, const struct fields *trailers)
{
	struct http2_block b = {0};

	http2_block_add_fields(&b, trailers);
	if (b.full)
		return -EMSGSIZE;
	return nghttp2_submit_trailer(http2_session_of(s, to), s->id[to], b.nv, b.count);
}

/* nghttp2 wants bytes of a body. */
ssize_t http2_read_body(nghttp2_session *to_session, int32_t id, uint8_t *out, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = source->ptr;
	struct http2_way *w = &s->from[!side->side];
	size_t n = buf_len(&w->body);

	n = n < room ? n : room;
	if (n) {
		memcpy(out, buf_head(&w->body), n);
		buf_consume(&w->body, n);
		give_back(s, !side->side, n);
	}
	if (buf_len(&w->body))
		return (ssize_t)n;
	buf_done(&w->body); /* gives the memory back */
	if (!w->ended)
		return n ? (ssize_t)n : NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (w->trailers.count) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		if (send_trailers(s, side->side, &w->trailers) < 0)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
	}
	return (ssize_t)n;
}

void http2_end_way(struct http2_stream *s, enum exchange_side from)
{
	struct http2_way *w = &s->from[from];

	if (from == EXCHANGE_SERVER) {
		give_back(s, from, exchange_tools_waiting(&s->q)); /* of a tool without an end */
		exchange_tools_free(&s->q);
		if (scrub_end(&s->q.scrub, &w->body) < 0)
			s->x->http2->no_memory = true;
	}
	w->ended = true;
	http2_stream_wake(s, !from);
}
