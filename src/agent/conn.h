/* One connection of the host: requests in order, until one of them takes the connection over as a
 * stream. Back-pressure: nothing more is read or produced for a connection while its output is
 * longer than CONN_ROOM. */
#ifndef AGENT_CONN_H
#define AGENT_CONN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "loop.h"
#include "proto/agent_wire.h"

enum {
	CONN_ROOM = 128 * 1024,	    /* output below this: there is room for one message more */
	CONN_OUT_MAX = 1024 * 1024, /* never reached by messages that fit CONN_ROOM's rule */
};

struct conn;

/* What a stream does with its connection; any function may be NULL except lost. */
struct stream_ops {
	/* A message from the client. False: not now; the connection is not read until
	 * conn_unblock(), and the message comes again. NULL: messages wait for the stream's end. */
	bool (*message)(struct conn *c, const struct agent_frame *f);
	/* Output has room again, or the connection was just taken over. */
	void (*room)(struct conn *c);
	/* The connection is gone or closing: let go of it. */
	void (*lost)(struct conn *c);
	/* The client may already have said its last word: only reading finds its end. */
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
	struct conn *next_attached;   /* of a process */
	struct conn *next_dirty;
	uint32_t unacknowledged; /* STDIN bytes */
	bool dirty;
	bool blocked; /* a message waits to be taken */
	bool full;    /* output passed CONN_ROOM, ops->room is owed */
	bool again;   /* more can be done at once */
	bool closing; /* close when the output is sent */
	bool dead;
	bool greeted; /* the preamble, if any, is behind */
};

/* Accepts connections from a listening socket, which it takes over. */
void conn_listen(int fd, bool vsock);

/* All return having marked the connection dead when memory runs out: no error to handle. */
void conn_send(struct conn *c, enum agent_type type, const void *message);
void conn_send_raw(struct conn *c, enum agent_type type, const void *data, size_t n);
void conn_send_bytes(struct conn *c, const void *data, size_t n); /* ready-made frames */
void conn_error(struct conn *c, enum agent_error_class class, enum agent_type request, int err,
	const char *fmt, ...) __attribute__((format(printf, 5, 6)));
/* The class that fits an errno of a file operation. */
enum agent_error_class error_class_of(int err);

bool conn_has_room(const struct conn *c);
void conn_take_over(struct conn *c, const struct stream_ops *ops, void *stream);
void conn_end_stream(struct conn *c); /* back to requests; does not call lost */
void conn_unblock(struct conn *c);
void conns_go_on(void);		 /* requests that waited for the end of a hold (hold.h) are taken */
void conn_touch(struct conn *c); /* have its input and output looked at after this round */
void conn_close(struct conn *c); /* at once */
/* Takes the descriptor out of the loop and the connection (DIAL); c is dead after it. */
int conn_release_fd(struct conn *c);

/* Works off what the round's events left to do; for loop_run. */
void conns_after_round(void);

/* Decodes f into m or answers with an ERROR: true when m is filled. */
bool conn_decode(struct conn *c, const struct agent_frame *f, void *m);
/* Checks that only known flags are set, answers UNSUPPORTED otherwise. */
bool conn_check_flags(struct conn *c, enum agent_type type, uint32_t flags, uint32_t known);

#endif
