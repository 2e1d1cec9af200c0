/* HTTP/1.1 of an intercepted connection: one request at a time. The parser (proto/http.h) refuses
 * what two readers could understand differently. This file writes heads anew and gives bodies new
 * framing.
 *
 * If the answer comes before the whole request was sent, the connection ends after it. A server
 * that does not wait for the rest could read it as a new request, which nobody has judged. For the
 * same reason this file answers Expect: the server never decides whether a body comes. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "intercept/exchange_internal.h"
#include "intercept/rewrite.h"
#include "proto/http.h"
#include "proto/http_response.h"

enum {
	BODY_SPARE = 64,       /* around a body: sizes of chunks, line ends */
	HEAD_WAITS = 32 << 10, /* no head is read while so much waits */
	HEAD_PIECE = 16 << 10, /* so that what follows a head has a place, too */
	TARGET_MAX = 32 << 10,
	/* What rules add. */
	FIELDS_SPARE = INTERCEPT_HEADERS_MAX + EXCHANGE_SETTERS_MAX * RULES_HEADERS_MAX + 2,
};

struct http1 {
	struct http_parser *requests, *answers;
	struct exchange_request_state q;
	bool busy;	   /* the head of a request was read, and it is not answered */
	bool request_done; /* all of it was read */
	bool sent;	   /* it went to the server, whose answer is due */
	bool answer_begun; /* its final head went to the guest */
	bool chunked_up, chunked_down;
	bool close;	    /* the connection ends after this answer */
	bool websocket;	    /* the request asks for one */
	bool raw;	    /* and got it */
	bool served;	    /* there was an answer of the server before */
	struct buf waiting; /* a body that was judged as a whole; sent as there is room */
};

static void fail(struct exchange *x, const char *reason)
{
	exchange_request_fail(&x->http1->q, x->http1->q.status, "reset", reason);
	exchange_request_end(x, &x->http1->q);
	exchange_finish(x, EXCHANGE_FAILED, reason);
}

/* For buffers that have the room: it is memory that lacks. */
static void must(struct exchange *x, int r)
{
	if (r < 0)
		fail(x, "out of memory");
}

/* The request was answered as a whole. */
static void complete(struct exchange *x)
{
	struct http1 *h = x->http1;
	const char *said = exchange_said_much(x);
	bool close = h->close || !h->request_done || buf_len(&h->waiting) || said;

	buf_done(&h->waiting);
	exchange_request_end(x, &h->q);
	if (close) {
		exchange_finish(x, EXCHANGE_DONE, said);
		return;
	}
	http_parser_continue(h->requests);
	if (h->sent)
		http_parser_continue(h->answers);
	*h = (struct http1){.requests = h->requests, .answers = h->answers, .served = true};
}

/* ---- answers of our own ---- */

static void write_own_answer(struct exchange *x)
{
	struct http1 *h = x->http1;
	struct exchange_answer a;
	struct http_writer w = http_writer_status_line(&x->out[EXCHANGE_GUEST], h->q.status);

	exchange_request_answer(&h->q, &a);
	for (unsigned i = 0; i < a.header_count; i++)
		http_writer_header(&w, a.headers[i].name, a.headers[i].value);
	if (h->q.status != 204 && h->q.status != 304)
		http_writer_header_u64(&w, "Content-Length", a.body_bytes);
	if (h->close)
		http_writer_header(&w, "Connection", "close");
	must(x, http_writer_finish(&w));
	if (strcmp(h->q.method, "HEAD") != 0)
		must(x, buf_add(&x->out[EXCHANGE_GUEST], a.body, a.body_bytes));
	h->q.answer = NULL;
}

/* Answers a request that does not go to the server, with the reason in q. If it has a body, the
 * next request could not be found behind it, so the connection ends. */
static void refuse(struct exchange *x, bool close)
{
	struct http1 *h = x->http1;

	h->close = h->close || close;
	h->answer_begun = true;
	write_own_answer(x);
	if (h->close)
		complete(x);
}

