/* The inside of virtio-vsock: its connections, shared by the four files that implement it.
 *
 * vsock_conn.c holds the table, the work list, and a connection's life up to its end. vsock_host.c
 * holds the clients and the clock, vsock_guest.c the streams that the guest opens. vsock.c holds
 * the packets in both directions and the device, and explains how the four work together. All of it
 * runs under the device's lock. */
#ifndef VMM_VSOCK_INTERNAL_H
#define VMM_VSOCK_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "proto/egress_wire.h"
#include "proto/virtio.h"
#include "vmm/virtio.h"
#include "vmm/vsock.h"

enum {
	HEADER_BYTES = sizeof(struct virtio_vsock_hdr),
	LINE_MAX_BYTES = 32,
	/* While this many resets wait, the device drops the guest's requests for streams without a
	 * reset. */
	RESETS_WAITING_MAX = 2 * VSOCK_CONNECTIONS_MAX,
	RESETS_MAX = RESETS_WAITING_MAX + VSOCK_CONNECTIONS_MAX,
	SLOT_BITS = 10,
	SEQUENCE_FIRST = 2,			    /* with 1, a host's port could be EGRESS_PORT */
	SEQUENCE_MAX = (1 << (32 - SLOT_BITS)) - 2, /* port 0xffffffff means any port */
	GUEST_BUCKETS = 1024,
	NO_SLOT = 0xffff,
	SHUTDOWN_BOTH = VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND,
};

static_assert(1 << SLOT_BITS == VSOCK_CONNECTIONS_MAX, "a slot number fits its bits");
static_assert(EGRESS_PORT >> SLOT_BITS < SEQUENCE_FIRST, "no connection's id is that port");

/* epoll data: a connection's id (2048 and more), or one of these. */
enum { ID_LISTEN = 0, ID_TIMER = 1 };

enum vsock_conn_state {
	CONN_FREE,

	/* The client has not sent a whole CONNECT line. Has a deadline. The guest does not know of
	 * it.
	 * To CONNECTING by the line; to FREE by a bad line, end of file or timeout. */
	CONN_HANDSHAKE,

	/* REQUEST is pending or, with guest_knows, on its way. The client's bytes stay unread.
	 * To ESTABLISHED by RESPONSE; to FREE by RST, or with a reset when the client goes. */
	CONN_CONNECTING,

	/* A stream that the guest opens begins here, with RESPONSE pending.
	 * Bytes flow. Each direction ends on its own: towards the guest by host_eof and
	 * SHUTDOWN_SEND, towards the client by the guest's shutdown flags or by host_gone.
	 * To CLOSING when both directions ended and the guest must be told; to FREE with a reset
	 * when the guest already closed both; to DRAINING or FREE by RST. */
	CONN_ESTABLISHED,

	/* The socket is closed; SHUTDOWN of both directions is pending or sent. Has a deadline.
	 * To FREE by RST or SHUTDOWN of the guest, or with a reset at the deadline. */
	CONN_CLOSING,

	/* The guest has finished with the connection and no longer knows of it. What it sent still
	 * waits for the client. To FREE when that is written, or the client goes. */
	CONN_DRAINING,
};

/* Control packets to send. */
enum {
	PENDING_REQUEST = 1,
	PENDING_SHUTDOWN = 2, /* of one direction, of both in CLOSING */
	PENDING_CREDIT_UPDATE = 4,
	PENDING_CREDIT_REQUEST = 8,
	PENDING_RESPONSE = 16,
};

struct vsock_conn {
	enum vsock_conn_state state;
	int fd;		    /* -1 in FREE and CLOSING */
	uint32_t id;	    /* the slot's number and a sequence number */
	uint32_t host_port; /* its id; of a stream that the guest opened, EGRESS_PORT */
	uint32_t guest_port;
	uint64_t deadline_ns;	 /* 0 for none */
	uint16_t previous, next; /* work list, or next free slot */
	uint16_t bucket_next;	 /* in its bucket: a slot's number and 1, 0 at the end */
	bool queued;		 /* on the work list */
	bool from_guest;	 /* the guest opened it */
	uint8_t pending;	 /* PENDING_ bits */
	bool guest_knows;	 /* the guest may know of the connection */
	bool readable;		 /* the socket may have bytes, or its end */
	uint8_t slots;		 /* receive buffers that the next read has; 0: one */
	bool host_hung_up;	 /* the client will send nothing beyond what is in the socket */
	bool host_eof;		 /* all of the client's bytes were sent to the guest */
	bool host_gone;		 /* the client takes no more bytes */
	bool watches_out;	 /* EPOLLOUT is in the interest set */
	bool write_shut;	 /* the client was told that no more comes */
	uint8_t guest_shutdown;	 /* directions that the guest closed */
	bool credit_requested;	 /* since credit last ran out */
	uint32_t sent;		 /* payload bytes to the guest, modulo 2^32 */
	uint32_t peer_buf_alloc, peer_fwd_cnt;
	uint32_t forwarded;	 /* payload bytes of the guest that left, modulo 2^32 */
	uint32_t forwarded_told; /* how many of these the guest knows of */
	struct buf out;		 /* what the client's socket did not take yet */
	uint8_t line_len;
	char line[LINE_MAX_BYTES];
};

