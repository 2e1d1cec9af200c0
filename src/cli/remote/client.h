/* An HTTP/1.1 client for the running daemon of this state directory. It uses the admin socket,
 * which gives full access to whoever may open it (docs/api.md).
 *
 * A client is one connection. For each request, call client_begin(), client_send() with the body in
 * pieces of any size, and client_end(). Then get the answer's events from client_next(). The next
 * request follows CLIENT_END. Requests may also be queued without waiting; their answers come in
 * order.
 *
 * Only client_wait() and functions marked as blocking block. Functions return 0, or -errno with e
 * filled. A failed client can only be closed. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include <jansson.h>
#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "image/home.h"
#include "proto/http.h"

enum {
	CLIENT_QUEUE_HIGH = 256 * 1024,	      /* waiting bytes at which client_room() is 0 */
	CLIENT_ANSWER_MAX = 64 * 1024 * 1024, /* of a gathered body */
	CLIENT_PATIENCE_S = 60,		      /* for an answer that takes no work */
};

struct client;

/* Returns -ECONNREFUSED, without filling e, if no daemon runs. */
int client_try(const struct home *home, struct client **ret, struct error *e);
/* Fills e for that case, with advice. Returns -errno. */
int client_no_daemon(const struct home *home, struct error *e);
/* client_try(), then client_no_daemon() if no daemon runs. */
int client_open(const struct home *home, struct client **ret, struct error *e);
/* client_open() with the default state directory. */
int client_open_default(struct client **ret, struct error *e);
void client_close(struct client *c); /* NULL is fine */
void client_closep(struct client **c);

/* --- requests --- */

enum { CLIENT_CHUNKED = -1 };

struct client_request {
	const char *method, *target;
	const char *sandbox; /* the port's sandbox; NULL: the control API */
	uint16_t port;
	const char *user; /* a user of the sandbox, for RPCs; NULL or "": the template's */
	const char *content_type;
	const char *upgrade; /* a protocol to switch to, or NULL */
	int64_t length;	     /* of the body; CLIENT_CHUNKED: unknown */
};

int client_begin(struct client *c, const struct client_request *r, struct error *e);
/* Queues any amount, but the caller should queue no more than client_room(). */
int client_send(struct client *c, const void *data, size_t n, struct error *e);
int client_end(struct client *c, struct error *e);
size_t client_room(const struct client *c);
/* For a tunnel: ends our direction after what is queued. */
void client_shutdown(struct client *c);
/* Sends as much as possible now. */
int client_flush(struct client *c, struct error *e);

/* --- answers --- */

enum client_event {
	CLIENT_WAIT,   /* nothing for now */
	CLIENT_HEAD,   /* see client_head() */
	CLIENT_BODY,   /* see client_body() */
	CLIENT_END,    /* the answer is complete */
	CLIENT_TUNNEL, /* 101 came: now CLIENT_BODY has raw bytes, and client_send() sends raw
		        * ones */
	CLIENT_CLOSED, /* the other side has closed a tunnel */
};

/* Flushes, then returns the next event. What it points to is valid until the next call. */
int client_next(struct client *c, enum client_event *ret, struct error *e);
const struct http_head *client_head(const struct client *c);
const uint8_t *client_body(const struct client *c, size_t *ret_n);

/* For poll(). hold: the caller cannot take events now. */
struct pollfd client_poll(const struct client *c, bool hold);
/* Whether part of an answer has arrived. */
bool client_is_readable(const struct client *c);
/* Blocks until there may be an event, or something was sent. Fails with ERROR_TIMEOUT. */
int client_wait(struct client *c, unsigned patience_s, struct error *e);
/* Blocks until the next event other than CLIENT_WAIT. */
int client_next_blocking(
	struct client *c, unsigned patience_s, enum client_event *ret, struct error *e);

/* --- whole answers, blocking --- */

/* Sends everything, gathers the body and parses it as JSON. *ret is NULL if the body is empty or
 * not JSON; ret may be NULL. An answer of 4xx or 5xx is an error with the daemon's message. */
int client_answer(struct client *c, unsigned patience_s, json_t **ret, struct error *e);
/* After a HEAD of 4xx or 5xx: gathers the body, fills e from it, and returns -errno. */
int client_refusal(struct client *c, struct error *e);
/* A whole call with a JSON body (borrowed, or NULL): begin, send, end, answer. Fills in
 * r->content_type and r->length. */
int client_call(struct client *c, const struct client_request *r, const json_t *body,
	unsigned patience_s, json_t **ret, struct error *e);

#endif
