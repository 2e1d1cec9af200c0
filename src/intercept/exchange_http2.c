/* HTTP/2 of an intercepted connection. There is an nghttp2 session with each side. Each stream of
 * the guest's session has a stream of the server's. Heads and trailers are written anew. Bodies
 * wait in a buffer of the stream.
 *
 * Flow control is passed on: a side may send more when the other side has taken the earlier bytes.
 * A stream's window is STREAM_WINDOW bytes, a connection's EXCHANGE_HELD_MAX. These windows bound
 * the buffers.
 *
 * nghttp2 checks frames and the form of messages. It limits acknowledgements, resets and
 * continuations. The memory of heads and frames is counted (http2_memory.h): if a side does not
 * read, we stop reading from the other side. Exceeding the limit ends the connection. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <nghttp2/nghttp2.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "intercept/exchange_http2_internal.h"
#include "intercept/rewrite.h"

enum {
	OUT_FULL = EXCHANGE_HELD_MAX / 4,      /* bytes that wait: no more frames are made */
	QUEUE_FULL = 4 * EXCHANGE_STREAMS_MAX, /* frames that wait: nothing more is read */
	PIECE = 16 << 10,		       /* read at a time, so that this bound holds */
	MEMORY_SOME = 128 << 10,	       /* of a session: smaller pieces are read */
	MEMORY_FULL = 512 << 10,	       /* and nothing more, if its side takes nothing */
	PIECE_SMALL = 64, /* a few heads of 64 KiB, if HPACK knows their fields */
	INTERIM_MAX = 32, /* interim answers of a stream; nghttp2 does not count them */
	ACKS_MAX = 200,
	RESETS_BURST = 400,
	RESETS_PER_SECOND = 100,
	HEAD_SEND_MAX = REWRITE_HEAD_MAX + (64 << 10),
};

_Static_assert((int)EXCHANGE_FIELDS_MAX == (int)HTTP2_FIELDS_MAX, "http2_block.h");

/* ---- answers ---- */

static int submit_answer(struct http2_stream *s, struct http2_block *b, bool with_body)
{
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = http2_read_body};

	s->answered = true;
	if (b->full)
		return -EMSGSIZE;
	return nghttp2_submit_response(http2_session_of(s, EXCHANGE_GUEST), s->id[EXCHANGE_GUEST],
		b->nv, b->count, with_body ? &body : NULL);
}

/* Answers in the server's place, for the reason in q. */
int http2_refuse(struct http2_stream *s)
{
	struct http2_way *w = &s->from[EXCHANGE_SERVER];
	char status[12], length[24];
	struct exchange_answer a;
	bool body;
	struct http2_block b = {0};

	exchange_request_answer(&s->q, &a);
	body = strcmp(s->q.method, "HEAD") != 0 && a.body_bytes;
	http2_drop_body(s, EXCHANGE_GUEST);
	(void)snprintf(status, sizeof(status), "%u", s->q.status);   /* fits */
	(void)snprintf(length, sizeof(length), "%zu", a.body_bytes); /* likewise */
	http2_block_add_text(&b, ":status", status);
	for (unsigned i = 0; i < a.header_count; i++)
		http2_block_add_text(&b, a.headers[i].name, a.headers[i].value);
	if (s->q.status != 204 && s->q.status != 304)
		http2_block_add_text(&b, "content-length", length);
	if (body && buf_add(&w->body, a.body, a.body_bytes) < 0)
		return -ENOMEM;
	s->q.answer = NULL;
	w->ended = true;
	return submit_answer(s, &b, body);
}

/* The server gives no proper answer. */
static int bad_answer(struct http2_stream *s, const char *reason)
{
	exchange_request_fail(&s->q, s->answered ? s->q.status : 502, "failed", reason);
	http2_stream_reset(s, EXCHANGE_SERVER, NGHTTP2_CANCEL);
	s->sent = false; /* what still comes of it is dropped */
	if (s->closed[EXCHANGE_GUEST])
		return 0;
	if (!s->answered)
		return http2_refuse(s);
	http2_stream_reset(s, EXCHANGE_GUEST, NGHTTP2_INTERNAL_ERROR);
	return 0;
}

