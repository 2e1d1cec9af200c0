/* HTTP/1.1 for the interpreter: requests with small bodies, answers whole or streamed.
 *
 * A request is gathered whole and handed to the handler as an exchange. The handler must end it:
 * exchange_reply(), or exchange_stream(), exchange_write()..., exchange_end(). A connection's
 * requests are handled one at a time. A client that closes its connection (or its direction of it)
 * before the answer has ended has gone: ops->gone() is called, which ends the exchange. Functions
 * of this header never call drained() or gone() themselves.
 *
 * Limits: SERVER_CONNECTIONS_MAX connections, SERVER_BODY_MAX bytes per body, SERVER_BODIES_MAX
 * bytes in all bodies together. Every wait for a client has a time limit (below). */
#ifndef INTERPRETER_SERVER_H
#define INTERPRETER_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <uv.h>

#include "base/error.h"

enum {
	SERVER_CONNECTIONS_MAX = 512,
	SERVER_BODY_MAX = 16 << 20,
	SERVER_BODIES_MAX = 64 << 20,
	SERVER_KEEP_S = 650,	      /* between requests: clients keep connections for 620 s */
	SERVER_RECEIVE_S = 30,	      /* for a request from its first byte to its last */
	SERVER_TAKE_S = 600,	      /* for a client that takes none of its data */
	SERVER_FULL = 1 << 20,	      /* bytes queued that make an exchange full */
	SERVER_QUEUE_MAX = 384 << 20, /* bytes queued at most: the longest line, escaped */
};

struct exchange_ops {
	void (*drained)(void *opaque); /* it was full and no longer is */
	void (*gone)(void *opaque);
};

struct exchange; /* valid until it has ended or gone() was called */
struct server;

typedef void (*server_handler)(void *opaque, struct exchange *x);

/* Listens on a port (0: any). *ret_port is the actual one. NULL with e filled on failure. */
struct server *server_new(uv_loop_t *loop, const char *address, unsigned port,
	server_handler handler, void *opaque, unsigned *ret_port, struct error *e);
void server_stop(struct server *s); /* closes everything; gone() is not called any more */
void server_free(struct server *s); /* after the loop has ended */

const char *exchange_method(const struct exchange *x);
const char *exchange_path(const struct exchange *x); /* without the query, not decoded */
const char *exchange_body(const struct exchange *x, size_t *ret_n);
void exchange_drop_body(struct exchange *x); /* frees its memory early */
void exchange_set_ops(struct exchange *x, const struct exchange_ops *ops, void *opaque);

/* Sends a whole answer; content_type NULL: none. */
void exchange_reply(
	struct exchange *x, unsigned status, const char *content_type, const void *body, size_t n);
/* Sends the head of a streamed answer at once. */
void exchange_stream(struct exchange *x, unsigned status, const char *content_type);
/* Returns 0, 1 when the exchange is full now (data written all the same is queued), -EMSGSIZE or
 * -ENOMEM. */
int exchange_write(struct exchange *x, const void *data, size_t n);
bool exchange_is_full(const struct exchange *x);
void exchange_end(struct exchange *x);

#endif