/* One whose body may still come. */
static void refuse_request(struct exchange *x)
{
	const struct http_head *head = http_parser_head(x->http1->requests);
	bool whole = x->http1->request_done;

	refuse(x, head->minor == 0 || (head->has_body && !whole));
	if (whole && x->state == EXCHANGE_GOING)
		complete(x);
}

static void refuse_held(struct exchange *x)
{
	exchange_hold_refuse(x, &x->http1->q);
	refuse_request(x);
}

/* The server gives no proper answer. */
static void bad_answer(struct exchange *x, const char *reason)
{
	struct http1 *h = x->http1;

	if (h->answer_begun) {
		fail(x, reason);
		return;
	}
	exchange_request_fail(&h->q, 502, "failed", reason);
	refuse(x, true);
}

/* ---- requests ---- */

static void write_request(struct exchange *x, const struct http_head *head, const struct fields *f,
	const char *target)
{
	struct http1 *h = x->http1;
	struct http_writer w = http_writer_request(&x->out[EXCHANGE_SERVER], head->method, target);
	char host[EXCHANGE_AUTHORITY_MAX];

	exchange_authority(x, host);
	http_writer_header(&w, "Host", host);
	for (unsigned i = 0; i < f->count; i++)
		http_writer_header_n(
			&w, fields_name(f, i), fields_value(f, i), f->items[i].value_bytes);
	if (h->websocket) {
		http_writer_header(&w, "Connection", "Upgrade");
		http_writer_header(&w, "Upgrade", "websocket");
	} else if (h->close) {
		http_writer_header(&w, "Connection", "close");
	}
	if (head->chunked)
		http_writer_header(&w, "Transfer-Encoding", "chunked");
	else if (head->content_length >= 0)
		http_writer_header_u64(&w, "Content-Length", (uint64_t)head->content_length);
	must(x, http_writer_finish(&w));
}

static int send_request(struct exchange *x, const struct http_head *head)
{
	struct buf target = BUF_INIT(TARGET_MAX + RULES_FORWARD_PATH_MAX + 8);
	struct fields f;
	int r;

	fields_init(&f, REWRITE_HEAD_MAX, EXCHANGE_FIELDS_MAX + FIELDS_SPARE);
	r = exchange_request_rewrite(x, &x->http1->q, &head->headers, &f);
	if (r == 0 && buf_printf(&target, "%s%s%s%s%c", exchange_prefix(x, head->path), head->path,
			      head->query ? "?" : "", head->query ? head->query : "", 0) == 0)
		write_request(x, head, &f, (const char *)buf_head(&target));
	else if (r == 0)
		fail(x, "out of memory");
	fields_done(&f);
	buf_done(&target);
	return r;
}

static bool asks_for_websocket(const struct http_head *head)
{
	return head->upgrade && strcasecmp(head->upgrade, "websocket") == 0 && !head->has_body &&
	       strcmp(head->method, "GET") == 0;
}

static bool has_other_scheme(const struct exchange *x, const char *target)
{
	return x->plain ? strncasecmp(target, "https://", 8) == 0
			: strncasecmp(target, "http://", 7) == 0;
}

static void check_version(
	const struct exchange *x, struct exchange_target *t, const struct http_head *head)
{
	if (head->minor == 0) {
		t->wrong_status = 505;
		t->wrong = "HTTP/1.0 is not served on an intercepted host";
	} else if (has_other_scheme(x, head->target)) {
		t->wrong_status = 400;
		t->wrong = "the request target has another scheme than this connection";
	}
}

static void pass_request(struct exchange *x)
{
	struct http1 *h = x->http1;
	const struct http_head *head = http_parser_head(h->requests);

	if (send_request(x, head) < 0) {
		refuse_request(x);
		return;
	}
	h->sent = true;
	if (strcmp(head->method, "HEAD") == 0)
		http_parser_expect_no_body(h->answers);
}