static int pass_answer(
	struct http2_stream *s, const struct http2_head *in, bool final, bool with_body)
{
	struct http2_block b = {0};
	struct fields f;
	int r;

	fields_init(&f, REWRITE_HEAD_MAX, EXCHANGE_FIELDS_MAX + 4);
	r = rewrite_answer(&in->fields, &s->q.scrub, &f);
	if (r == 0) {
		http2_block_add_text(&b, ":status", in->status);
		http2_block_add_fields(&b, &f);
		if (!exchange_tools_change(&s->q))
			http2_block_add_framing(&b, &in->fields);
		r = final ? submit_answer(s, &b, with_body)
			  : nghttp2_submit_headers(http2_session_of(s, EXCHANGE_GUEST),
				    NGHTTP2_FLAG_NONE, s->id[EXCHANGE_GUEST], NULL, b.nv, b.count,
				    NULL);
	}
	fields_done(&f);
	return r;
}

static int on_trailers(struct http2_stream *s, enum exchange_side from, const struct http2_head *in)
{
	struct fields *out = &s->from[from].trailers;
	size_t before = fields_memory(out);
	int r = from == EXCHANGE_SERVER ? rewrite_answer(&in->fields, &s->q.scrub, out)
					: rewrite_request_trailers(s->q.intercept,
						  s->x->server_host, &in->fields, &s->q.set, out);

	return r < 0 ? r : http2_stream_keep(s, from, fields_memory(out) - before);
}

static int on_interim(struct http2_stream *s, const struct http2_head *in, unsigned status)
{
	if (s->interim++ == INTERIM_MAX)
		return bad_answer(s, "the server sends more than 32 answers before the final one");
	return status == 100 ? 0 : pass_answer(s, in, false, false);
}

static int on_answer_head(struct http2_stream *s, bool end)
{
	struct http2_head in;
	unsigned status;
	const char *why;

	if (s->closed[EXCHANGE_GUEST] || !s->sent)
		return 0;
	if (s->from[EXCHANGE_SERVER].malformed || fields_error(&s->from[EXCHANGE_SERVER].head))
		return bad_answer(s, "the head of the server's answer is malformed or too large");
	http2_read_head(&s->from[EXCHANGE_SERVER].head, &in);
	if (s->answered)
		return on_trailers(s, EXCHANGE_SERVER, &in);
	status = in.status ? (unsigned)strtoul(in.status, NULL, 10) : 0;
	if (status < 200)
		return on_interim(s, &in, status);
	if (scrub_active(&s->q.scrub) && !end && rewrite_is_coded(&in.fields))
		return bad_answer(s, "the server compresses its answer although it was asked not "
				     "to, so that no secret can be found in it");
	why = exchange_tools_begin_answer(&s->q, status, &in.fields, !end);
	if (why)
		return bad_answer(s, why);
	s->q.status = status;
	exchange_model_begin_answer(s->x, &s->q, status, &in.fields);
	scrub_begin(&s->q.scrub, status, &in.fields);
	return pass_answer(s, &in, true, !end);
}

/* ---- requests ---- */

static int64_t length_of(const struct http2_head *in, bool end)
{
	const char *text = http_header_get(&in->fields, "content-length");
	uint64_t n;

	if (end)
		return 0;
	return text && str_parse_u64(text, &n) == 0 && n <= INT64_MAX ? (int64_t)n : -1;
}

static void find_wrong(const struct http2_head *in, struct exchange_target *t)
{
	t->wrong_status = 400;
	if (http_header_count(&in->fields, "host") > 1)
		t->wrong = "a request must have exactly one Host";
	else if (!in->scheme || strcmp(in->scheme, "https") != 0)
		t->wrong = "the scheme is not https";
	else if (strpbrk(t->method, "abcdefghijklmnopqrstuvwxyz"))
		/* a server may take "delete" for DELETE, which rules speak of */
		t->wrong = "the method is not in capitals";
	else if (strchr(t->path, '#') || (t->path[0] != '/' && strcmp(t->path, "*") != 0))
		t->wrong = "the path is malformed";
	else
		t->wrong_status = 0;
}

