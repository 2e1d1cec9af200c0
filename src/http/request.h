/* One HTTP request and its answer: what the server gives to a handler.
 *
 * The handler is called at the request's head, on the loop's thread, and answers then or later. It
 * must end every request: request_reply() (or one of reply.h), or request_stream(), request_write()
 * ..., request_end(), or request_abort(). Between the two the server calls the handler's ops, which
 * it has set by request_set_ops(). All of it is single-threaded; no callback is made from within a
 * call of this header, so a handler never finds its request gone in the middle of a function.
 *
 * Reading. The body is not read before request_resume(); request_pause() stops it again, and then
 * the client is slowed down by TCP. A handler that ends without having read the body need not care:
 * the server reads and drops a moderate rest, or closes. "Expect: 100-continue" is answered by the
 * first request_resume().
 *
 * Writing. request_write() copies, and what was written in one turn of the loop is sent at its end,
 * without waiting for more. From REQUEST_HIGH_WATER queued bytes on it returns 1: stop,
 * ops->drained comes when less than REQUEST_LOW_WATER is left. (What is written all the same is
 * queued, up to REQUEST_QUEUE_MAX, then -EMSGSIZE.)
 *
 * The end. ops->done is called exactly once if ops were set, and last: complete when the answer was
 * ended by the handler (it may still be on its way to the client), or else the client has gone, the
 * server stops, or a time limit passed. Release there what belongs to the request (timers, agent
 * links); the request must not be used afterwards. Detection of a gone client works while the body
 * is paused only when the whole of it had been received.
 *
 * Upgrade. If head->upgrade is set, request_upgrade() answers with a head of the handler's (101)
 * and makes the connection a raw one: ops->body gets raw bytes (those included that were already
 * received), ops->body_end comes at the client's end of file, request_write() sends raw bytes and
 * request_end() sends what is queued and closes. */
#ifndef DAEMON_REQUEST_H
#define DAEMON_REQUEST_H

#include <uv.h>

#include "http/budget.h"
#include "http/exchange.h"
#include "proto/http_response.h"

/* ops must outlive the request. */
void request_set_ops(struct request *r, const struct request_ops *ops, void *data);

/* From now on the owner is told of the bodies as traffic of that sandbox, both ways: what a handler
 * takes, and answers other than refusals. Once the client is known to have the right. */
void request_meter(struct request *r, const char *sandbox_id);

/* --- reading --- */

void request_resume(struct request *r);
void request_pause(struct request *r);

/* Instead of ops: gathers the whole body, then calls `then` with it (NUL-terminated, valid until it
 * returns). A body of more than max bytes is answered with 413, one that the account's budget has
 * no room for with 429, a client that goes ends it without a call. ops may be set from `then` on. */
void request_collect(
	struct request *r, size_t max, void (*then)(struct request *r, const char *body, size_t n));
/* The same with another form of refusals. */
void request_collect_or(struct request *r, size_t max,
	void (*then)(struct request *r, const char *body, size_t n),
	void (*refuse)(struct request *r, unsigned status, const char *message));

/* Something was done that must not be done twice, or to ask again would not help: failures from now
 * on have "Should-Retry: false", which keeps the SDKs from repeating the request by themselves. Of
 * other answers with 429 or 503 each has a Retry-After. */
void request_set_final(struct request *r);

/* --- answering: 0 or -errno (-EPIPE: too late, the client has gone or it was answered) --- */

/* The whole answer. reply->head_only, close and keep_alive_10 are filled in by the server. */
int request_reply(struct request *r, const struct http_reply *reply);

/* As http_reply_error(): the control API's form. */
int request_reply_error(struct request *r, const struct http_reply *reply, const char *error_code,
	const char *message);

/* The head of a streamed body of `length` bytes, or of unknown length: HTTP_NO_LENGTH. */
int request_stream(struct request *r, const struct http_reply *reply, int64_t length);

/* A proxied answer: `head` was written by http_proxy_response(), which also said whether the body
 * that follows is to be sent in chunks and whether the connection closes after it. */
int request_stream_proxied(
	struct request *r, unsigned status, const void *head, size_t n, bool chunked, bool close);

/* A 1xx answer in front of the final one, ready-made. */
int request_interim(struct request *r, const void *head, size_t n);

/* 1: queued, and full (see above). More than the fixed length is -EMSGSIZE. */
int request_write(struct request *r, const void *data, size_t n);
/* Bytes until full. */
size_t request_room(const struct request *r);
int request_end(struct request *r);

/* Ends the connection so that the client sees a broken answer. */
void request_abort(struct request *r);

/* 101 with this ready-made head (status line to blank line), then raw. */
int request_upgrade(struct request *r, const void *head, size_t n);

/* What the daemon holds for the client counts for that account (budget.h): a key's id. False: it
 * has too many connections, and the request was answered. */
bool request_charge_to(struct request *r, const char *id);
/* Another holder of bytes for the same account. */
void request_hold(const struct request *r, struct budget_hold *h);

/* Whether the client may try secrets that cost something to look for (peers.h), and that it tried a
 * wrong one. */
bool request_may_guess(const struct request *r);
void request_note_guess(const struct request *r);

uv_loop_t *request_loop(const struct request *r);
/* The domain that the sandboxes' hosts end in, or NULL: any will do. */
const char *request_domain(const struct request *r);

#endif