/* Asks a person, if enough of the request is there. */
static void ask(struct exchange *x)
{
	if (exchange_hold_ask(x, &x->http1->q, x->http1->request_done) < 0)
		refuse_held(x);
}

static void on_request_head(struct exchange *x)
{
	struct http1 *h = x->http1;
	const struct http_head *head = http_parser_head(h->requests);
	struct exchange_target t = {.method = head->method,
		.path = head->path,
		.query = head->query,
		.authority = head->host,
		.host = http_header_get(&head->headers, "host"),
		.coding = http_header_get(&head->headers, "content-encoding"),
		.headers = &head->headers,
		.upgrade = asks_for_websocket(head),
		.body_bytes = head->has_body ? head->content_length : 0};
	int verdict;

	if (exchange_request_begin(x, &h->q) < 0) {
		exchange_finish(x, EXCHANGE_FAILED, "out of memory");
		return;
	}
	h->busy = true;
	h->close = !head->keep_alive;
	h->chunked_up = head->chunked;
	h->websocket = t.upgrade;
	check_version(x, &t, head);
	verdict = exchange_request_check(x, &h->q, &t);
	if (verdict == 0)
		pass_request(x);
	else if (verdict < 0)
		refuse_request(x);
	else if (h->q.hold && exchange_hold_room(&h->q) == 0)
		ask(x); /* nothing of its body is needed for that */
	if ((h->sent || h->q.hold) && head->expect_continue && head->has_body)
		must(x, http_reply_continue(&x->out[EXCHANGE_GUEST]));
}

static void put_body(struct exchange *x, const void *data, size_t n)
{
	must(x, x->http1->chunked_up ? http_chunk(&x->out[EXCHANGE_SERVER], data, n)
				     : buf_add(&x->out[EXCHANGE_SERVER], data, n));
}

static void on_request_body(struct exchange *x)
{
	struct http1 *h = x->http1;
	size_t n;
	const uint8_t *data = http_parser_body(h->requests, &n);

	h->q.up += n;
	if (!h->q.hold) {
		exchange_model_take_body(&h->q, data, n);
		if (buf_len(&h->waiting))
			must(x, buf_add(&h->waiting, data, n)); /* the rest of a piece */
		else
			put_body(x, data, n);
		return;
	}
	must(x, exchange_hold_take(&h->q, data, n));
	if (x->state == EXCHANGE_GOING)
		ask(x);
}

static void end_body(struct exchange *x)
{
	if (x->http1->chunked_up)
		must(x, http_chunk_last(&x->out[EXCHANGE_SERVER]));
}

static void on_request_end(struct exchange *x)
{
	struct http1 *h = x->http1;

	h->request_done = true;
	if (h->q.hold)
		ask(x);
	else if (!h->sent)
		complete(x); /* it was refused */
	else if (!buf_len(&h->waiting))
		end_body(x);
}

/* How much of a body may go to the server now. */
static size_t room_for_body(const struct exchange *x)
{
	const struct buf *out = &x->out[EXCHANGE_SERVER];
	size_t used = buf_len(out) + BODY_SPARE;

	return used < out->max ? (out->max - used) / 3 : 0;
}

/* The end of the request follows the last of them. */
static void send_waiting(struct exchange *x)
{
	struct buf *b = &x->http1->waiting;

	while (buf_len(b) && room_for_body(x) && x->state == EXCHANGE_GOING) {
		size_t room = room_for_body(x), n = buf_len(b) < room ? buf_len(b) : room;

		put_body(x, buf_head(b), n);
		if (x->state == EXCHANGE_GOING)
			buf_consume(b, n);
	}
	if (buf_len(b) || x->state != EXCHANGE_GOING)
		return;
	buf_done(b);
	if (x->http1->request_done)
		end_body(x);
}