static int check_request(struct http2_stream *s, const struct http2_head *in, bool end)
{
	const struct http2_way *w = &s->from[EXCHANGE_GUEST];
	struct exchange_target t = {.method = in->method ? in->method : "",
		.path = in->path ? in->path : "",
		.authority = in->authority,
		.host = http_header_get(&in->fields, "host"),
		.coding = http_header_get(&in->fields, "content-encoding"),
		.headers = &in->fields,
		.body_bytes = length_of(in, end)};

	if (w->malformed)
		exchange_request_fail(&s->q, 400, "denied", "a header is malformed");
	else if (fields_error(&w->head))
		exchange_request_fail(
			&s->q, 431, "denied", "the headers are too large, or too many");
	if (s->q.verdict)
		return -EINVAL;
	find_wrong(in, &t);
	return exchange_request_check(s->x, &s->q, &t);
}

static int submit_request(struct http2_stream *s, struct http2_block *b, bool with_body)
{
	nghttp2_data_provider body = {.source.ptr = s, .read_callback = http2_read_body};
	int32_t id;

	if (b->full)
		return -EMSGSIZE;
	id = nghttp2_submit_request(http2_session_of(s, EXCHANGE_SERVER), NULL, b->nv, b->count,
		with_body ? &body : NULL, s);
	if (id == NGHTTP2_ERR_NOMEM)
		return id;
	if (id <
		/* the server accepts no more, or stream ids are used up: the client needs a new
		 * connection */
		0) {
		exchange_request_fail(&s->q, 0, "reset", "the server takes no more requests");
		http2_stream_reset(s, EXCHANGE_GUEST, NGHTTP2_REFUSED_STREAM);
		return 0;
	}
	s->id[EXCHANGE_SERVER] = id;
	s->closed[EXCHANGE_SERVER] = false;
	s->sent = true;
	return 0;
}

/* Counts what the verdict made the request keep, until the stream is freed. */
static int keep_rules(struct http2_stream *s)
{
	size_t n = rewrite_set_memory(&s->q.set) + exchange_tools_memory(&s->q);
	size_t more = n > s->rules_kept ? n - s->rules_kept : 0;

	s->rules_kept += more;
	return http2_stream_keep(s, EXCHANGE_GUEST, more);
}

int http2_send_request(struct http2_stream *s, const struct http2_head *in, bool with_body)
{
	_cleanup_free_ char *path = str_printf("%s%s", exchange_prefix(s->x, in->path), in->path);
	char authority[EXCHANGE_AUTHORITY_MAX];
	struct http2_block b = {0};
	struct fields f;
	int r;

	if (!path)
		return -ENOMEM;
	fields_init(&f, REWRITE_HEAD_MAX, EXCHANGE_FIELDS_MAX + HTTP2_FIELDS_SPARE);
	r = exchange_request_rewrite(s->x, &s->q, &in->fields, &f);
	if (r < 0) {
		r = http2_refuse(s);
	} else if (http2_stream_keep(s, EXCHANGE_GUEST, scrub_memory(&s->q.scrub)) < 0 ||
		   keep_rules(s) < 0) {
		r = -ENOMEM;
	} else {
		exchange_authority(s->x, authority);
		http2_block_add_text(&b, ":method", in->method);
		http2_block_add_text(&b, ":scheme", "https");
		http2_block_add_text(&b, ":authority", authority);
		http2_block_add_text(&b, ":path", path);
		http2_block_add_fields(&b, &f);
		http2_block_add_framing(&b, &in->fields);
		r = submit_request(s, &b, with_body);
	}
	fields_done(&f);
	return r;
}

/* The server is never asked whether it wants the body (exchange_http1.c). */
static int say_continue(struct http2_stream *s, const struct http2_head *in)
{
	struct http2_block b = {0};

	if (!http_header_get(&in->fields, "expect") || (!s->sent && !s->q.hold))
		return 0;
	http2_block_add_text(&b, ":status", "100");
	return nghttp2_submit_headers(http2_session_of(s, EXCHANGE_GUEST), NGHTTP2_FLAG_NONE,
		s->id[EXCHANGE_GUEST], NULL, b.nv, b.count, NULL);
}

