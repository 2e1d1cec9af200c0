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

/* One direction of a stream. */
struct http2_way {
	struct fields head; /* the head that is being received */
	bool malformed;
	struct buf body; /* bytes that wait */
	struct fields trailers;
	size_t counted; /* bytes of the trailers that the account counts */
	bool ended;	/* all of it was received */
};

struct http2_stream {
	struct http2_stream *next;
	struct exchange *x;
	int32_t id[2];	/* 0: no stream on this side */
	bool closed[2]; /* likewise */
	struct http2_way from[2];
	struct exchange_request_state q;
	struct fields held_head; /* of a held request */
	bool held_body;		 /* it has a body */
	size_t rules_kept;	 /* bytes that rules made it keep, as the account counts them */
	size_t lent;		 /* bytes of the held body that were given back to the connection's
				  * window */
	size_t opened;		 /* bytes for which both windows were opened */
	size_t spared;	  /* bytes of the answer that the connection's window does not count */
	unsigned interim; /* number of interim answers (1xx) */
	bool sent;	  /* the server has the request */
	bool answered;	  /* the guest has the final head, or will get it next */
	bool answer_sent; /* the guest has all of the answer */
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
	size_t lent;  /* sum of all streams, at most HTTP2_STREAM_LENT_MAX, so that other streams go
		       * on */
	bool served;  /* there was a stream */
	bool closing; /* no new requests; the exchange is done after the last stream */
	bool no_memory;
	bool flooded;	   /* the guest made too many streams fail */
	uint64_t resets;   /* that we sent, less those that may be forgotten since */
	uint64_t resets_s; /* when they were counted */
};

static inline nghttp2_session *http2_session_of(
	const struct http2_stream *s, enum exchange_side side)
{
	return s->x->http2->sessions[side];
}

/* ---- exchange_http2.c ---- */

/* Answers in the server's place, with the reason in q. */
int http2_refuse(struct http2_stream *s);
int http2_send_request(struct http2_stream *s, const struct http2_head *in, bool with_body);
void http2_lose_server(struct exchange *x, const char *reason);

/* ---- exchange_http2_stream.c ---- */

/* Returns NULL if there are too many streams, or when out of memory. */
struct http2_stream *http2_stream_new(struct exchange *x, int32_t id);
void http2_stream_free(struct http2_stream *s);

/* Counts n bytes of fields from a side that the stream keeps until it is freed. */
int http2_stream_keep(struct http2_stream *s, enum exchange_side from, size_t n);
void http2_stream_reset(struct http2_stream *s, enum exchange_side side, uint32_t code);
/* There is something to send to a side. */
void http2_stream_wake(struct http2_stream *s, enum exchange_side to);
/* Callback of nghttp2: reads the body that goes to a side. */
ssize_t http2_read_body(nghttp2_session *to_session, int32_t id, uint8_t *out, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *arg);
/* Drops the body that a side sends. */
void http2_drop_body(struct http2_stream *s, enum exchange_side from);
/* Bytes of an answer. 0 or an error: -EBADMSG is the server's fault. */
int http2_take_answer(struct http2_stream *s, const uint8_t *data, size_t bytes);
/* A side has sent all of its body. */
void http2_end_way(struct http2_stream *s, enum exchange_side from);

/* ---- exchange_http2_hold.c ---- */

/* Holds a request: keeps its head. end: it has no body. */
int http2_hold_head(struct http2_stream *s, bool end);
/* Takes bytes of its body. */
int http2_hold_take(struct http2_stream *s, const uint8_t *data, size_t bytes);
/* Asks a person, if enough of the request was received. */
int http2_hold_ask(struct http2_stream *s);
/* Functions of struct exchange_kind. */
void http2_let_go(struct exchange *x, struct exchange_request_state *q, bool allowed);
const struct buf *http2_held_body(struct exchange *x, struct exchange_request_state *q);
struct exchange_verdict http2_judge_held(
	struct exchange *x, struct exchange_request_state *q, struct exchange_request r);
int http2_held_headers(
	struct exchange *x, struct exchange_request_state *q, struct held_headers *ret);
struct exchange_request_state *http2_next_held(
	struct exchange *x, const struct exchange_request_state *after);

#endif