/* Goes on with a held request, whose first bytes are there. */
static void let_go(struct exchange *x, struct exchange_request_state *q, bool allowed)
{
	struct http1 *h = x->http1;
	struct buf seen;

	if (!allowed || exchange_request_refresh(x, q) < 0) {
		refuse_held(x);
		return;
	}
	seen = q->hold->seen;
	buf_init(&q->hold->seen, 0);
	exchange_hold_end(x, q);
	pass_request(x);
	if (h->sent && x->state == EXCHANGE_GOING) {
		h->waiting = seen;
		h->waiting.max = buf_len(&seen) + exchange_judge_room(); /* a piece */
		send_waiting(x);
		return;
	}
	buf_done(&seen);
}

static struct exchange_request_state *next_held(
	struct exchange *x, const struct exchange_request_state *after)
{
	return !after && x->http1->q.hold ? &x->http1->q : NULL;
}

static const struct buf *held_body(struct exchange *x, struct exchange_request_state *q)
{
	return &q->hold->seen;
}

static struct exchange_verdict judge_held(
	struct exchange *x, struct exchange_request_state *q, struct exchange_request r)
{
	r.headers = &http_parser_head(x->http1->requests)->headers;
	return exchange_judge_with(x, q, r);
}

static int held_headers(
	struct exchange *x, struct exchange_request_state *q, struct held_headers *ret)
{
	return held_headers_make(
		&http_parser_head(x->http1->requests)->headers, NULL, q->intercept, ret);
}

static int renew(struct exchange *x)
{
	x->http1->served = false; /* the parser of answers has read nothing of this one */
	return 0;
}

/* Refuses a request that cannot be parsed. Within a body it is too late for an answer. */
static void on_request_error(struct exchange *x)
{
	struct http1 *h = x->http1;
	unsigned status = http_parser_status(h->requests);

	if (h->busy) {
		fail(x, http_parser_reason(h->requests));
		return;
	}
	if (exchange_request_begin(x, &h->q) < 0) {
		exchange_finish(x, EXCHANGE_FAILED, "out of memory");
		return;
	}
	exchange_request_fail(&h->q, status, "denied", http_parser_reason(h->requests));
	h->busy = true;
	refuse(x, true);
}

static void on_request_event(struct exchange *x, enum http_event event)
{
	switch (event) {
	case HTTP_HEAD:
		on_request_head(x);
		return;
	case HTTP_BODY:
		on_request_body(x);
		return;
	case HTTP_END:
	case HTTP_UPGRADE: /* what it asks for is the answer's matter */
		on_request_end(x);
		return;
	case HTTP_ERROR:
		on_request_error(x);
		return;
	default:
		return;
	}
}

/* ---- answers ---- */

static bool has_no_body(const struct exchange *x, const struct http_head *head)
{
	return !head->has_body || strcmp(x->http1->q.method, "HEAD") == 0;
}

static void write_answer_framing(
	struct exchange *x, struct http_writer *w, const struct http_head *head)
{
	struct http1 *h = x->http1;

	if (head->status == 101) {
		http_writer_header(w, "Connection", "Upgrade");
		http_writer_header(w, "Upgrade", "websocket");
		return;
	}
	if (head->status < 200)
		return;
	h->chunked_down =
		head->has_body && (head->content_length < 0 || exchange_tools_change(&h->q));
	if (h->chunked_down || (head->chunked && head->status != 204))
		http_writer_header(w, "Transfer-Encoding", "chunked");
	else if (head->content_length >= 0 && head->status != 204)
		http_writer_header_u64(w, "Content-Length", (uint64_t)head->content_length);
	if (h->close)
		http_writer_header(w, "Connection", "close");
}

