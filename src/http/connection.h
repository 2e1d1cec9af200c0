/* A client's connection: bytes to requests and answers to bytes (RFC 9112).
 *
 * Only the loop's callbacks and connection_turn() call handlers; the functions of request.h note
 * what is to be done and put the connection on the server's list of dirty ones, whose turn comes
 * before the loop waits. Requests are taken one at a time; pipelined ones wait in `in`. */
#ifndef DAEMON_CONNECTION_H
#define DAEMON_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "http/budget.h"
#include "http/exchange.h"
#include "http/transport.h"
#include "proto/http.h"

enum {
	CONNECTION_HANDSHAKE_S = 10,	       /* of TLS */
	CONNECTION_FIRST_S = 30,	       /* until the first head's last byte */
	CONNECTION_YOUNG_S = 2,		       /* spared meanwhile, when others have to give way */
	CONNECTION_IDLE_S = 650,	       /* clients keep connections for 620 s */
	CONNECTION_HEAD_S = 30,		       /* from a head's first byte to its last */
	CONNECTION_BODY_S = 300,	       /* between two pieces of a body that is wanted */
	CONNECTION_DROP_S = 10,		       /* for the rest of one that nobody wanted */
	CONNECTION_WRITE_S = 600,	       /* a client that takes nothing */
	CONNECTION_LINGER_S = 2,	       /* for the client to read the last answer */
	CONNECTION_IN_MAX = 128 * 1024,	       /* bytes waiting: pipelined, or of a paused body */
	CONNECTION_DROP_MAX = 1024 * 1024,     /* bytes of a body that nobody wanted; then close */
	CONNECTION_OUT_MAX = 64 * 1024 * 1024, /* a whole answer */
};

/*	OPEN      requests are taken; `request` is the current one
 *	LAST      nothing more is taken; what is queued is sent, then LINGER
 *	LINGER    our direction is closed; what comes is dropped until the client closes too, so
 *	          that it reads the answer instead of seeing a reset
 *	CLOSED    the handle is being closed; memory goes when libuv has let go of it
 */
enum connection_state { CONNECTION_OPEN, CONNECTION_LAST, CONNECTION_LINGER, CONNECTION_CLOSED };

/* What `deadline_ns` is about. */
enum connection_wait {
	CONNECTION_WAIT_NONE,
	CONNECTION_WAIT_HANDSHAKE,
	CONNECTION_WAIT_FIRST, /* for all of the first head */
	CONNECTION_WAIT_IDLE,
	CONNECTION_WAIT_HEAD,
	CONNECTION_WAIT_BODY,
	CONNECTION_WAIT_DROP, /* for the rest of a body that nobody wanted */
	CONNECTION_WAIT_WRITE,
	CONNECTION_WAIT_LINGER,
};

struct peer;
struct peers;

/* Where a client came in. */
enum server_door { SERVER_PUBLIC, SERVER_ADMIN, SERVER_METRICS };

/* What the owner of the connections does. */
struct connection_ops {
	/* A request came; route is set. The handler's contract is that of request.h. */
	void (*request)(struct request *r);
	/* Bytes of bodies of a request that is metered (request_meter). */
	void (*traffic)(struct request *r, uint64_t in_bytes, uint64_t out_bytes);
	/* The request goes: frees what the owner hung on it (key). */
	void (*release)(struct request *r);
};

/* What all connections of a server share. Whoever opens it fills in loop, ops, owner and domain. */
struct connections {
	uv_loop_t *loop;
	const struct connection_ops *ops;
	void *owner;		 /* of requests: for their handlers */
	const char *domain;	 /* see route_classify() */
	struct tls_context *tls; /* of SERVER_PUBLIC; NULL: plain */
	struct peers *peers;
	struct budget budget;
	unsigned key_max; /* connections of one key */
	struct connection *first;
	unsigned count;
	struct connection *dirty, *dirty_last;	  /* to be looked at in this turn */
	uint32_t run;				  /* random: ids of requests differ between runs */
	uint32_t requests;			  /* served since the start */
	uint8_t scratch[TRANSPORT_SCRATCH_BYTES]; /* of whichever connection reads now */
};

struct connection {
	struct transport transport;
	struct connections *all;
	struct connection *next, *prev, *dirty_next;
	bool is_dirty;
	enum server_door door;
	enum connection_state state;
	struct http_parser *parser;
	struct request *request; /* NULL between requests */
	struct buf in;		 /* received, not parsed */
	struct buf out;		 /* to be sent */
	bool aborted;		 /* the handler wants it cut */
	bool is_closed;		 /* libuv has let go of it */
	bool eof;		 /* the client's direction is closed */
	bool progress;		 /* bytes went in the direction that is waited for */
	uint64_t dropped;	 /* bytes of a body that nobody wanted */
	bool begun;		 /* a head was complete */
	bool known;		 /* a request had a key, or was let into a sandbox */
	enum connection_wait wait;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	char peer[TRANSPORT_PEER_BYTES];
	struct peer *who;	 /* NULL: not of the public door */
	struct budget_hold hold; /* of what is queued, both ways */
};

/* Not accepted yet; NULL when out of memory. */
struct connection *connection_new(struct connections *all, enum server_door door);
/* Takes a client of the listener's; a failure closes it. 0 or -errno. */
int connection_accept(struct connection *c, uv_stream_t *listener);
/* Serves it, or turns it away with a status such as "503 Service Unavailable": there are too many. */
void connection_start(struct connection *c);
void connection_turn_away(struct connection *c, const char *status);
/* Its descriptor is among the last (fd_is_scarce): without room for what it may ask for. */
bool connection_is_scarce(const struct connection *c);
/* When there are too many: whom it costs least to close.
 *
 *	STRANGER  has not sent a whole head yet, and is not young
 *	IDLE      between requests, and never showed a key or token
 *	YOUNG     has not sent a whole head yet; it may be about to
 *	CLIENT    between requests
 *	BUSY      never closed for another's sake
 */
enum connection_worth {
	CONNECTION_STRANGER,
	CONNECTION_IDLE,
	CONNECTION_YOUNG,
	CONNECTION_CLIENT,
	CONNECTION_BUSY
};
enum connection_worth connection_worth(const struct connection *c, uint64_t now_ns);
/* For the server's prepare handle: everything that is due. */
void connection_turn(struct connection *c);
void connection_check_time(struct connection *c, uint64_t now_ns);
/* Ends it at once, telling the handler. */
void connection_close(struct connection *c);

/* For request.c. */
void connection_count(struct request *r, uint64_t in_bytes, uint64_t out_bytes);
void connection_mark(struct connection *c); /* dirty: a turn is due */
size_t connection_queued(const struct connection *c);
/* What it holds counts for that account. False: the account has too many connections. */
bool connection_charge_to(struct connection *c, const char *id);

#endif
