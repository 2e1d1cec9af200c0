/* Requests of HTTP/2 that wait for a person (exchange_hold.c). Only their own streams are held. The
 * received part of a body stays in its stream. The connection's window is opened again for some of
 * these bytes, so that held bodies do not use up the window of other streams. */
#include <errno.h>

#include "intercept/exchange_http2_internal.h"

/* Keeps the head. */
int http2_hold_head(struct http2_stream *s, bool end)
{
	struct fields *head = &s->from[EXCHANGE_GUEST].head;
	size_t n = fields_memory(head);

	if (!http2_account_has(&s->x->http2->account, n)) {
		exchange_hold_end(s->x, &s->q);
		exchange_request_fail(&s->q, 403, "denied",
			"too much of this connection waits for a person already");
		return http2_refuse(s);
	}
	s->held_head = *head;
	fields_init(head, 0, 0);
	s->held_body = !end;
	return http2_stream_keep(s, EXCHANGE_GUEST, n);
}

static int refuse_held(struct http2_stream *s)
{
	exchange_hold_refuse(s->x, &s->q);
	fields_done(&s->held_head);
	return http2_refuse(s);
}

/* Asks a person, if enough of the request is there. */
int http2_hold_ask(struct http2_stream *s)
{
	if (exchange_hold_ask(s->x, &s->q, s->from[EXCHANGE_GUEST].ended) < 0)
		return refuse_held(s);
	return 0;
}

/* For a body that is read as a whole, the windows are opened as bytes arrive; exchange_judge.c and
 * exchange_hold.c limit its size. The last bytes exceed it by less than a window, and if the
 * request goes on, one more window may follow. */
static int take_whole(struct http2_stream *s, const uint8_t *data, size_t bytes)
{
	struct http2_way *w = &s->from[EXCHANGE_GUEST];
	int r;

	w->body.max = CALL_BODY_MAX + 2 * HTTP2_STREAM_WINDOW;
	r = buf_add(&w->body, data, bytes);
	s->q.up += bytes;
	r = r ? r : exchange_hold_take(&s->q, data, bytes);
	if (r < 0)
		return r;
	s->opened += bytes;
	(void)nghttp2_session_consume(http2_session_of(s, EXCHANGE_GUEST), s->id[EXCHANGE_GUEST],
		bytes); /* it has so many */
	return http2_hold_ask(s);
}

/* Its window bounds what comes of a held body that is read no further. */
int http2_hold_take(struct http2_stream *s, const uint8_t *data, size_t bytes)
{
	struct http2 *h = s->x->http2;
	struct http2_way *w = &s->from[EXCHANGE_GUEST];
	int r;

	if (exchange_hold_room(&s->q))
		return take_whole(s, data, bytes);
	r = buf_add(&w->body, data, bytes);
	s->q.up += bytes;
	r = r ? r : exchange_hold_take(&s->q, data, bytes);
	if (r < 0)
		return r;
	if (h->lent + bytes <= HTTP2_STREAM_LENT_MAX && http2_budget_take(s->x->budget, bytes)) {
		h->lent += bytes;
		s->lent += bytes;
		(void)nghttp2_session_consume_connection(
			http2_session_of(s, EXCHANGE_GUEST), bytes); /* it has so many */
	}
	return http2_hold_ask(s);
}

/* The server accepts no more requests and owes no answers, so it counts as gone. */
static bool is_left_alone(const struct http2 *h)
{
	if (nghttp2_session_check_request_allowed(h->sessions[EXCHANGE_SERVER]))
		return false;
	for (const struct http2_stream *s = h->streams; s; s = s->next)
		if (s->sent && !s->closed[EXCHANGE_SERVER])
			return false;
	return true;
}

static int let_stream_go(struct http2_stream *s)
{
	struct fields head = s->held_head;
	struct http2_head in;
	int r;

	if (exchange_request_refresh(s->x, &s->q) < 0)
		return refuse_held(s);
	fields_init(&s->held_head, 0, 0);
	exchange_hold_end(s->x, &s->q);
	http2_read_head(&head, &in);
	r = http2_send_request(s, &in, s->held_body);
	fields_done(&head);
	return r;
}

static struct http2_stream *stream_of(
	const struct exchange *x, const struct exchange_request_state *q)
{
	struct http2_stream *s = x->http2->streams;

	while (&s->q != q)
		s = s->next;
	return s;
}

const struct buf *http2_held_body(struct exchange *x, struct exchange_request_state *q)
{
	return &stream_of(x, q)->from[EXCHANGE_GUEST].body;
}

struct exchange_verdict http2_judge_held(
	struct exchange *x, struct exchange_request_state *q, struct exchange_request r)
{
	struct http2_head head;

	http2_read_head(&stream_of(x, q)->held_head, &head);
	r.headers = &head.fields;
	return exchange_judge_with(x, q, r);
}

int http2_held_headers(
	struct exchange *x, struct exchange_request_state *q, struct held_headers *ret)
{
	struct http2_stream *s = stream_of(x, q);
	struct http2_head head, trailers;

	http2_read_head(&s->held_head, &head);
	http2_read_head(&s->from[EXCHANGE_GUEST].trailers, &trailers);
	return held_headers_make(&head.fields, &trailers.fields, q->intercept, ret);
}

void http2_let_go(struct exchange *x, struct exchange_request_state *q, bool allowed)
{
	struct http2_stream *s = stream_of(x, q);

	if (allowed && is_left_alone(x->http2)) {
		http2_lose_server(x, "the server takes no more requests");
		return;
	}
	if ((allowed ? let_stream_go(s) : refuse_held(s)) < 0)
		x->http2->no_memory = true;
}

struct exchange_request_state *http2_next_held(
	struct exchange *x, const struct exchange_request_state *after)
{
	struct http2_stream *s = x->http2->streams;

	for (bool found = !after; s; s = s->next) {
		if (found && s->q.hold)
			return &s->q;
		found = found || &s->q == after;
	}
	return NULL;
}