static void write_answer(struct exchange *x, const struct http_head *head)
{
	struct fields f;
	struct http_writer w = http_writer_status_line(&x->out[EXCHANGE_GUEST], head->status);

	fields_init(&f, REWRITE_HEAD_MAX, EXCHANGE_FIELDS_MAX);
	if (rewrite_answer(&head->headers, &x->http1->q.scrub, &f) < 0)
		w.err = -ENOMEM;
	for (unsigned i = 0; i < f.count; i++)
		http_writer_header_n(
			&w, fields_name(&f, i), fields_value(&f, i), f.items[i].value_bytes);
	write_answer_framing(x, &w, head);
	if (http_writer_finish(&w) < 0)
		fail(x, "the server's answer cannot be passed on");
	fields_done(&f);
}

static void on_answer_head(struct exchange *x)
{
	struct http1 *h = x->http1;
	const struct http_head *head = http_parser_head(h->answers);
	const char *why;

	if (head->status == 101 && (!h->websocket || !h->request_done || !head->upgrade ||
					   strcasecmp(head->upgrade, "websocket") != 0)) {
		bad_answer(x, "the server switches to a protocol that was not asked for");
		return;
	}
	if (scrub_active(&h->q.scrub) && !has_no_body(x, head) &&
		rewrite_is_coded(&head->headers)) {
		bad_answer(x, "the server compresses its answer although it was asked not to, so "
			      "that no secret can be found in it");
		return;
	}
	why = exchange_tools_begin_answer(
		&h->q, head->status, &head->headers, !has_no_body(x, head));
	if (why) {
		bad_answer(x, why);
		return;
	}
	h->close = h->close || !head->keep_alive || head->until_eof;
	h->q.status = head->status;
	exchange_model_begin_answer(x, &h->q, head->status, &head->headers);
	scrub_begin(&h->q.scrub, head->status, &head->headers);
	write_answer(x, head);
	h->answer_begun = true;
}

/* Bytes of an answer that may pass, as a chunk if it has chunks. */
static void begin_piece(struct exchange *x, size_t *ret_mark)
{
	if (x->http1->chunked_down)
		must(x, http_chunk_begin(&x->out[EXCHANGE_GUEST], ret_mark));
}

static void end_piece(struct exchange *x, size_t mark, int r)
{
	if (r == 0 && x->http1->chunked_down && x->state == EXCHANGE_GOING)
		r = http_chunk_end(&x->out[EXCHANGE_GUEST], mark);
	if (r == -EBADMSG)
		fail(x, "the server's list of tools is no JSON");
	else if (r == -ENOTSUP)
		fail(x, "the server compresses its messages although it was asked not to");
	else
		must(x, r);
}

static void put_scrubbed(struct exchange *x, const uint8_t *data, size_t n)
{
	struct scrub *s = &x->http1->q.scrub;
	struct buf *out = &x->out[EXCHANGE_GUEST];
	size_t mark = 0;

	begin_piece(x, &mark);
	x->http1->q.down += n;
	exchange_model_take_answer(&x->http1->q, data, n);
	end_piece(x, mark,
		data ? exchange_answer_bytes(&x->http1->q, data, n, out) : scrub_end(s, out));
	if (x->said >= EXCHANGE_SAID_CUT && x->state == EXCHANGE_GOING)
		fail(x, exchange_said_much(x));
}

static void on_answer_body(struct exchange *x)
{
	size_t n;
	const uint8_t *data = http_parser_body(x->http1->answers, &n);

	put_scrubbed(x, data, n);
}

static void on_answer_end(struct exchange *x)
{
	put_scrubbed(x, NULL, 0);
	if (x->http1->chunked_down)
		must(x, http_chunk_last(&x->out[EXCHANGE_GUEST]));
	if (x->state == EXCHANGE_GOING)
		complete(x);
}

