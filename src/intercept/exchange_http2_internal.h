/* Shared by the parts of exchange_http2.c: exchange_http2_stream.c (streams and their bodies),
 * exchange_http2_hold.c (requests that wait for a person). Their functions return 0 or -ENOMEM,
 * which ends the connection. */
#ifndef INTERCEPT_EXCHANGE_HTTP2_INTERNAL_H
#define INTERCEPT_EXCHANGE_HTTP2_INTERNAL_H

#include <nghttp2/nghttp2.h>

#include "intercept/exchange_internal.h"
#include "intercept/http2_block.h"
#include "intercept/http2_memory.h"

enum {
	HTTP2_STREAM_WINDOW = 128 << 10,
	HTTP2_STREAM_LENT_MAX = 4 * EXCHANGE_HELD_MAX, /* of a connection: struct http2 */
};

/* What goes from one side to the other. */
struct http2_way {
	struct fields head; /* that is coming in */
	bool malformed;
	struct buf body; /* that waits */
	struct fields trailers;
	size_t counted; /* bytes of the trailers in the account */
	bool ended;	/* all of it came in */
};

struct http2_stream {
	struct http2_stream *next;
	struct exchange *x;
	int32_t id[2];	/* 0: there is none on this side */
	bool closed[2]; /* likewise */
	struct http2_way from[2];
	struct exchange_request_state q;
	struct fields held_head; /* of a request that is held */
	bool held_body;		 /* it has a body */
	size_t lent;		 /* bytes of it that the connection's window has back already */
	size_t opened;		 /* bytes for which both windows were opened already */
	unsigned interim;	 /* answers before the final one */
	bool sent;		 /* the server has the request */
	bool answered;		 /* the guest has the final head, or gets it next */
	bool answer_sent;	 /* and all of the rest */
};

struct http2_side {
	struct exchange *x;
	enum exchange_side side;
};

struct http2 {
	nghttp2_session *sessions[2];
	struct http2_memory memory[2];
	struct http2_account account;
	struct http2_side sides[2];
	struct http2_stream *streams;
	unsigned count;
	size_t lent;  /* of all streams, HTTP2_STREAM_LENT_MAX at most: others go on */
	bool served;  /* there was a stream */
	bool closing; /* no more requests come; the exchange is done after the last stream */
	bool no_memory;
};

static inline nghttp2_session *http2_session_of(
	const struct http2_stream *s, enum exchange_side side)
{
	return s->x->http2->sessions[side];
}

/* ---- exchange_http2.c ---- */

/* Answers in the server's place, for the reason in q. */
int http2_refuse(struct http2_stream *s);
int http2_send_request(struct http2_stream *s, const struct http2_head *in, bool with_body);
void http2_lose_server(struct exchange *x, const char *reason);

/* ---- exchange_http2_stream.c ---- */

/* NULL: there are too many, or there is no memory. */
struct http2_stream *http2_stream_new(struct exchange *x, int32_t id);
void http2_stream_free(struct http2_stream *s);

/* Counts what a stream keeps of fields that came from a side, until it is freed. */
int http2_stream_keep(struct http2_stream *s, enum exchange_side from, size_t n);
void http2_stream_reset(struct http2_stream *s, enum exchange_side side, uint32_t code);
/* There is something to send. */
void http2_stream_wake(struct http2_stream *s, enum exchange_side to);
/* For nghttp2: the body that goes to a side. */
ssize_t http2_read_body(nghttp2_session *to_session, int32_t id, uint8_t *out, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *arg);
/* Nobody takes what a side sends. */
void http2_drop_body(struct http2_stream *s, enum exchange_side from);
/* All of it came in. */
void http2_end_way(struct http2_stream *s, enum exchange_side from);

/* ---- exchange_http2_hold.c ---- */

/* The request is held: keeps its head. end: it has no body. */
int http2_hold_head(struct http2_stream *s, bool end);
/* Bytes of its body. */
int http2_hold_take(struct http2_stream *s, const uint8_t *data, size_t bytes);
/* Asks a person, if enough of the request is there. */
int http2_hold_ask(struct http2_stream *s);
/* For struct exchange_kind. */
void http2_let_go(struct exchange *x, struct exchange_request_state *q, bool allowed);
struct exchange_request_state *http2_next_held(
	struct exchange *x, const struct exchange_request_state *after);

#endif