static int on_request_trailers(struct http2_stream *s, const struct http2_head *in)
{
	if (!s->sent && !s->q.hold)
		return 0;
	if (!s->from[EXCHANGE_GUEST].malformed && !fields_error(&s->from[EXCHANGE_GUEST].head))
		return on_trailers(s, EXCHANGE_GUEST, in);
	exchange_request_fail(
		&s->q, s->q.status, "reset", "the trailers are malformed or too large");
	http2_stream_reset(s, EXCHANGE_GUEST, NGHTTP2_PROTOCOL_ERROR);
	return 0;
}

static int on_request_head(struct http2_stream *s, bool end)
{
	struct http2_head in;
	int r;

	http2_read_head(&s->from[EXCHANGE_GUEST].head, &in);
	if (s->q.method[0] || s->answered)
		return on_request_trailers(s, &in);
	r = check_request(s, &in, end);
	if (r < 0)
		return http2_refuse(s);
	if (keep_rules(s) < 0)
		return -ENOMEM;
	if (r == EXCHANGE_HELD) {
		r = end ? 0 : say_continue(s, &in);
		return r ? r : http2_hold_head(s, end);
	}
	r = http2_send_request(s, &in, !end);
	return r || end ? r : say_continue(s, &in);
}

/* ---- callbacks of both sessions ---- */

static struct http2_stream *find(nghttp2_session *n, int32_t id)
{
	return id ? nghttp2_session_get_stream_user_data(n, id) : NULL;
}

static int on_begin_headers(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, frame->hd.stream_id);

	if (!s && side->side == EXCHANGE_GUEST) {
		s = http2_stream_new(side->x, frame->hd.stream_id);
		if (!s)
			return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
		(void)nghttp2_session_set_stream_user_data(
			n, frame->hd.stream_id, s); /* there is this stream */
	}
	return 0;
}

static int on_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, frame->hd.stream_id);

	if (s)
		fields_add(&s->from[side->side].head, (const char *)name, name_bytes,
			(const char *)value, value_bytes);
	return 0; /* what is too much is refused with the whole head */
}

static int on_invalid_header(nghttp2_session *n, const nghttp2_frame *frame, const uint8_t *name,
	size_t name_bytes, const uint8_t *value, size_t value_bytes, uint8_t flags, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, frame->hd.stream_id);

	if (s)
		s->from[side->side].malformed = true;
	return 0;
}

static int on_head(struct http2_stream *s, enum exchange_side from, bool end)
{
	struct fields *head = &s->from[from].head;
	int r = from == EXCHANGE_GUEST ? on_request_head(s, end) : on_answer_head(s, end);

	fields_done(head);
	fields_init(head, EXCHANGE_HEAD_MAX + EXCHANGE_FIELDS_MAX * 2, EXCHANGE_FIELDS_MAX + 4);
	return r;
}

/* A client that gets the server's GOAWAY opens another connection for further requests. */
static void go_away(struct exchange *x)
{
	struct http2 *h = x->http2;
	nghttp2_session *guest = h->sessions[EXCHANGE_GUEST];

	if (h->closing)
		return;
	h->closing = true;
	if (nghttp2_submit_goaway(guest, NGHTTP2_FLAG_NONE,
		    nghttp2_session_get_last_proc_stream_id(guest), NGHTTP2_NO_ERROR, NULL, 0) < 0)
		h->no_memory = true;
}

static int on_frame(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, frame->hd.stream_id);
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;
	int r = 0;

	if (frame->hd.type == NGHTTP2_GOAWAY && side->side == EXCHANGE_SERVER &&
		!exchange_is_held(side->x)) /* else there will be another server */
		go_away(side->x);
	if (!s || (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA))
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		r = on_head(s, side->side, end);
	if (end && (side->side == EXCHANGE_GUEST || s->sent))
		http2_end_way(s, side->side);
	if (r == 0 && side->side == EXCHANGE_GUEST && s->q.hold)
		r = http2_hold_ask(s);
	if (r < 0)
		side->x->http2->no_memory = true;
	return 0;
}