static void on_answer_event(struct exchange *x, enum http_event event)
{
	switch (event) {
	case HTTP_INTERIM:
		if (http_parser_head(x->http1->answers)->status != 100) /* that was ours */
			write_answer(x, http_parser_head(x->http1->answers));
		return;
	case HTTP_HEAD:
		on_answer_head(x);
		return;
	case HTTP_BODY:
		on_answer_body(x);
		return;
	case HTTP_END:
		on_answer_end(x);
		return;
	case HTTP_UPGRADE:
		x->http1->raw = true;
		return;
	case HTTP_ERROR:
		bad_answer(x, http_parser_reason(x->http1->answers));
		return;
	default:
		return;
	}
}

/* ---- bytes ---- */

/* Returns how many bytes of a side may be taken now. A chunk of one byte becomes twice as long. */
static size_t place(const struct exchange *x, enum exchange_side from)
{
	const struct http1 *h = x->http1;
	const struct buf *out = &x->out[!from];
	bool head = from == EXCHANGE_GUEST ? !h->busy : !h->answer_begun;
	size_t used = buf_len(out) + BODY_SPARE;

	if (from == EXCHANGE_GUEST && h->q.hold)
		return exchange_hold_room(&h->q);
	if (head)
		return buf_len(out) <= HEAD_WAITS ? HEAD_PIECE : 0;
	if (from == EXCHANGE_SERVER)
		used += buf_len(&h->q.scrub.held) + exchange_tools_waiting(&h->q);
	return used < out->max ? (out->max - used) / 3 : 0;
}

static bool wants(const struct exchange *x, enum exchange_side from)
{
	const struct http1 *h = x->http1;

	if (from == EXCHANGE_GUEST && h->busy && h->request_done && !h->raw)
		return false;
	return place(x, from) > 0;
}

static size_t receive_raw(
	struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n)
{
	struct http1 *h = x->http1;
	size_t room = place(x, from);

	n = n < room ? n : room;
	if (from == EXCHANGE_SERVER) {
		put_scrubbed(x, data, n);
	} else {
		h->q.up += n;
		must(x, buf_add(&x->out[EXCHANGE_SERVER], data, n));
	}
	return n;
}

/* Parses some bytes until they are used up, or the message is complete. */
static size_t parse(struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n)
{
	struct http1 *h = x->http1;
	struct http_parser *p = from == EXCHANGE_GUEST ? h->requests : h->answers;
	enum http_event event;
	size_t done = 0, used;

	do {
		if (from == EXCHANGE_GUEST && h->q.hold && n - done > exchange_hold_room(&h->q))
			n = done + exchange_hold_room(&h->q);
		event = http_parser_next(p, data + done, n - done, &used);
		done += used;
		if (from == EXCHANGE_GUEST)
			on_request_event(x, event);
		else
			on_answer_event(x, event);
	} while (x->state == EXCHANGE_GOING && event != HTTP_MORE && event != HTTP_END &&
		 event != HTTP_UPGRADE);
	return done;
}

/* The request that is held may need another. */
static void lose_server(struct exchange *x)
{
	x->server_failed = x->server_lost = true;
}

static size_t receive(struct exchange *x, enum exchange_side from, const uint8_t *data, size_t n)
{
	struct http1 *h = x->http1;
	size_t done = 0;

	while (done < n && x->state == EXCHANGE_GOING && wants(x, from)) {
		size_t room = place(x, from), piece = n - done < room ? n - done : room;

		if (h->raw) {
			done += receive_raw(x, from, data + done, piece);
		} else if (from == EXCHANGE_SERVER && h->q.hold) {
			lose_server(x); /* it has had enough of waiting */
			done = n;
		} else if (from == EXCHANGE_SERVER && !h->sent) {
			/* Many servers send an unasked answer about their timeout. It answers no
			 * request. */
			exchange_finish(x, EXCHANGE_DONE, NULL);
		} else {
			done += parse(x, from, data + done, piece);
		}
	}
	return done;
}

