/* The bytes of a client's connection: a TCP or Unix socket, plain or under TLS.
 *
 * connection.c reads and writes here and does not know which it is. No callback is made from within
 * a function of this header; after transport_close() only ops->closed comes. */
#ifndef DAEMON_TRANSPORT_H
#define DAEMON_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "http/tls.h"

enum {
	TRANSPORT_READ_BYTES = 64 * 1024, /* most that one ops->data brings */
	TRANSPORT_SCRATCH_BYTES = 2 * TRANSPORT_READ_BYTES,
	TRANSPORT_PEER_BYTES = 46,
};

struct transport_ops {
	void (*data)(void *arg, const uint8_t *data, size_t n); /* never empty */
	void (*eof)(void *arg);	   /* the client sends no more; it may still read */
	void (*failed)(void *arg); /* cut off, or nonsense: only transport_close() is left */
	void (*moved)(void *arg);  /* bytes were sent, or the handshake is done: send more */
	void (*ended)(void *arg);  /* transport_shutdown() was done */
	void (*closed)(void *arg); /* may be freed */
	/* HTTP came where TLS is due; the transport is plain from now on, for saying so. */
	void (*plain_http)(void *arg);
};

struct transport {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} u;
	const struct transport_kind *kind; /* how bytes become what is sent */
	const struct transport_ops *ops;
	void *arg;
	struct tls_session *tls; /* or NULL */
	struct buf cipher;	 /* encrypted, to be sent */
	struct buf writing;	 /* lent to write_req */
	uv_write_t write_req;
	uv_shutdown_t shutdown_req;
	bool write_active, read_active;
	bool ready;	  /* the handshake is done; plain ones are born ready */
	bool begun;	  /* something was received */
	bool closing;	  /* transport_close() was called */
	uint8_t *scratch; /* for what is read and decrypted; one for all transports */
};

/* tls NULL: plain. scratch is TRANSPORT_SCRATCH_BYTES. 0 or -ENOMEM, and then there is nothing to
 * close. */
int transport_init(struct transport *t, uv_loop_t *loop, bool is_pipe, struct tls_context *tls,
	uint8_t *scratch, const struct transport_ops *ops, void *arg);

/* Takes a connection of the listener's; the client's address ("" of a Unix socket). 0 or -errno. */
int transport_accept(
	struct transport *t, uv_stream_t *listener, char ret_peer[TRANSPORT_PEER_BYTES]);
/* Starts or stops ops->data and ops->eof. 0 or -errno. */
int transport_read(struct transport *t, bool on);
/* Sends from `out`, taking out of it what is sent or on its way. Does nothing while an earlier part
 * is on its way, or before the handshake is done: ops->moved comes then. 0 or -errno. */
int transport_send(struct transport *t, struct buf *out);
/* Bytes taken by transport_send that the kernel has not got. */
size_t transport_queued(const struct transport *t);
/* Ends our direction, when nothing is queued: ops->ended. 0 or -errno. */
int transport_shutdown(struct transport *t);
void transport_close(struct transport *t); /* ops->closed */
void transport_done(struct transport *t);  /* frees, after ops->closed */

#endif