static int take_answer(struct http2_stream *s, const uint8_t *data, size_t bytes)
{
	int r;

	s->q.down += bytes;
	exchange_model_take_answer(&s->q, data, bytes);
	r = http2_take_answer(s, data, bytes);
	if (r == -ENOTSUP)
		return bad_answer(
			s, "the server compresses its messages although it was asked not to");
	return r == -EBADMSG ? bad_answer(s, "the server's list of tools is no JSON") : r;
}

static int on_data(
	nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data, size_t bytes, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, id);
	struct http2_way *w;
	int r;

	if (s && side->side == EXCHANGE_GUEST && s->q.hold) {
		if (http2_hold_take(s, data, bytes) < 0)
			side->x->http2->no_memory = true;
		return 0;
	}
	if (!s || !s->sent || s->closed[!side->side]) {	     /* nobody takes it */
		(void)nghttp2_session_consume(n, id, bytes); /* of a stream that there is */
		return 0;
	}
	w = &s->from[side->side];
	if (side->side == EXCHANGE_SERVER) {
		r = take_answer(s, data, bytes);
	} else {
		s->q.up += bytes;
		exchange_model_take_body(&s->q, data, bytes);
		r = buf_add(&w->body, data, bytes);
	}
	if (r < 0)
		side->x->http2->no_memory = true;
	http2_stream_wake(s, !side->side);
	return 0;
}

/* A stream of the guest is gone. */
static void guest_closed(struct http2_stream *s)
{
	if (!s->q.method[0])
		exchange_request_fail(&s->q, 400, "denied", "the request is malformed");
	else if (!s->answer_sent)
		exchange_request_fail(&s->q, s->q.status, "reset", "the stream was reset");
	http2_drop_body(s, EXCHANGE_SERVER);
	if (s->q.hold)
		http2_drop_body(s, EXCHANGE_GUEST);
	if (!s->answer_sent)
		http2_stream_reset(s, EXCHANGE_SERVER, NGHTTP2_CANCEL);
}

/* The guest has the whole answer but still sends its request, which nobody reads: tells it to
 * stop. */
static void stop_request(struct http2_stream *s)
{
	if (s->answer_sent && s->closed[EXCHANGE_SERVER] && !s->from[EXCHANGE_GUEST].ended)
		http2_stream_reset(s, EXCHANGE_GUEST, NGHTTP2_NO_ERROR);
}

/* The server has reset a stream. An answer that is complete still goes to the guest. */
static void server_closed(struct http2_stream *s, uint32_t code)
{
	http2_drop_body(s, EXCHANGE_GUEST);
	stop_request(s);
	if (!s->sent || s->from[EXCHANGE_SERVER].ended)
		return;
	exchange_request_fail(&s->q, s->q.status, "failed", "the server reset the stream");
	http2_stream_reset(s, EXCHANGE_GUEST, code == NGHTTP2_NO_ERROR ? NGHTTP2_CANCEL : code);
}

static int on_close(nghttp2_session *n, int32_t id, uint32_t code, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, id);

	if (!s)
		return 0;
	s->closed[side->side] = true;
	if (side->side == EXCHANGE_GUEST)
		guest_closed(s);
	else
		server_closed(s, code);
	if (s->closed[EXCHANGE_GUEST] && s->closed[EXCHANGE_SERVER])
		http2_stream_free(s);
	return 0;
}

/* A program can make us reset its streams without a reset of its own: by frames that break the
 * protocol of one stream. These have the limit that its own resets have. */
static void note_reset(struct http2 *h)
{
	uint64_t now_s = clock_monotonic_ns() / NS_PER_S;
	uint64_t more = (now_s - h->resets_s) * RESETS_PER_SECOND;

	h->resets = h->resets > more ? h->resets - more : 0;
	h->resets_s = now_s;
	if (h->resets++ == RESETS_BURST)
		h->flooded = true;
}