static void server_ended(struct exchange *x)
{
	struct http1 *h = x->http1;

	if (h->q.hold)
		lose_server(x);
	else if (!h->sent)
		exchange_finish(x, EXCHANGE_DONE, NULL);
	if (!h->sent)
		return;
	switch (http_parser_eof(h->answers)) {
	case HTTP_END:
		on_answer_end(x);
		return;
	case HTTP_MORE:
		/* A server may close while the next request is on its way. A client that sees only
		 * the close tries again, so it must not get a 502. */
		if (h->served)
			fail(x, "the server closed the connection before it answered");
		else
			bad_answer(x, "the server closed the connection without an answer");
		return;
	default:
		bad_answer(x, "the server closed the connection within its answer");
	}
}

static void receive_end(struct exchange *x, enum exchange_side from)
{
	struct http1 *h = x->http1;

	if (h->raw) {
		put_scrubbed(x, NULL, 0);
		exchange_request_end(x, &h->q);
		exchange_finish(x, EXCHANGE_DONE, NULL);
	} else if (from == EXCHANGE_SERVER) {
		server_ended(x);
	} else if (h->busy && h->request_done) {
		h->close = true; /* the answer is still wanted */
	} else if (h->busy) {
		fail(x, "the program closed the connection within its request");
	} else {
		exchange_finish(x, EXCHANGE_DONE, NULL);
	}
}

static void drained(struct exchange *x, enum exchange_side to)
{
	if (to == EXCHANGE_SERVER && buf_len(&x->http1->waiting))
		send_waiting(x);
}

static bool is_quiet(const struct exchange *x)
{
	return !x->http1->busy;
}

static void end(struct exchange *x)
{
	exchange_finish(x, EXCHANGE_DONE, NULL);
}

static void server_failed(struct exchange *x)
{
	struct http1 *h = x->http1;

	if (h->q.hold)
		return; /* it may need another */
	if (h->raw || (h->sent && h->served && !h->answer_begun))
		fail(x, x->server_reason);
	else if (h->sent)
		bad_answer(x, x->server_reason);
	else if (h->served)
		exchange_finish(x, EXCHANGE_DONE, NULL); /* the next request may find another */
}

/* ---- life ---- */

static int make(struct exchange *x)
{
	struct http_limits limits = HTTP_LIMITS_DEFAULT;
	struct http1 *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	limits.head_max = EXCHANGE_HEAD_MAX;
	limits.headers_max = EXCHANGE_FIELDS_MAX;
	limits.target_max = TARGET_MAX;
	x->http1 = h;
	h->requests = http_parser_new(HTTP_ROLE_SERVER, &limits);
	h->answers = http_parser_new(HTTP_ROLE_CLIENT, &limits);
	return h->requests && h->answers ? 0 : -ENOMEM;
}

static void http1_free(struct exchange *x)
{
	struct http1 *h = x->http1;

	if (!h)
		return;
	exchange_request_fail(&h->q, h->q.status, "reset", "the connection was closed");
	exchange_request_end(x, &h->q);
	buf_done(&h->waiting);
	http_parser_free(h->requests);
	http_parser_free(h->answers);
	free(h);
}

static void settle(struct exchange *x)
{
}

static size_t memory(const struct exchange *x)
{
	const struct exchange_request_state *q = &x->http1->q;

	return sizeof(*x->http1) + q->scrub.held.capacity + x->http1->waiting.capacity +
	       (q->hold ? sizeof(*q->hold) + q->hold->seen.capacity : 0);
}

const struct exchange_kind exchange_http1 = {
	.make = make,
	.free = http1_free,
	.receive = receive,
	.receive_end = receive_end,
	.wants = wants,
	.drained = drained,
	.is_quiet = is_quiet,
	.end = end,
	.server_failed = server_failed,
	.next_held = next_held,
	.held_body = held_body,
	.judge_held = judge_held,
	.held_headers = held_headers,
	.let_go = let_go,
	.renew = renew,
	.settle = settle,
	.memory = memory,
};
