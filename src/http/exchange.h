/* A request and its answer: the state that the connection and the handler share. request.h says
 * what a handler may do. */
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
	/* A piece of the body, never empty, valid until the callback returns. */
	void (*body)(struct request *r, const uint8_t *data, size_t n);
	/* The whole body was received. Called once, also without a body, but not before
	 * request_resume(). */
	void (*body_end)(struct request *r);
	void (*drained)(struct request *r);
	void (*done)(struct request *r, bool complete);
}; /* each may be NULL; a body without a callback is dropped */

/* How far the answer is.
 *
 *	NONE      not begun: any of the answering functions may be called
 *	STREAM    head sent, body open: request_write(), request_end(), request_abort()
 *	RAW       after request_upgrade(): as STREAM
 *	ENDED     the handler has finished; all functions fail with -EPIPE
 *	GONE      the client has gone; likewise */
enum request_state { REQUEST_NONE, REQUEST_STREAM, REQUEST_RAW, REQUEST_ENDED, REQUEST_GONE };

struct request {
	/* Handlers may read these. */
	void *owner;		      /* the owner of the server: see struct connections */
	const struct http_head *head; /* method, path, query, headers */
	struct route route;	      /* kind, sandbox id and port, from the Host or headers */
	char id[REQUEST_ID_BYTES];    /* for logs: request=..., and in every answer */
	char peer[46];		      /* the client's address; "" on the admin socket */
	bool admin;		      /* came through the admin socket */
	bool encrypted;		      /* came over TLS */
	enum request_state state;
	unsigned status;   /* of the answer; 0 before it */
	uint64_t start_ns; /* CLOCK_MONOTONIC when the head came */

	/* The router's: the path split and decoded, and the segments that match "{}". */
	struct uri_path *path; /* owned */
	const char *params[URI_PARAMS_MAX];
	struct store_key *key; /* the client's key, if the route demands one; belongs to the
			        * server's owner */
	const char *key_id;    /* for logs, or NULL */
	const char *pattern;   /* of the matching entry, or NULL */
	const char *file;      /* a file that the path names, in place of the query; or NULL */

	void *data; /* the handler's own */

	bool metered; /* request_meter() */
	bool final;   /* request_set_final() */

	/* Private to the server: see connection.c. */
	struct connection *connection;
	const struct request_ops *ops;
	struct request_collect *collect;
	bool reading;	/* the handler wants the body */
	bool received;	/* all of the body came in */
	bool told_end;	/* ops->body_end was called */
	bool told_done; /* ops->done was called */
	bool continued; /* the client was told to send its body (100) */
	bool chunked;	/* the answer's body is chunked */
	bool head_only; /* an answer to HEAD: its body is dropped */
	bool close;	/* the connection ends with this answer */
	bool full;	/* request_write() returned 1 */
	uint64_t left;	/* bytes of a fixed-length body still to be written */
	bool fixed;
};

/* Handles requests of one kind (server.h, router.h). */
typedef void (*request_handler)(struct request *r);

#endif