static int on_sent(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
	const struct http2_side *side = arg;
	struct http2_stream *s = find(n, frame->hd.stream_id);

	if (side->side == EXCHANGE_GUEST && frame->hd.type == NGHTTP2_RST_STREAM &&
		frame->rst_stream.error_code != NGHTTP2_NO_ERROR)
		note_reset(side->x->http2);
	if (s && side->side == EXCHANGE_GUEST && (frame->hd.flags & NGHTTP2_FLAG_END_STREAM) &&
		(frame->hd.type == NGHTTP2_DATA || frame->hd.type == NGHTTP2_HEADERS)) {
		s->answer_sent = true;
		stop_request(s);
	}
	return 0;
}

/* ---- bytes ---- */

/* A session cannot go on. */
static void break_off(struct exchange *x, int code)
{
	const char *refused = x->http2->account.refused;

	exchange_finish(x, EXCHANGE_FAILED, refused ? refused : nghttp2_strerror(code));
}

/* Returns whether there was something to send. */
static bool pump_side(struct exchange *x, enum exchange_side to)
{
	struct buf *out = &x->out[to];
	const uint8_t *data;
	bool moved = false;
	ssize_t n;

	while (buf_len(out) < OUT_FULL) {
		n = nghttp2_session_mem_send(x->http2->sessions[to], &data);
		if (n <= 0) {
			if (n < 0)
				break_off(x, (int)n);
			break;
		}
		moved = true;
		if (buf_add(out, data, (size_t)n) < 0)
			exchange_finish(x, EXCHANGE_FAILED, "out of memory");
		if (x->state != EXCHANGE_GOING)
			break;
	}
	return moved;
}

/* After a protocol error a session sends a GOAWAY, and then neither reads nor writes. */
static bool is_over(const struct exchange *x, enum exchange_side side)
{
	nghttp2_session *n = x->http2->sessions[side];

	return !nghttp2_session_want_read(n) && !nghttp2_session_want_write(n);
}

void http2_lose_server(struct exchange *x, const char *reason)
{
	struct http2_stream *s, *next;

	x->server_lost = exchange_is_held(x);
	x->server_failed = true;
	if (!x->server_reason[0])
		(void)snprintf(
			x->server_reason, sizeof(x->server_reason), "%s", reason); /* may be cut */
	for (s = x->http2->streams; s; s = next) {
		next = s->next;
		if (s->sent && !s->from[EXCHANGE_SERVER].ended && bad_answer(s, reason) < 0)
			x->http2->no_memory = true;
		s->closed[EXCHANGE_SERVER] = true;
		s->id[EXCHANGE_SERVER] = 0; /* of a session that is not used any more */
		if (s->closed[EXCHANGE_GUEST])
			http2_stream_free(s);
	}
	if (x->http2->served && !x->server_lost)
		go_away(x);
}

static void settle(struct exchange *x)
{
	struct http2 *h = x->http2;

	if (h->no_memory || h->account.refused)
		break_off(x, NGHTTP2_ERR_NOMEM);
	else if (h->flooded)
		exchange_finish(x, EXCHANGE_FAILED, "the program makes streams fail all the time");
	else if (x->said >= EXCHANGE_SAID_CUT)
		exchange_finish(x, EXCHANGE_FAILED, exchange_said_much(x));
	else if (is_over(x, EXCHANGE_GUEST))
		exchange_finish(x, h->count ? EXCHANGE_FAILED : EXCHANGE_DONE,
			h->count ? "the program broke the protocol" : exchange_said_much(x));
	else if (h->closing && !h->count &&
		 !nghttp2_session_want_write(h->sessions[EXCHANGE_GUEST]))
		exchange_finish(x, EXCHANGE_DONE, exchange_said_much(x));
}

/* Writes all output that can be sent now. Sending a body to one side lets the other side send
 * more. */
