/* One HTTP request and its answer: the server's interface for handlers.
 *
 * The server calls the handler when the request's head has arrived, on the loop's thread. The
 * handler answers then or later. It must end every request, in one of these ways: request_reply()
 * (or one of reply.h); request_stream(), request_write() ..., request_end(); or request_abort().
 * Until then the server calls the ops that the handler has set with request_set_ops(). Everything
 * is single-threaded. No function of this header calls back, so a request never disappears within a
 * handler's function.
 *
 * Reading. The body is read from request_resume() on. request_pause() stops it again, and TCP slows
 * the client down. A handler may end without reading the body: the server then reads and drops a
 * moderate rest, or closes. The first request_resume() answers "Expect: 100-continue".
 *
 * Writing. request_write() copies. What is written in one turn of the loop is sent at the end of
 * that turn. From REQUEST_HIGH_WATER queued bytes on it returns 1: stop writing. ops->drained
 * follows when less than REQUEST_LOW_WATER is left. Data written after a 1 is still queued up to
 * REQUEST_QUEUE_MAX, then the result is -EMSGSIZE.
 *
 * The end. If ops were set, ops->done is called exactly once, and last. `complete` is true if the
 * handler ended the answer, which may still be on its way. Otherwise the client has gone, the
 * server stops, or a time limit has passed. Release the request's resources there (timers, agent
 * links), and do not use the request afterwards. While a body is paused, the server notices that
 * the client has gone only if it had received the whole body.
 *
 * Upgrade. If head->upgrade is set, request_upgrade() answers with the handler's head (101) and
 * makes the connection raw. ops->body then gets raw bytes, including those received already.
 * ops->body_end comes at the client's end of file. request_write() sends raw bytes, and
 * request_end() sends what is queued and closes. */
#ifndef HTTP_REQUEST_H
#define HTTP_REQUEST_H

#include <uv.h>

#include "http/budget.h"
#include "http/exchange.h"
#include "proto/http_response.h"

/* ops must outlive the request. */
void request_set_ops(struct request *r, const struct request_ops *ops, void *data);

/* From now on reports bodies to the owner as traffic of that sandbox, both ways: bytes that the
 * handler takes, and answers other than refusals. Call it once the client has proved its right. */
void request_meter(struct request *r, const char *sandbox_id);

/* --- reading --- */

void request_resume(struct request *r);
void request_pause(struct request *r);

/* Instead of ops: gathers the whole body, then calls `then` with it (NUL-terminated, valid until it
 * returns). Answers 413 to a body of more than max bytes, and 429 if the account's budget has no
 * room. If the client goes, nothing is called. `then` may set ops. */
void request_collect(
	struct request *r, size_t max, void (*then)(struct request *r, const char *body, size_t n));
/* The same with another form of refusals. */
void request_collect_or(struct request *r, size_t max,
	void (*then)(struct request *r, const char *body, size_t n),
	void (*refuse)(struct request *r, unsigned status, const char *message));

/* Marks the request as final: it did something that must not be done twice, or a repeat would not
 * help. An answer with a status of 429 or more then carries "Should-Retry: false", so that SDKs do
 * not repeat the request by themselves. Every 429 and 503 has a Retry-After, final or not. */
void request_set_final(struct request *r);

/* --- answering: 0 or -errno (-EPIPE: too late, the client has gone or has its answer) --- */

/* Sends a whole answer. The server fills in reply->head_only, close and keep_alive_10. */
int request_reply(struct request *r, const struct http_reply *reply);

/* As http_reply_error(): errors in the control API's form. */
int request_reply_error(struct request *r, const struct http_reply *reply, const char *error_code,
	const char *message);

/* Sends the head of a streamed body of `length` bytes, or HTTP_NO_LENGTH if the length is
 * unknown. */
int request_stream(struct request *r, const struct http_reply *reply, int64_t length);

/* Begins a proxied answer. http_proxy_response() wrote `head`, and also determined `chunked` (the
 * body is sent in chunks) and `close` (the connection closes after it). */
int request_stream_proxied(
	struct request *r, unsigned status, const void *head, size_t n, bool chunked, bool close);

/* Sends a ready-made 1xx answer before the final one. */
int request_interim(struct request *r, const void *head, size_t n);

/* Queues data. Returns 1 if the queue is full now (see above), -EMSGSIZE beyond a fixed length. */
int request_write(struct request *r, const void *data, size_t n);
/* The number of bytes until it is full. */
size_t request_room(const struct request *r);
int request_end(struct request *r);
/* The same with trailers, for clients that take a body in chunks. */
int request_end_trailers(struct request *r, const struct http_field *trailers, size_t count);

/* Cuts the connection, so that the client sees a broken answer. */
void request_abort(struct request *r);

/* Sends this ready-made 101 head (status line to blank line); the connection is raw then. */
int request_upgrade(struct request *r, const void *head, size_t n);

/* Charges what the daemon holds for the client to that account (budget.h): a key's id. Returns
 * false if the account has too many connections; the request has been answered then. */
bool request_charge_to(struct request *r, const char *id);
/* Charges another holder of bytes to the same account. */
void request_hold(const struct request *r, struct budget_hold *h);

/* Whether the client may try a secret, if checking it costs something (peers.h). note: it tried a
 * wrong one. */
bool request_may_guess(const struct request *r);
void request_note_guess(const struct request *r);

uv_loop_t *request_loop(const struct request *r);
/* The domain in which the hosts of sandboxes end, or NULL: any will do. */
const char *request_domain(const struct request *r);

#endif
