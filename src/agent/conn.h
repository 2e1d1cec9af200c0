/* A connection from the host. Requests are served in order, until one takes the connection over as
 * a stream. Back-pressure: while a connection's output exceeds CONN_ROOM, nothing more is read from
 * it or produced for it. */
#ifndef AGENT_CONN_H
#define AGENT_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "proto/agent_wire.h"

enum {
	CONN_ROOM = 128 * 1024,	    /* with less output than this, one more message fits */
	CONN_OUT_MAX = 1024 * 1024, /* never reached if CONN_ROOM is respected */
};

struct conn;

/* The callbacks of a stream. All but lost may be NULL. */
struct stream_ops {
	/* Takes a message from the client. False: not now; the connection is not read until
	 * conn_unblock(), then the message comes again. NULL: messages wait for the stream's
	 * end. */
	bool (*message)(struct conn *c, const struct agent_frame *f);
	/* There is space for output again, or the stream has just begun. */
	void (*room)(struct conn *c);
	/* The connection is gone or is closing: drop all references to it. */
	void (*lost)(struct conn *c);
	/* The client may have shut down its sending side: detect the end of input only by
	 * reading. */
	bool half_close;
};

struct process;

struct conn {
	struct source source;
	struct agent_rx rx;
	struct buf out;
	const struct stream_ops *ops; /* NULL between requests */
	void *stream;		      /* of ops */
	struct conn *next, *prev;     /* all connections */
	struct conn *next_attached;   /* of the process c is attached to */
	struct conn *next_dirty;
	uint32_t unacknowledged; /* bytes of STDIN */
	bool dirty;
	bool blocked; /* a message waits to be taken */
	bool full;    /* output exceeded CONN_ROOM: call ops->room later */
	bool again;   /* more can be done at once */
	bool closing; /* close once the output is sent */
	bool dead;
	bool greeted; /* the preamble, if any, was read */
};

/* Serves a request, or takes the connection over. False: not now; the connection is not read until
 * conns_go_on(), then the request comes again. */
typedef bool (*conn_handler)(struct conn *c, const struct agent_frame *f);

/* Accepts connections from a listening socket, and takes the socket over. */
void conn_listen(int fd, bool vsock, conn_handler handler);

/* These need no error handling: when memory runs out, they mark the connection as dead. */
void conn_send(struct conn *c, enum agent_type type, const void *message);
void conn_send_raw(struct conn *c, enum agent_type type, const void *data, size_t n);
void conn_send_bytes(struct conn *c, const void *data, size_t n); /* takes encoded frames */
void conn_error(struct conn *c, enum agent_error_class class, enum agent_type request, int err,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The error class for an errno of a file operation. */
enum agent_error_class error_class_of(int err);

bool conn_has_room(const struct conn *c);
void conn_take_over(struct conn *c, const struct stream_ops *ops, void *stream);
void conn_end_stream(struct conn *c); /* back to requests; does not call lost */
void conn_unblock(struct conn *c);
void conns_go_on(void);		 /* serves requests that their handler put off */
void conn_close(struct conn *c); /* at once */
/* Takes the descriptor out of the loop and out of the connection (DIAL). c is then dead. */
int conn_release_fd(struct conn *c);

/* Does the work that the events of a round left; for loop_run. */
void conns_after_round(void);

/* Decodes f into m and returns true. On failure answers with an ERROR. */
bool conn_decode(struct conn *c, const struct agent_frame *f, void *m);
/* True if only known flags are set; otherwise answers UNSUPPORTED. */
bool conn_check_flags(struct conn *c, enum agent_type type, uint32_t flags, uint32_t known);

#endif