struct vsock_ports {
	uint32_t host_port, guest_port;
};

struct vsock {
	struct virtio_device dev; /* first: the ops get a pointer to it */
	uint32_t guest_cid;
	int listen_fd, epoll_fd, timer_fd;
	int egress_fd; /* -1: the guest may open no streams */
	bool listen_paused;
	uint64_t listen_retry_ns;
	uint64_t timer_ns;	  /* when the timer is set to fire, 0 if it is not */
	struct vsock_conn *conns; /* VSOCK_CONNECTIONS_MAX; untouched slots cost no memory */
	unsigned conn_count;	  /* not FREE */
	unsigned guest_count;	  /* of these, opened by the guest */
	uint16_t slots_used;	  /* slots from here on were never used */
	uint16_t free_head;	  /* list through next */
	uint16_t work_head, work_tail;
	uint32_t sequence;
	unsigned reset_start, reset_count; /* ring */
	struct vsock_ports resets[RESETS_MAX];
	uint16_t buckets[GUEST_BUCKETS]; /* what the guest opened and knows, by its port: a slot's
					  * number and 1, 0 for none */
};

/* --- vsock_conn.c --- */

/* Returns the connection, or NULL. */
struct vsock_conn *vsock_conn_by_id(struct vsock *v, uint32_t id);

/* Returns the connection that the guest knows by these ports, or NULL. */
struct vsock_conn *vsock_conn_by_ports(struct vsock *v, uint32_t host_port, uint32_t guest_port);

/* Creates a connection in state HANDSHAKE and takes fd. NULL (fd untouched) when the table is
 * full. */
struct vsock_conn *vsock_conn_new(struct vsock *v, int fd);

/* Watches its socket. Returns 0 or -errno. */
int vsock_conn_watch(struct vsock *v, struct vsock_conn *c);
void vsock_conn_free(struct vsock *v, struct vsock_conn *c);

/* The guest no longer knows of the connection, but the client gets what is buffered for it. */
void vsock_conn_drain(struct vsock *v, struct vsock_conn *c);

/* Ends a connection, with a reset if the guest knows of it. */
void vsock_conn_reset(struct vsock *v, struct vsock_conn *c);

/* Ends a connection with one line for the client. */
void vsock_conn_refuse(struct vsock *v, struct vsock_conn *c, const char *line);
void vsock_conn_say(struct vsock_conn *c, const char *line);

/* The client takes no more bytes. What waits for it is dropped and counts as delivered, so the
 * guest does not wait forever. */
void vsock_conn_host_gone(struct vsock_conn *c);

/* Ends an established connection if both directions have ended. */
void vsock_conn_check_end(struct vsock *v, struct vsock_conn *c);

/* Writes what is buffered for the client. */
void vsock_conn_flush(struct vsock *v, struct vsock_conn *c);

/* Handles len bytes of payload from the guest, behind the header in the chain. */
void vsock_conn_payload(
	struct vsock *v, struct vsock_conn *c, const struct virtio_chain *chain, uint32_t len);
unsigned vsock_payload_iovecs(
	const struct virtio_segment *s, unsigned count, size_t len, struct iovec *out);

/* Returns how many bytes the guest can take. */
uint32_t vsock_conn_credit(const struct vsock_conn *c);
bool vsock_conn_wants_read(const struct vsock_conn *c);

/* Puts the connection on the work list if it has anything to send. */
void vsock_conn_schedule(struct vsock *v, struct vsock_conn *c);
void vsock_work_add(struct vsock *v, struct vsock_conn *c, bool in_front);
void vsock_work_remove(struct vsock *v, struct vsock_conn *c);

/* Queues a reset: the guest will be told that this connection does not exist. Does nothing if `max`
 * resets wait already. */
void vsock_reset_queue(struct vsock *v, uint32_t host_port, uint32_t guest_port, unsigned max);

/* --- vsock_guest.c --- */

/* Serves a REQUEST for EGRESS_PORT on which the guest has no connection: a new one, or a reset. */
void vsock_guest_open(struct vsock *v, uint32_t guest_port, uint32_t guest_buffer);

/* Returns the stream that the guest opened on its port and still knows, or NULL. */
struct vsock_conn *vsock_guest_find(struct vsock *v, uint32_t guest_port);

/* The guest forgets the stream, and may open another one on its port. */
void vsock_guest_forget(struct vsock *v, struct vsock_conn *c);

/* --- vsock_host.c --- */

/* Handles what happened on the host side. */
void vsock_host_events(struct vsock *v);
void vsock_listen_watch(struct vsock *v, bool on);
void vsock_timer_set(struct vsock *v, uint64_t at_ns);
void vsock_conn_set_deadline(struct vsock *v, struct vsock_conn *c, uint64_t ms);

#endif
