/* Asking the running daemon of this state directory: HTTP/1.1 over its administrator's socket,
 * which serves everything to whoever may open it (docs/api.md).
 *
 * A client is one connection. Per request: client_begin(), the body by client_send() in pieces of
 * any size, client_end(); the events of the answer by client_next(); after CLIENT_END the next
 * request. Requests may be queued one behind the other without waiting; their answers come in
 * order.
 *
 * Nothing blocks but client_wait() and what is said to. Functions return 0 or -errno and fill e; a
 * failed client can only be closed. */
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
	CLIENT_QUEUE_HIGH = 256 * 1024,	      /* bytes that wait to be sent: client_room() is 0 */
	CLIENT_ANSWER_MAX = 64 * 1024 * 1024, /* of a body that is gathered */
	CLIENT_PATIENCE_S = 60,		      /* for an answer that takes no work */
};

struct client;

/* -ECONNREFUSED, with e left alone, when no daemon runs. */
int client_try(const struct home *home, struct client **ret, struct error *e);
/* Fills e for that: what to do. Returns -errno. */
int client_no_daemon(const struct home *home, struct error *e);
/* Both together. */
int client_open(const struct home *home, struct client **ret, struct error *e);
void client_close(struct client *c); /* NULL is fine */
void client_closep(struct client **c);

/* --- requests --- */

enum { CLIENT_CHUNKED = -1 };

struct client_request {
	const char *method, *target;
	const char *sandbox; /* whose port is asked; NULL: the control API */
	uint16_t port;
	const char *user; /* of the sandbox's, for RPCs; NULL or "": the template's */
	const char *content_type;
	const char *upgrade; /* a protocol to switch to, or NULL */
	int64_t length;	     /* of the body; CLIENT_CHUNKED: not known */
};

int client_begin(struct client *c, const struct client_request *r, struct error *e);
/* Queues; any amount is taken, but more than client_room() should wait. */
int client_send(struct client *c, const void *data, size_t n, struct error *e);
int client_end(struct client *c, struct error *e);
size_t client_room(const struct client *c);
/* Of a tunnel: ends our direction behind what is queued. */
void client_shutdown(struct client *c);
/* Sends what can be sent now. */
int client_flush(struct client *c, struct error *e);

/* --- answers --- */

enum client_event {
	CLIENT_WAIT,   /* nothing for now */
	CLIENT_HEAD,   /* client_head() */
	CLIENT_BODY,   /* client_body() */
	CLIENT_END,    /* the answer is complete */
	CLIENT_TUNNEL, /* 101 came: what follows is CLIENT_BODY, raw; client_send() sends raw */
	CLIENT_CLOSED, /* of a tunnel: the other side ended it */
};

/* The next event; flushes first. What an event points to is valid until the next call. */
int client_next(struct client *c, enum client_event *ret, struct error *e);
const struct http_head *client_head(const struct client *c);
const uint8_t *client_body(const struct client *c, size_t *ret_n);

/* For poll(). hold: the caller can take no events now. */
struct pollfd client_poll(const struct client *c, bool hold);
/* Whether part of an answer is there. */
bool client_is_readable(const struct client *c);
/* Blocks until there may be an event, or something was sent. ERROR_TIMEOUT. */
int client_wait(struct client *c, unsigned patience_s, struct error *e);
/* Blocks for the next event that is not WAIT. */
int client_next_blocking(
	struct client *c, unsigned patience_s, enum client_event *ret, struct error *e);

/* --- whole answers, blocking --- */

/* Sends everything, gathers the body and reads it as JSON; *ret NULL: it was empty, or no JSON. ret
 * may be NULL. An answer of 4xx or 5xx is an error with the daemon's words. */
int client_answer(struct client *c, unsigned patience_s, json_t **ret, struct error *e);
/* After a HEAD of 4xx or 5xx: gathers the body and fills e with what it says. Returns -errno. */
int client_refusal(struct client *c, struct error *e);
/* begin, send, end, answer: one call with a JSON body (borrowed, or NULL). r->content_type and
 * r->length are filled in. */
int client_call(struct client *c, const struct client_request *r, const json_t *body,
	unsigned patience_s, json_t **ret, struct error *e);

#endif
