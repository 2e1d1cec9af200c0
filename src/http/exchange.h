/* A request and its answer, as the connection that carries it and the handler that answers it both
 * see it. request.h has what a handler may do. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/http.h"
#include "proto/route.h"
#include "proto/uri.h"

struct connection;
struct request;
struct store_key;

enum {
	REQUEST_HIGH_WATER = 256 * 1024,
	REQUEST_LOW_WATER = 64 * 1024,
	REQUEST_QUEUE_MAX = 4 * 1024 * 1024,
	REQUEST_ID_BYTES = 17,
};

struct request_ops {
	/* Part of the body, never empty, valid until it returns. */
	void (*body)(struct request *r, const uint8_t *data, size_t n);
	/* All of the body was received: once, also without a body, not before request_resume(). */
	void (*body_end)(struct request *r);
	void (*drained)(struct request *r);
	void (*done)(struct request *r, bool complete);
}; /* each may be NULL; a body without a callback is dropped */

/* How far the answer is.
 *
 *	NONE      nothing was answered; any of the answering functions may be called
 *	STREAM    head sent, body open: request_write(), request_end(), request_abort()
 *	RAW       after request_upgrade(): as STREAM
 *	ENDED     the handler is done; every function is without effect (-EPIPE)
 *	GONE      the client is; likewise
 */
enum request_state { REQUEST_NONE, REQUEST_STREAM, REQUEST_RAW, REQUEST_ENDED, REQUEST_GONE };

struct request {
	/* For the handler to read. */
	void *owner;		      /* whose server it is: see struct connections */
	const struct http_head *head; /* method, path, query, headers */
	struct route route;	      /* kind, sandbox id and port, from the Host or headers */
	char id[REQUEST_ID_BYTES];    /* for logs: request=..., and in every answer */
	char peer[46];		      /* address of the client; "" on the admin socket */
	bool admin;		      /* came through the admin socket */
	bool encrypted;		      /* came over TLS */
	enum request_state state;
	unsigned status;   /* of the answer, 0 before */
	uint64_t start_ns; /* CLOCK_MONOTONIC, at the head */

	/* Of the router: the path taken apart and decoded; what "{}" in its pattern stood for. */
	struct uri_path *path; /* owned */
	const char *params[4];
	struct store_key *key; /* who asks, where the route demands a key; the owner's */
	const char *key_id;    /* for logs, or NULL */
	const char *pattern;   /* the entry's, NULL when none matched */

	void *data; /* the handler's own */

	bool metered; /* request_meter() */
	bool final;   /* request_set_final() */

	/* The server's own: see connection.c. */
	struct connection *connection;
	const struct request_ops *ops;
	struct request_collect *collect;
	bool reading;	/* the handler wants the body */
	bool received;	/* all of the body came in */
	bool told_end;	/* ops->body_end was called */
	bool told_done; /* ops->done was */
	bool continued; /* "100 Continue" was sent */
	bool chunked;	/* the answer's body is */
	bool head_only; /* answer to HEAD: the body is dropped */
	bool close;	/* the connection ends with this answer */
	bool full;	/* request_write() returned 1 */
	uint64_t left;	/* bytes of a body of fixed length still to be written */
	bool fixed;
};

/* Called with every request of a kind (server.h, router.h). */
typedef void (*request_handler)(struct request *r);

#endif