static void pump(struct exchange *x)
{
	bool moved = true;

	if (exchange_said_much(x))
		go_away(x);
	while (moved && x->state == EXCHANGE_GOING) {
		moved = pump_side(x, EXCHANGE_GUEST);
		if (!x->server_failed && pump_side(x, EXCHANGE_SERVER))
			moved = true;
		if (!x->server_failed && x->state == EXCHANGE_GOING &&
			is_over(x, EXCHANGE_SERVER)) {
			http2_lose_server(x, "the server broke the protocol, or ended it");
			moved = true;
		}
	}
	settle(x);
}

/* Much waits for a side, and it takes nothing. */
static bool is_stuck(const struct exchange *x, enum exchange_side to)
{
	const struct http2 *h = x->http2;

	return nghttp2_session_get_outbound_queue_size(h->sessions[to]) >= QUEUE_FULL ||
	       (h->memory[to].bytes >= MEMORY_FULL && buf_len(&x->out[to]) >= OUT_FULL);
}

static bool wants(const struct exchange *x, enum exchange_side from)
{
	return !is_stuck(x, EXCHANGE_GUEST) && (x->server_failed || !is_stuck(x, EXCHANGE_SERVER));
}

static size_t piece_of(const struct exchange *x, size_t n)
{
	const struct http2_memory *m = x->http2->memory;
	size_t most = m[0].bytes < MEMORY_SOME && m[1].bytes < MEMORY_SOME ? PIECE : PIECE_SMALL;

	return n < most ? n : most;
}

static size_t receive(struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n)
{
	size_t done = 0;

	if (from == EXCHANGE_SERVER && x->server_failed)
		return n;
	while (done < n && x->state == EXCHANGE_GOING && wants(x, from)) {
		ssize_t r = nghttp2_session_mem_recv(
			x->http2->sessions[from], data + done, piece_of(x, n - done));

		if (r < 0 && (from == EXCHANGE_GUEST || x->http2->account.refused))
			break_off(x, (int)r);
		else if (r < 0)
			http2_lose_server(x, nghttp2_strerror((int)r));
		done += r < 0 ? n - done : (size_t)r;
		pump(x);
	}
	return done;
}

static void receive_end(struct exchange *x, enum exchange_side from)
{
	if (from == EXCHANGE_SERVER && !x->server_failed) {
		http2_lose_server(x, "the server closed the connection");
		x->http2->closing = x->http2->closing || !x->server_lost;
	} else if (from == EXCHANGE_GUEST) {
		exchange_finish(x, x->http2->count ? EXCHANGE_FAILED : EXCHANGE_DONE,
			x->http2->count ? "the program closed the connection" : NULL);
	}
	if (x->state == EXCHANGE_GOING)
		pump(x);
}

static void drained(struct exchange *x, enum exchange_side to)
{
	pump(x);
}

static bool is_quiet(const struct exchange *x)
{
	return x->http2->count == 0;
}

static void end(struct exchange *x)
{
	go_away(x);
	pump(x);
}

static void server_failed(struct exchange *x)
{
	http2_lose_server(x, x->server_reason);
	pump(x);
}

/* ---- life ---- */

static int set_callbacks(nghttp2_session_callbacks **ret)
{
	nghttp2_session_callbacks *c;

	if (nghttp2_session_callbacks_new(&c) < 0)
		return -ENOMEM;
	nghttp2_session_callbacks_set_on_begin_headers_callback(c, on_begin_headers);
	nghttp2_session_callbacks_set_on_header_callback(c, on_header);
	nghttp2_session_callbacks_set_on_invalid_header_callback(c, on_invalid_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, on_close);
	nghttp2_session_callbacks_set_on_frame_send_callback(c, on_sent);
	*ret = c;
	return 0;
}

static int set_options(nghttp2_option **ret)
{
	nghttp2_option *o;

	if (nghttp2_option_new(&o) < 0)
		return -ENOMEM;
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_max_outbound_ack(o, ACKS_MAX);
	nghttp2_option_set_stream_reset_rate_limit(o, RESETS_BURST, RESETS_PER_SECOND);
	nghttp2_option_set_max_send_header_block_length(o, HEAD_SEND_MAX);
	nghttp2_option_set_no_closed_streams(o, 1);
	*ret = o;
	return 0;
}

