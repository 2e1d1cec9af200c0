/* A client's connection: turns bytes into requests and answers into bytes (RFC 9112).
 *
 * Only the loop's callbacks and connection_turn() call handlers. The functions of request.h only
 * note what to do and put the connection on the server's dirty list. Dirty connections have their
 * turn before the loop waits. Requests are handled one at a time; pipelined ones wait in `in`. */
#ifndef HTTP_CONNECTION_H
#define HTTP_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "http/budget.h"
#include "http/exchange.h"
#include "http/transport.h"
#include "proto/http.h"

enum {
	CONNECTION_HANDSHAKE_S = 10,	       /* for the TLS handshake */
	CONNECTION_FIRST_S = 30,	       /* until the last byte of the first head */
	CONNECTION_YOUNG_S = 2,		       /* spared this long when connections must be closed
					        * for others */
	CONNECTION_IDLE_S = 650,	       /* clients keep connections for 620 s */
	CONNECTION_HEAD_S = 30,		       /* from a head's first byte to its last */
	CONNECTION_BODY_S = 300,	       /* between two pieces of a body that the handler
					        * wants */
	CONNECTION_DROP_S = 10,		       /* for the rest of a body that nobody wanted */
	CONNECTION_WRITE_S = 600,	       /* for a client that reads nothing */
	CONNECTION_LINGER_S = 2,	       /* for the client to read the last answer */
	CONNECTION_IN_MAX = 128 * 1024,	       /* waiting bytes: pipelined, or of a paused body */
	CONNECTION_DROP_MAX = 1024 * 1024,     /* bytes of an unwanted body to drop before
					        * closing */
	CONNECTION_OUT_MAX = 64 * 1024 * 1024, /* a whole answer */
};

/*	OPEN      accepts requests; `request` is the current one
 *	LAST      accepts nothing more; sends what is queued, then LINGER
 *	LINGER    our direction is closed. Input is dropped until the client closes too, so that
 *	          it reads the answer and sees no reset
 *	CLOSED    the handle is being closed; freed when libuv has let go of it
 */
enum connection_state { CONNECTION_OPEN, CONNECTION_LAST, CONNECTION_LINGER, CONNECTION_CLOSED };

/* What `deadline_ns` waits for. */
enum connection_wait {
	CONNECTION_WAIT_NONE,
	CONNECTION_WAIT_HANDSHAKE,
	CONNECTION_WAIT_FIRST, /* for the whole first head */
	CONNECTION_WAIT_IDLE,
	CONNECTION_WAIT_HEAD,
	CONNECTION_WAIT_BODY,
	CONNECTION_WAIT_DROP, /* for the rest of a body that nobody wanted */
	CONNECTION_WAIT_WRITE,
	CONNECTION_WAIT_LINGER,
};

struct peer;
struct peers;

/* Which socket a client came in by. */
enum server_door { SERVER_PUBLIC, SERVER_ADMIN, SERVER_METRICS, SERVER_DOORS };

/* Callbacks of the owner of the connections. */
struct connection_ops {
	/* A request came; its route is set. request.h has the handler's contract. */
	void (*request)(struct request *r);
	/* Bytes of bodies of a metered request (request_meter). */
	void (*traffic)(struct request *r, uint64_t in_bytes, uint64_t out_bytes);
	/* The request ends: frees what the owner attached to it (key). */
	void (*release)(struct request *r);
};

/* State shared by all connections of a server. The opener fills in loop, ops, owner and domain. */
struct connections {
	uv_loop_t *loop;
	const struct connection_ops *ops;
	void *owner;		 /* for the requests' handlers */
	const char *domain;	 /* see route_classify() */
	struct tls_context *tls; /* for SERVER_PUBLIC; NULL: plain */
	struct peers *peers;
	struct budget budget;
	unsigned key_max; /* connections per key */
	struct connection *first;
	unsigned count;
	struct connection *dirty, *dirty_last;	  /* to be served in this turn */
	uint32_t run;				  /* random, so that ids of requests differ between
						   * runs */
	uint32_t requests;			  /* served since the start */
	uint8_t scratch[TRANSPORT_SCRATCH_BYTES]; /* for the connection that reads now */
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
	struct buf in;		 /* received, not parsed yet */
	struct buf out;		 /* to be sent */
	bool aborted;		 /* the handler wants the connection cut */
	bool is_closed;		 /* libuv has let go of the handle */
	bool eof;		 /* the client's direction is closed */
	bool progress;		 /* bytes moved in the direction that is waited for */
	uint64_t dropped;	 /* bytes of a body that nobody wanted */
	bool begun;		 /* a first head was complete */
	bool known;		 /* a request had a key, or was admitted to a sandbox */
	enum connection_wait wait;
	uint64_t deadline_ns; /* CLOCK_MONOTONIC */
	char peer[TRANSPORT_PEER_BYTES];
	struct peer *who;	 /* NULL: not from the public door */
	struct budget_hold hold; /* for what is queued, both ways */
};

/* Creates a connection that has not accepted yet; NULL when out of memory. */
struct connection *connection_new(struct connections *all, enum server_door door);
/* Takes a client's socket. Returns 0 or -errno; a failure closes the connection and the socket. */
int connection_accept(struct connection *c, int fd);
/* Serves the client, or turns it away with a status such as "503 Service Unavailable". */
void connection_start(struct connection *c);
void connection_turn_away(struct connection *c, const char *status);
/* Whether its descriptor is among the last (fd_is_scarce). Then a request could open no others. */
bool connection_is_scarce(const struct connection *c);
/* Which connection costs least to close when there are too many, cheapest first:
 *
 *	STRANGER  has not sent a whole head yet, and is not young
 *	IDLE      between requests, and never showed a key or token
 *	YOUNG     has not sent a whole head yet, but may be about to
 *	CLIENT    between requests
 *	BUSY      never closed for another's sake */
enum connection_worth {
	CONNECTION_STRANGER,
	CONNECTION_IDLE,
	CONNECTION_YOUNG,
	CONNECTION_CLIENT,
	CONNECTION_BUSY
};
enum connection_worth connection_worth(const struct connection *c, uint64_t now_ns);
/* Does everything that is due. Called by the server's prepare handle. */
void connection_turn(struct connection *c);
void connection_check_time(struct connection *c, uint64_t now_ns);
/* Writes what is queued, as far as the socket takes it now. */
void connection_flush(struct connection *c);
/* Ends the connection at once and tells the handler. */
void connection_close(struct connection *c);

/* For request.c. */
void connection_count(struct request *r, uint64_t in_bytes, uint64_t out_bytes);
void connection_mark(struct connection *c); /* marks it dirty: a turn is due */
size_t connection_queued(const struct connection *c);
/* Charges what it holds to that account. Returns false if the account has too many connections. */
bool connection_charge_to(struct connection *c, const char *id);

#endif
