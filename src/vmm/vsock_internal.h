/* The inside of virtio-vsock: its connections, shared by the three files that implement it.
 *
 * vsock_conn.c holds the table, the work list, and a connection's life up to its end. vsock_host.c
 * holds the clients and the clock. vsock.c holds the packets in both directions and the device, and
 * explains how the three work together. All of it runs under the device's lock. */
#ifndef VMM_VSOCK_INTERNAL_H
#define VMM_VSOCK_INTERNAL_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "base/buf.h"
#include "proto/virtio.h"
#include "vmm/virtio.h"
#include "vmm/vsock.h"

enum {
	HEADER_BYTES = sizeof(struct virtio_vsock_hdr),
	LINE_MAX_BYTES = 32,
	RESETS_MAX = 2 * VSOCK_CONNECTIONS_MAX + 64,
	SLOT_BITS = 10,
	SEQUENCE_MAX = (1 << (32 - SLOT_BITS)) - 2, /* port 0xffffffff means any port */
	NO_SLOT = 0xffff,
	SHUTDOWN_BOTH = VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND,
};

static_assert(1 << SLOT_BITS == VSOCK_CONNECTIONS_MAX, "a slot number fits its bits");

/* epoll data: a host port (1024 and more), or one of these. */
enum { ID_LISTEN = 0, ID_TIMER = 1 };

enum vsock_conn_state {
	CONN_FREE,

	/* The client has not sent a whole CONNECT line. Has a deadline. The guest does not know of
	 * it.
	 * To CONNECTING by the line; to FREE by a bad line, end of file or timeout. */
	CONN_HANDSHAKE,

	/* REQUEST is pending or, with request_sent, on its way. The client's bytes stay unread.
	 * To ESTABLISHED by RESPONSE; to FREE by RST, or with a reset when the client goes. */
	CONN_CONNECTING,

	/* Bytes flow. Each direction ends on its own: towards the guest by host_eof and
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
};

struct vsock_conn {
	enum vsock_conn_state state;
	int fd; /* -1 in FREE and CLOSING */
	uint32_t host_port, guest_port;
	uint64_t deadline_ns;	 /* 0 for none */
	uint16_t previous, next; /* work list, or next free slot */
	bool queued;		 /* on the work list */
	uint8_t pending;	 /* PENDING_ bits */
	bool request_sent;	 /* the guest may know of the connection */
	bool readable;		 /* the socket may have bytes, or its end */
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
	bool listen_paused;
	uint64_t listen_retry_ns;
	uint64_t timer_ns;	  /* when the timer is set to fire, 0 if it is not */
	struct vsock_conn *conns; /* VSOCK_CONNECTIONS_MAX; untouched slots cost no memory */
	unsigned conn_count;	  /* not FREE */
	uint16_t slots_used;	  /* slots from here on were never used */
	uint16_t free_head;	  /* list through next */
	uint16_t work_head, work_tail;
	uint32_t sequence;
	unsigned reset_start, reset_count; /* ring */
	struct vsock_ports resets[RESETS_MAX];
};

/* --- vsock_conn.c --- */

/* Returns the connection of a host port, or NULL. */
struct vsock_conn *vsock_conn_by_port(struct vsock *v, uint32_t host_port);

/* Creates a connection in state HANDSHAKE and takes fd. NULL (fd untouched) when the table is
 * full. */
struct vsock_conn *vsock_conn_new(struct vsock *v, int fd);
void vsock_conn_free(struct vsock *v, struct vsock_conn *c);

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

/* --- vsock_host.c --- */

/* Handles what happened on the host side. */
void vsock_host_events(struct vsock *v);
void vsock_listen_watch(struct vsock *v, bool on);
void vsock_timer_set(struct vsock *v, uint64_t at_ns);
void vsock_conn_set_deadline(struct vsock *v, struct vsock_conn *c, uint64_t ms);

#endif