static int submit_settings(nghttp2_session *n, bool to_server)
{
	const nghttp2_settings_entry settings[] = {
		{NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, HTTP2_STREAM_WINDOW},
		{NGHTTP2_SETTINGS_MAX_HEADER_LIST_SIZE, EXCHANGE_HEAD_MAX},
		to_server ? (nghttp2_settings_entry){NGHTTP2_SETTINGS_ENABLE_PUSH, 0}
			  : (nghttp2_settings_entry){NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS,
				    EXCHANGE_STREAMS_MAX},
	};
	int r = nghttp2_submit_settings(n, NGHTTP2_FLAG_NONE, settings, 3);

	return r ? r
		 : nghttp2_session_set_local_window_size(
			   n, NGHTTP2_FLAG_NONE, 0, EXCHANGE_HELD_MAX);
}

static int make_session(struct http2 *h, enum exchange_side side)
{
	nghttp2_session_callbacks *c = NULL;
	nghttp2_option *o = NULL;
	int r = -ENOMEM;

	http2_memory_init(&h->memory[side], &h->account);
	if (set_callbacks(&c) == 0 && set_options(&o) == 0)
		r = (side == EXCHANGE_GUEST ? nghttp2_session_server_new3
					    : nghttp2_session_client_new3)(
			&h->sessions[side], c, &h->sides[side], o, &h->memory[side].mem);
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	r = r ? r : submit_settings(h->sessions[side], side == EXCHANGE_SERVER);
	return r < 0 ? -ENOMEM : 0;
}

/* No stream is of the old one any more (lose_server). */
static int renew(struct exchange *x)
{
	nghttp2_session_del(x->http2->sessions[EXCHANGE_SERVER]);
	x->http2->sessions[EXCHANGE_SERVER] = NULL;
	return make_session(x->http2, EXCHANGE_SERVER);
}

static int make(struct exchange *x)
{
	struct http2 *h = calloc(1, sizeof(*h));
	int r;

	if (!h)
		return -ENOMEM;
	x->http2 = h;
	h->account.budget = x->budget;
	h->sides[EXCHANGE_GUEST] = (struct http2_side){x, EXCHANGE_GUEST};
	h->sides[EXCHANGE_SERVER] = (struct http2_side){x, EXCHANGE_SERVER};
	r = make_session(h, EXCHANGE_GUEST);
	r = r ? r : make_session(h, EXCHANGE_SERVER);
	if (r == 0)
		pump(x);
	return r;
}

static void http2_free(struct exchange *x)
{
	struct http2 *h = x->http2;

	if (!h)
		return;
	while (h->streams) {
		struct http2_stream *s = h->streams;

		exchange_request_fail(&s->q, s->q.status, "reset",
			x->reason[0] ? x->reason : "the connection was closed");
		http2_stream_free(s);
	}
	nghttp2_session_del(h->sessions[EXCHANGE_GUEST]);
	nghttp2_session_del(h->sessions[EXCHANGE_SERVER]);
	free(h);
}

static size_t memory(const struct exchange *x)
{
	size_t bytes = sizeof(*x->http2) + x->http2->account.bytes;

	for (const struct http2_stream *s = x->http2->streams; s; s = s->next)
		bytes += sizeof(*s) + s->from[0].body.capacity + s->from[1].body.capacity +
			 fields_memory(&s->from[0].head) + fields_memory(&s->from[1].head) +
			 (s->q.hold ? sizeof(*s->q.hold) + s->q.hold->seen.capacity : 0);
	return bytes;
}

const struct exchange_kind exchange_http2 = {
	.make = make,
	.free = http2_free,
	.receive = receive,
	.receive_end = receive_end,
	.wants = wants,
	.drained = drained,
	.is_quiet = is_quiet,
	.end = end,
	.server_failed = server_failed,
	.next_held = http2_next_held,
	.held_body = http2_held_body,
	.judge_held = http2_judge_held,
	.held_headers = http2_held_headers,
	.let_go = http2_let_go,
	.renew = renew,
	.settle = pump,
	.memory = memory,
};
