/* Moves the bytes of a client's connection: over a TCP or Unix socket, plain or with TLS.
 *
 * connection.c uses it without knowing which. No function of this header calls back. After
 * transport_close(), only ops->closed is called. */
#ifndef HTTP_TRANSPORT_H
#define HTTP_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "base/buf.h"
#include "http/tls.h"

enum {
	TRANSPORT_READ_BYTES = 64 * 1024, /* maximum per ops->data */
	TRANSPORT_SCRATCH_BYTES = 2 * TRANSPORT_READ_BYTES,
	TRANSPORT_PEER_BYTES = 46,
};

struct transport_ops {
	void (*data)(void *arg, const uint8_t *data, size_t n); /* never empty */
	void (*eof)(void *arg);	   /* the client sends no more, but may still read */
	void (*failed)(void *arg); /* cut off, or invalid data: only transport_close() may follow */
	void (*moved)(void *arg);  /* bytes were sent, or the handshake is done: send more */
	void (*ended)(void *arg);  /* transport_shutdown() has completed */
	void (*closed)(void *arg); /* the transport may be freed */
	/* The client spoke HTTP to a TLS port. The transport is plain now, for the refusal. */
	void (*plain_http)(void *arg);
};

struct transport {
	union {
		uv_handle_t handle;
		uv_stream_t stream;
		uv_tcp_t tcp;
		uv_pipe_t pipe;
	} u;
	const struct transport_kind *kind; /* the operations: plain or TLS */
	const struct transport_ops *ops;
	void *arg;
	struct tls_session *tls; /* or NULL */
	struct buf cipher;	 /* encrypted bytes to send */
	struct buf writing;	 /* lent to write_req */
	uv_write_t write_req;
	uv_shutdown_t shutdown_req;
	bool write_active, read_active;
	bool ready;	  /* the handshake is done; always true for plain ones */
	bool begun;	  /* something was received */
	bool closing;	  /* transport_close() was called */
	uint8_t *scratch; /* for received and decrypted bytes; shared by all transports */
};

/* tls NULL: plain. scratch has TRANSPORT_SCRATCH_BYTES. Returns 0, or -ENOMEM with nothing to
 * close. */
int transport_init(struct transport *t, uv_loop_t *loop, bool is_pipe, struct tls_context *tls,
	uint8_t *scratch, const struct transport_ops *ops, void *arg);

/* Takes an accepted socket, even on failure, and returns the client's address ("" for a Unix
 * socket). 0 or -errno. */
int transport_open(struct transport *t, int fd, char ret_peer[TRANSPORT_PEER_BYTES]);
/* Starts or stops ops->data and ops->eof. 0 or -errno. */
int transport_read(struct transport *t, bool on);
/* Sends from `out` and removes what is sent or on its way. No-op while an earlier part is on its
 * way, or before the handshake is done; ops->moved follows then. 0 or -errno. */
int transport_send(struct transport *t, struct buf *out);
/* Bytes that transport_send() has taken and the kernel has not. */
size_t transport_queued(const struct transport *t);
/* Ends our direction once nothing is queued, then ops->ended. 0 or -errno. */
int transport_shutdown(struct transport *t);
void transport_close(struct transport *t); /* then ops->closed */
void transport_done(struct transport *t);  /* frees it, after ops->closed */

#endif
