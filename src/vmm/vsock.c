/* Theory of operation.
 *
 * Two sides call in, both under the device's lock: vCPU threads (a notification of a queue) and the
 * VMM's event loop (vsock_poll: the epoll set of the listening socket, the clients and a timer).
 * Packets of the guest are handled in the notification itself: payload goes from guest memory to
 * the client's socket in one sendmsg, and only what the socket does not take is buffered, within
 * the credit that the guest was given.
 *
 * Everything for the guest is sent by rx_fill, as receive buffers allow: first resets of
 * connections that no longer exist here, then, in turn, one packet for each connection on the work
 * list. A connection is on the list while it has a control packet pending or is believed readable
 * and has credit; payload is read from its socket straight into the guest's buffer.
 *
 * Clients are watched edge-triggered. An edge sets `readable`, which stays set until a read finds
 * the socket empty, so there is nothing to spin on while the guest has no credit or no buffer.
 *
 * A connection's host port names it: slot number plus a sequence number that changes with every
 * connection. Ports, never pointers, are what epoll and the guest hand back, so a late event or
 * packet finds another port in the slot and is dropped. */
#include "vmm/vsock.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"
#include "proto/virtio.h"

enum {
	QUEUE_SIZE = 128,
	EVENT_QUEUE_SIZE = 16,
	HEADER_BYTES = sizeof(struct virtio_vsock_hdr),
	LINE_MAX_BYTES = 32,
	PACKET_MAX = 65536, /* payload of one packet to the guest */
	EVENTS_MAX = 64,    /* host events, and new clients, per poll */
	RESETS_MAX = 2 * VSOCK_CONNECTIONS_MAX + 64,
	RESETS_UNKNOWN_MAX = 64, /* replies to packets for connections that do not exist */
	LISTEN_RETRY_MS = 100,
	SLOT_BITS = 10,
	SEQUENCE_MAX = (1 << (32 - SLOT_BITS)) - 2, /* port 0xffffffff means any port */
	NO_SLOT = 0xffff,
	SHUTDOWN_BOTH = VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND,
};

static_assert(1 << SLOT_BITS == VSOCK_CONNECTIONS_MAX, "a slot number fits its bits");

/* epoll data: a host port (1024 and more), or one of these. */
enum { ID_LISTEN = 0, ID_TIMER = 1 };

enum conn_state {
	CONN_FREE,

	/* A client without a whole CONNECT line; has a deadline. The guest does not know of it.
	 * To CONNECTING by the line; to FREE by a bad line, end of file or timeout. */
	CONN_HANDSHAKE,

	/* REQUEST is pending or, with request_sent, on its way. The client's bytes stay unread.
	 * To ESTABLISHED by RESPONSE; to FREE by RST, or with a reset when the client goes. */
	CONN_CONNECTING,

	/* Bytes flow. Each direction ends on its own: host_eof and SHUTDOWN_SEND to the guest; the
	 * guest's shutdown flags, and host_gone when the client cannot take any more.
	 * To CLOSING when both directions ended and the guest has to be told; to FREE with a reset
	 * when the guest already closed both; to DRAINING or FREE by RST. */
	CONN_ESTABLISHED,

	/* The socket is closed, SHUTDOWN of both directions is pending or sent; has a deadline.
	 * To FREE by RST or SHUTDOWN of the guest, or with a reset at the deadline. */
	CONN_CLOSING,

	/* The guest is finished with it and does not know of it any more, what it sent waits for
	 * the client. To FREE when that is written, or the client goes. */
	CONN_DRAINING,
};

/* Control packets to send. */
enum {
	PENDING_REQUEST = 1,
	PENDING_SHUTDOWN = 2, /* with the flags of shutdown_flags() */
	PENDING_CREDIT_UPDATE = 4,
	PENDING_CREDIT_REQUEST = 8,
};

struct conn {
	enum conn_state state;
	int fd; /* -1 in FREE and CLOSING */
	uint32_t host_port, guest_port;
	uint64_t deadline_ns;	 /* 0 for none */
	uint16_t previous, next; /* work list, or next free slot */
	bool queued;		 /* on the work list */
	uint8_t pending;	 /* PENDING_ bits */
	bool request_sent;	 /* the guest may know of it */
	bool readable;		 /* the socket may have bytes, or its end */
	bool host_hung_up;	 /* the client will not send more than what is in the socket */
	bool host_eof;		 /* all of the client's bytes were sent to the guest */
	bool host_gone;		 /* the client takes no more bytes */
	bool watches_out;	 /* EPOLLOUT is in the interest set */
	bool write_shut;	 /* the client was told that no more comes */
	uint8_t guest_shutdown;	 /* directions that the guest closed */
	bool credit_requested;	 /* since the credit was last used up */
	uint32_t sent;		 /* payload bytes to the guest, modulo 2^32 */
	uint32_t peer_buf_alloc, peer_fwd_cnt;
	uint32_t forwarded;	 /* payload bytes of the guest that left, modulo 2^32 */
	uint32_t forwarded_told; /* of these, known to the guest */
	struct buf out;		 /* what the client's socket did not take yet */
	uint8_t line_len;
	char line[LINE_MAX_BYTES];
};

struct reset {
	uint32_t host_port, guest_port;
};

struct vsock {
	struct virtio_device dev; /* first: the ops get a pointer to it */
	uint32_t guest_cid;
	int listen_fd, epoll_fd, timer_fd;
	bool listen_paused;
	uint64_t listen_retry_ns;
	uint64_t timer_ns;   /* when the timer is set to fire, 0 if it is not */
	struct conn *conns;  /* VSOCK_CONNECTIONS_MAX; untouched slots cost no memory */
	unsigned conn_count; /* not FREE */
	uint16_t slots_used; /* slots from here on were never used */
	uint16_t free_head;  /* list through next */
	uint16_t work_head, work_tail;
	uint32_t sequence;
	unsigned reset_start, reset_count; /* ring */
	struct reset resets[RESETS_MAX];
};

static struct vsock *vsock_of(struct virtio_device *dev)
{
	return (struct vsock *)(void *)dev;
}

static uint16_t slot_of(const struct vsock *v, const struct conn *c)
{
	return (uint16_t)(c - v->conns);
}

/* --- work list --- */

static void work_remove(struct vsock *v, struct conn *c)
{
	if (!c->queued)
		return;
	if (c->previous == NO_SLOT)
		v->work_head = c->next;
	else
		v->conns[c->previous].next = c->next;
	if (c->next == NO_SLOT)
		v->work_tail = c->previous;
	else
		v->conns[c->next].previous = c->previous;
	c->queued = false;
}

static void work_add(struct vsock *v, struct conn *c, bool in_front)
{
	uint16_t slot = slot_of(v, c);

	c->previous = in_front ? NO_SLOT : v->work_tail;
	c->next = in_front ? v->work_head : NO_SLOT;
	if (c->previous == NO_SLOT)
		v->work_head = slot;
	else
		v->conns[c->previous].next = slot;
	if (c->next == NO_SLOT)
		v->work_tail = slot;
	else
		v->conns[c->next].previous = slot;
	c->queued = true;
}

/* Bytes that the guest can take. The numbers are the guest's and may be anything. */
static uint32_t conn_credit(const struct conn *c)
{
	uint32_t in_flight = c->sent - c->peer_fwd_cnt;

	return c->peer_buf_alloc > in_flight ? c->peer_buf_alloc - in_flight : 0;
}

static bool conn_wants_read(const struct conn *c)
{
	return c->state == CONN_ESTABLISHED && c->readable && !c->host_eof &&
	       !(c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV);
}

/* Puts the connection on the work list if there is anything to send for it. */
static void conn_schedule(struct vsock *v, struct conn *c)
{
	bool wants_read = conn_wants_read(c);

	if (c->state == CONN_FREE || c->state == CONN_DRAINING)
		return;
	if (wants_read && !conn_credit(c) && !c->credit_requested) {
		c->credit_requested = true;
		c->pending |= PENDING_CREDIT_REQUEST;
	}
	if (!c->queued && (c->pending || (wants_read && conn_credit(c))))
		work_add(v, c, false);
}

/* --- timer and listening socket --- */

static void timer_set(struct vsock *v, uint64_t at_ns)
{
	struct itimerspec t = {.it_value = {.tv_sec = (time_t)(at_ns / NS_PER_S),
				       .tv_nsec = (long)(at_ns % NS_PER_S)}};

	if (v->timer_ns && v->timer_ns <= at_ns)
		return;
	v->timer_ns = at_ns;
	(void)timerfd_settime(v->timer_fd, TFD_TIMER_ABSTIME, &t, NULL); /* valid arguments */
}

static void conn_set_deadline(struct vsock *v, struct conn *c, uint64_t ms)
{
	c->deadline_ns = clock_monotonic_ns() + ms * NS_PER_MS;
	timer_set(v, c->deadline_ns);
}

static void listen_watch(struct vsock *v, bool on)
{
	struct epoll_event e = {.events = on ? EPOLLIN : 0, .data.u64 = ID_LISTEN};

	v->listen_paused = !on;
	(void)epoll_ctl(v->epoll_fd, EPOLL_CTL_MOD, v->listen_fd, &e); /* it is in the set */
}

/* --- life of a connection --- */

static struct conn *conn_by_port(struct vsock *v, uint32_t host_port)
{
	struct conn *c = &v->conns[host_port % VSOCK_CONNECTIONS_MAX];

	if (slot_of(v, c) >= v->slots_used || c->state == CONN_FREE || c->host_port != host_port)
		return NULL;
	return c;
}

static uint16_t slot_take(struct vsock *v)
{
	uint16_t slot = v->free_head;

	if (slot != NO_SLOT) {
		v->free_head = v->conns[slot].next;
		return slot;
	}
	return v->slots_used < VSOCK_CONNECTIONS_MAX ? v->slots_used++ : (uint16_t)NO_SLOT;
}

/* A new connection in state HANDSHAKE; takes fd. NULL when the table is full. */
static struct conn *conn_new(struct vsock *v, int fd)
{
	uint16_t slot = slot_take(v);
	struct conn *c;

	if (slot == NO_SLOT)
		return NULL;
	v->sequence = v->sequence >= SEQUENCE_MAX ? 1 : v->sequence + 1;
	c = &v->conns[slot];
	*c = (struct conn){.state = CONN_HANDSHAKE,
		.fd = fd,
		.host_port = v->sequence << SLOT_BITS | slot,
		.out = BUF_INIT(VSOCK_BUFFER_BYTES)};
	v->conn_count++;
	return c;
}

static void conn_close_fd(struct conn *c)
{
	if (c->fd >= 0)
		(void)close(c->fd); /* a socket; also leaves the epoll set */
	c->fd = -1;
}

static void conn_free(struct vsock *v, struct conn *c)
{
	work_remove(v, c);
	conn_close_fd(c);
	buf_done(&c->out);
	c->state = CONN_FREE;
	c->next = v->free_head;
	v->free_head = slot_of(v, c);
	v->conn_count--;
	if (v->listen_paused)
		listen_watch(v, true);
}

/* One line for the client, as far as its socket takes it. */
static void conn_say(struct conn *c, const char *line)
{
	size_t n = strlen(line);

	if (c->fd >= 0 && send(c->fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) != (ssize_t)n)
		c->host_gone = true;
}

static void conn_refuse(struct vsock *v, struct conn *c, const char *line)
{
	conn_say(c, line);
	conn_free(v, c);
}

/* The guest will be told that this connection does not exist. */
static void reset_queue(struct vsock *v, uint32_t host_port, uint32_t guest_port, unsigned max)
{
	if (v->reset_count >= max)
		return;
	v->resets[(v->reset_start + v->reset_count++) % RESETS_MAX] =
		(struct reset){.host_port = host_port, .guest_port = guest_port};
}

/* Ends a connection that the guest knows of. Resets go out before new requests, so at most one per
 * connection is ever waiting, besides those of a load and the replies: there is room. */
static void conn_reset(struct vsock *v, struct conn *c)
{
	if (c->request_sent)
		reset_queue(v, c->host_port, c->guest_port, RESETS_MAX);
	if (c->state == CONN_CONNECTING)
		conn_say(c, "ERR reset\n");
	conn_free(v, c);
}

static void conn_watch_out(struct vsock *v, struct conn *c, bool on)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (on ? EPOLLOUT : 0),
		.data.u64 = c->host_port};

	if (c->watches_out == on)
		return;
	c->watches_out = on;
	(void)epoll_ctl(v->epoll_fd, EPOLL_CTL_MOD, c->fd, &e); /* it is in the set */
}

static void conn_forwarded(struct conn *c, size_t n)
{
	c->forwarded += (uint32_t)n;
	if (c->forwarded - c->forwarded_told >= VSOCK_BUFFER_BYTES / 2)
		c->pending |= PENDING_CREDIT_UPDATE;
}

/* The client takes no more bytes: what waits for it is dropped, and counts as delivered, so that
 * the guest does not wait for ever. */
static void conn_host_gone(struct conn *c)
{
	c->host_gone = true;
	conn_forwarded(c, buf_len(&c->out));
	buf_done(&c->out);
}

/* Ends the connection if both directions are over. */
static void conn_check_end(struct vsock *v, struct conn *c)
{
	bool written = c->host_gone || buf_len(&c->out) == 0;
	bool from_guest_over =
		c->host_gone || (c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND && written);
	bool to_guest_over = c->host_eof || c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV;

	if (c->state != CONN_ESTABLISHED)
		return;
	if (from_guest_over && !c->host_gone && !c->write_shut) {
		c->write_shut = true;
		(void)shutdown(
			c->fd, SHUT_WR); /* fails only if the client went: an event follows */
	}
	if (!from_guest_over || !to_guest_over)
		return;
	if (c->guest_shutdown == SHUTDOWN_BOTH) {
		conn_reset(v, c); /* the confirmation that the guest waits for, 5.10.6.6.1 */
		return;
	}
	conn_close_fd(c);
	c->state = CONN_CLOSING;
	c->pending |= PENDING_SHUTDOWN;
	conn_set_deadline(v, c, VSOCK_CLOSE_MS);
}

/* --- guest to client --- */

/* Writes what is buffered. */
static void conn_flush(struct vsock *v, struct conn *c)
{
	while (buf_len(&c->out)) {
		ssize_t n = send(
			c->fd, buf_head(&c->out), buf_len(&c->out), MSG_NOSIGNAL | MSG_DONTWAIT);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			conn_host_gone(c);
			break;
		}
		conn_forwarded(c, (size_t)n);
		buf_consume(&c->out, (size_t)n);
	}
	conn_watch_out(v, c, buf_len(&c->out) > 0);
	if (buf_len(&c->out) == 0)
		buf_done(&c->out); /* gives the memory back */
}

/* len bytes of payload behind the header, as an iovec array. */
static unsigned payload_iovecs(
	const struct virtio_segment *s, unsigned count, size_t len, struct iovec *out)
{
	size_t skip = HEADER_BYTES;
	unsigned used = 0;

	for (unsigned i = 0; i < count && len; i++) {
		size_t part;

		if (skip >= s[i].bytes) {
			skip -= s[i].bytes;
			continue;
		}
		part = s[i].bytes - skip;
		if (part > len)
			part = len;
		out[used++] = (struct iovec){s[i].host + skip, part};
		len -= part;
		skip = 0;
	}
	return used;
}

/* Writes payload to the client; returns how much it took. */
static size_t conn_write(struct conn *c, const struct virtio_chain *chain, size_t len)
{
	struct iovec iov[VIRTIO_CHAIN_MAX];
	struct msghdr m = {.msg_iov = iov};
	ssize_t n;

	m.msg_iovlen = payload_iovecs(chain->out, chain->out_count, len, iov);
	do {
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		conn_host_gone(c);
	return n < 0 ? 0 : (size_t)n;
}

static void conn_payload(
	struct vsock *v, struct conn *c, const struct virtio_chain *chain, uint32_t len)
{
	size_t done = 0;
	uint8_t *p;

	if (c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND ||
		len > VSOCK_BUFFER_BYTES - buf_len(&c->out)) {
		conn_reset(v, c);
		return;
	}
	if (!len)
		return;
	if (c->state == CONN_ESTABLISHED && !c->host_gone && buf_len(&c->out) == 0)
		done = conn_write(c, chain, len);
	if (c->state == CONN_CLOSING || c->host_gone)
		done = len; /* nobody to give it to */
	conn_forwarded(c, done);
	if (done == len) {
		conn_check_end(v, c);
		return;
	}
	p = buf_reserve(&c->out, len - done);
	if (!p) {
		conn_reset(v, c);
		return;
	}
	(void)virtio_chain_read(chain, HEADER_BYTES + done, p, len - done); /* it is that long */
	buf_commit(&c->out, len - done);
	conn_watch_out(v, c, true);
}

/* --- packets of the guest --- */

static void conn_established(struct vsock *v, struct conn *c)
{
	char line[LINE_MAX_BYTES];

	if (c->state != CONN_CONNECTING) {
		conn_reset(v, c);
		return;
	}
	(void)snprintf(line, sizeof(line), "OK %u\n", c->host_port); /* 14 characters at most */
	conn_say(c, line);
	c->state = CONN_ESTABLISHED;
	c->readable = true; /* what the client sent behind its line */
}

static void conn_guest_reset(struct vsock *v, struct conn *c)
{
	if (c->state == CONN_CONNECTING) {
		conn_refuse(v, c, "ERR refused\n");
		return;
	}
	if (c->state != CONN_ESTABLISHED || buf_len(&c->out) == 0) {
		conn_free(v, c);
		return;
	}
	work_remove(v, c);
	c->pending = 0;
	c->state = CONN_DRAINING;
}

static void conn_guest_shutdown(struct vsock *v, struct conn *c, uint32_t flags)
{
	if (c->state == CONN_CONNECTING || c->state == CONN_CLOSING) {
		/* Too early; or both sides close at once, and the guest waits for a confirmation.
		 */
		if (c->state == CONN_CONNECTING || (flags & SHUTDOWN_BOTH) == SHUTDOWN_BOTH)
			conn_reset(v, c);
		return;
	}
	if (flags & ~c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV)
		(void)shutdown(c->fd, SHUT_RD); /* fails only if the client went */
	c->guest_shutdown |= flags & SHUTDOWN_BOTH;
	conn_check_end(v, c);
}

/* Takes over what a packet says about the guest's buffer. Threads of a guest may overtake each
 * other between stamping a packet and queueing it, so a counter that goes back (or claims bytes
 * that were never sent) is not a reason to reset: it is ignored. */
static void conn_take_credit(struct conn *c, const struct virtio_vsock_hdr *h)
{
	c->peer_buf_alloc = h->buf_alloc;
	if (c->sent - h->fwd_cnt <= c->sent - c->peer_fwd_cnt)
		c->peer_fwd_cnt = h->fwd_cnt;
	if (conn_credit(c))
		c->credit_requested = false;
}

static void conn_packet(struct vsock *v, struct conn *c, const struct virtio_vsock_hdr *h,
	const struct virtio_chain *chain)
{
	conn_take_credit(c, h);
	switch (h->op) {
	case VIRTIO_VSOCK_OP_RESPONSE:
		conn_established(v, c);
		break;
	case VIRTIO_VSOCK_OP_RST:
		conn_guest_reset(v, c);
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		conn_guest_shutdown(v, c, h->flags);
		break;
	case VIRTIO_VSOCK_OP_RW:
		if (c->state == CONN_CONNECTING)
			conn_reset(v, c);
		else
			conn_payload(v, c, chain, h->len);
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		c->pending |= PENDING_CREDIT_UPDATE;
		break;
	default: /* REQUEST for an existing connection, or unknown */
		conn_reset(v, c);
		break;
	}
	conn_schedule(v, c);
}

/* Copies the header once; false when the chain holds no packet. */
static bool read_packet(const struct virtio_chain *chain, struct virtio_vsock_hdr *h)
{
	if (virtio_chain_read(chain, 0, h, sizeof(*h)) != sizeof(*h))
		return false;
	h->src_cid = le64toh(h->src_cid);
	h->dst_cid = le64toh(h->dst_cid);
	h->src_port = le32toh(h->src_port);
	h->dst_port = le32toh(h->dst_port);
	h->len = le32toh(h->len);
	h->type = le16toh(h->type);
	h->op = le16toh(h->op);
	h->flags = le32toh(h->flags);
	h->buf_alloc = le32toh(h->buf_alloc);
	h->fwd_cnt = le32toh(h->fwd_cnt);
	return h->len <= chain->out_bytes - sizeof(*h);
}

static void handle_packet(
	struct vsock *v, const struct virtio_vsock_hdr *h, const struct virtio_chain *chain)
{
	struct conn *c = conn_by_port(v, h->dst_port);

	if (h->src_cid != v->guest_cid || h->dst_cid != VIRTIO_VSOCK_CID_HOST)
		return;
	if (c && (c->guest_port != h->src_port || !c->request_sent || c->state == CONN_DRAINING))
		c = NULL;
	if (c && h->type == VIRTIO_VSOCK_TYPE_STREAM)
		conn_packet(v, c, h, chain);
	else if (h->op != VIRTIO_VSOCK_OP_RST)
		reset_queue(v, h->dst_port, h->src_port, RESETS_UNKNOWN_MAX);
}

/* --- packets to the guest --- */

enum send_result { SENT, NOTHING, NO_BUFFER };

/* Takes a receive buffer that has room for a header and at least `payload` bytes. */
static bool rx_pop(struct vsock *v, struct virtio_chain *chain, size_t payload)
{
	if (virtio_queue_pop(&v->dev, VIRTIO_VSOCK_RX_QUEUE, chain) <= 0)
		return false;
	if (chain->in_bytes >= HEADER_BYTES + payload)
		return true;
	virtio_needs_reset(&v->dev, "receive buffer too small");
	return false;
}

static void rx_push(struct vsock *v, const struct virtio_chain *chain, const struct reset *ports,
	const struct virtio_vsock_hdr *part)
{
	struct virtio_vsock_hdr h = {
		.src_cid = htole64(VIRTIO_VSOCK_CID_HOST),
		.dst_cid = htole64(v->guest_cid),
		.src_port = htole32(ports->host_port),
		.dst_port = htole32(ports->guest_port),
		.len = htole32(part->len),
		.type = htole16(VIRTIO_VSOCK_TYPE_STREAM),
		.op = htole16(part->op),
		.flags = htole32(part->flags),
		.buf_alloc = htole32(part->buf_alloc),
		.fwd_cnt = htole32(part->fwd_cnt),
	};

	(void)virtio_chain_write(chain, 0, &h, sizeof(h)); /* rx_pop checked the room */
	virtio_queue_push(&v->dev, VIRTIO_VSOCK_RX_QUEUE, chain->head, HEADER_BYTES + part->len);
}

static void conn_push(struct vsock *v, struct conn *c, const struct virtio_chain *chain,
	uint16_t op, uint32_t len, uint32_t flags)
{
	const struct reset ports = {.host_port = c->host_port, .guest_port = c->guest_port};

	rx_push(v, chain, &ports,
		&(struct virtio_vsock_hdr){.op = op,
			.len = len,
			.flags = flags,
			.buf_alloc = VSOCK_BUFFER_BYTES,
			.fwd_cnt = c->forwarded});
	c->forwarded_told = c->forwarded;
	c->pending &= (uint8_t)~PENDING_CREDIT_UPDATE; /* every packet carries it */
}

static enum send_result conn_send_control(struct vsock *v, struct conn *c)
{
	struct virtio_chain chain;
	uint32_t flags = 0;
	uint8_t bit;
	uint16_t op;

	if (c->pending & PENDING_REQUEST) {
		bit = PENDING_REQUEST;
		op = VIRTIO_VSOCK_OP_REQUEST;
	} else if (c->pending & PENDING_SHUTDOWN) {
		bit = PENDING_SHUTDOWN;
		op = VIRTIO_VSOCK_OP_SHUTDOWN;
		flags = c->state == CONN_CLOSING ? SHUTDOWN_BOTH : VIRTIO_VSOCK_SHUTDOWN_SEND;
	} else if (c->pending & PENDING_CREDIT_REQUEST) {
		bit = PENDING_CREDIT_REQUEST;
		op = VIRTIO_VSOCK_OP_CREDIT_REQUEST;
	} else {
		bit = PENDING_CREDIT_UPDATE;
		op = VIRTIO_VSOCK_OP_CREDIT_UPDATE;
	}
	if (!rx_pop(v, &chain, 0))
		return NO_BUFFER;
	conn_push(v, c, &chain, op, 0, flags);
	c->pending &= (uint8_t)~bit;
	c->request_sent |= op == VIRTIO_VSOCK_OP_REQUEST;
	return SENT;
}

/* The client sends no more. */
static void conn_host_eof(struct vsock *v, struct conn *c)
{
	c->host_eof = true;
	c->readable = false;
	c->pending |= PENDING_SHUTDOWN;
	conn_check_end(v, c);
}

/* Reads from the client's socket into the guest's buffer. */
static ssize_t conn_read(struct conn *c, const struct virtio_chain *chain, size_t room)
{
	struct iovec iov[VIRTIO_CHAIN_MAX];
	struct msghdr m = {.msg_iov = iov};
	ssize_t n;

	m.msg_iovlen = payload_iovecs(chain->in, chain->in_count, room, iov);
	do {
		n = recvmsg(c->fd, &m, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static enum send_result conn_send_payload(struct vsock *v, struct conn *c)
{
	struct virtio_chain chain;
	size_t room;
	ssize_t n;

	if (!rx_pop(v, &chain, 1))
		return NO_BUFFER;
	room = chain.in_bytes - HEADER_BYTES;
	if (room > conn_credit(c))
		room = conn_credit(c);
	if (room > PACKET_MAX)
		room = PACKET_MAX;
	n = conn_read(c, &chain, room);
	if (n > 0) {
		c->sent += (uint32_t)n;
		/* A short read emptied the socket: the next byte, or its end, raises an edge. */
		c->readable = (size_t)n == room || c->host_hung_up;
		conn_push(v, c, &chain, VIRTIO_VSOCK_OP_RW, (uint32_t)n, 0);
		return SENT;
	}
	virtio_queue_unpop(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
	if (n == -EAGAIN) {
		c->readable = false;
		return NOTHING;
	}
	if (n < 0)
		conn_host_gone(c);
	conn_host_eof(v, c);
	return NOTHING;
}

static enum send_result conn_send(struct vsock *v, struct conn *c)
{
	if (c->pending)
		return conn_send_control(v, c);
	if (conn_wants_read(c) && conn_credit(c))
		return conn_send_payload(v, c);
	return NOTHING;
}

static bool send_resets(struct vsock *v)
{
	while (v->reset_count) {
		const struct reset *r = &v->resets[v->reset_start];
		struct virtio_chain chain;

		if (!rx_pop(v, &chain, 0))
			return false;
		rx_push(v, &chain, r, &(struct virtio_vsock_hdr){.op = VIRTIO_VSOCK_OP_RST});
		v->reset_start = (v->reset_start + 1) % RESETS_MAX;
		v->reset_count--;
	}
	return true;
}

/* Sends what there is to send, as long as the guest has buffers for it. */
static void rx_fill(struct vsock *v)
{
	while (send_resets(v) && v->work_head != NO_SLOT) {
		struct conn *c = &v->conns[v->work_head];
		enum send_result r;

		work_remove(v, c);
		r = conn_send(v, c);
		if (r == NO_BUFFER) {
			work_add(v, c, true);
			break;
		}
		conn_schedule(v, c);
	}
	virtio_queue_interrupt(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
}

/* --- clients --- */

/* "CONNECT <port>\n" */
static bool parse_line(struct conn *c)
{
	static const char verb[] = "CONNECT ";
	char line[LINE_MAX_BYTES + 1];
	uint64_t port;

	memcpy(line, c->line, c->line_len);
	line[c->line_len - 1] = '\0'; /* the newline */
	if (!str_starts_with(line, verb) || str_parse_u64(line + strlen(verb), &port) < 0 ||
		port > UINT32_MAX)
		return false;
	c->guest_port = (uint32_t)port;
	return true;
}

/* Takes the rest of the line out of the socket, and nothing behind it: 1 when it is complete, 0
 * when more has to come, -1 when it cannot become one. */
static int read_line(struct conn *c)
{
	for (;;) {
		char *p = c->line + c->line_len;
		size_t room = sizeof(c->line) - c->line_len;
		ssize_t n = recv(c->fd, p, room, MSG_PEEK | MSG_DONTWAIT);
		const char *newline;

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return 0;
		if (n <= 0)
			return -1;
		newline = memchr(p, '\n', (size_t)n);
		if (newline)
			n = newline - p + 1;
		if (recv(c->fd, p, (size_t)n, MSG_DONTWAIT) != n)
			return -1;
		c->line_len += (uint8_t)n;
		if (newline)
			return 1;
		if (c->line_len == sizeof(c->line))
			return -1;
	}
}

static void conn_handshake(struct vsock *v, struct conn *c)
{
	int r = read_line(c);

	if (r < 0 || (r > 0 && !parse_line(c))) {
		conn_refuse(v, c, "ERR request\n");
		return;
	}
	if (r == 0) {
		if (!c->deadline_ns)
			conn_set_deadline(v, c, VSOCK_HANDSHAKE_MS);
		return;
	}
	if (v->dev.status & VIRTIO_STATUS_NEEDS_RESET) {
		conn_refuse(v, c, "ERR reset\n");
		return;
	}
	c->deadline_ns = 0;
	c->state = CONN_CONNECTING;
	c->pending = PENDING_REQUEST;
	conn_schedule(v, c);
}

static void client_new(struct vsock *v, int fd)
{
	struct epoll_event e = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET};
	struct conn *c = conn_new(v, fd);

	if (!c) {
		(void)send(fd, "ERR busy\n", 9, MSG_NOSIGNAL | MSG_DONTWAIT); /* a courtesy */
		(void)close(fd);
		return;
	}
	e.data.u64 = c->host_port;
	if (epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, fd, &e) < 0)
		conn_refuse(v, c, "ERR busy\n");
	else
		conn_handshake(v, c);
}

static void accept_clients(struct vsock *v)
{
	for (unsigned i = 0; i < EVENTS_MAX; i++) {
		int fd = accept4(v->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd >= 0) {
			client_new(v, fd);
		} else if (errno == EAGAIN) {
			return;
		} else if (errno != EINTR && errno != ECONNABORTED) {
			/* Out of descriptors or memory: the socket stays readable, so look away. */
			listen_watch(v, false);
			v->listen_retry_ns = clock_monotonic_ns() + LISTEN_RETRY_MS * NS_PER_MS;
			timer_set(v, v->listen_retry_ns);
			return;
		}
	}
}

static void conn_client_left(struct vsock *v, struct conn *c)
{
	if (c->state == CONN_ESTABLISHED) {
		conn_host_gone(c);
		conn_check_end(v, c);
	} else if (c->state == CONN_DRAINING) {
		conn_free(v, c); /* the guest does not know of it any more */
	} else {
		conn_reset(v, c);
	}
}

static void conn_event(struct vsock *v, struct conn *c, uint32_t events)
{
	if (c->state == CONN_HANDSHAKE) {
		conn_handshake(v, c);
		return;
	}
	if (c->fd < 0)
		return;
	if (events & EPOLLOUT)
		conn_flush(v, c);
	if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->readable = true;
	if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR))
		c->host_hung_up = true;
	if (events & (EPOLLHUP | EPOLLERR) || (c->state == CONN_DRAINING && c->host_gone))
		conn_client_left(v, c);
	else if (c->state == CONN_DRAINING && buf_len(&c->out) == 0)
		conn_free(v, c);
	else
		conn_check_end(v, c);
	conn_schedule(v, c);
}

static void conn_expired(struct vsock *v, struct conn *c)
{
	if (c->state == CONN_HANDSHAKE)
		conn_refuse(v, c, "ERR timeout\n");
	else
		conn_reset(v, c);
}

/* The timer fired: ends what is due, and sets it for what is due next. */
static void check_deadlines(struct vsock *v)
{
	uint64_t now = clock_monotonic_ns(), expirations;

	(void)!read(v->timer_fd, &expirations, sizeof(expirations)); /* only rearms it */
	v->timer_ns = 0;
	if (v->listen_paused && now >= v->listen_retry_ns)
		listen_watch(v, true);
	for (uint16_t i = 0; i < v->slots_used; i++) {
		struct conn *c = &v->conns[i];

		if (c->state == CONN_FREE || !c->deadline_ns)
			continue;
		if (c->deadline_ns <= now)
			conn_expired(v, c);
		else
			timer_set(v, c->deadline_ns);
	}
}

/* Takes in what happened on the host side. */
static void host_events(struct vsock *v)
{
	struct epoll_event events[EVENTS_MAX];
	int n = epoll_wait(v->epoll_fd, events, EVENTS_MAX, 0);

	for (int i = 0; i < n; i++) {
		struct conn *c;

		if (events[i].data.u64 == ID_LISTEN) {
			accept_clients(v);
		} else if (events[i].data.u64 == ID_TIMER) {
			check_deadlines(v);
		} else {
			c = conn_by_port(v, (uint32_t)events[i].data.u64);
			if (c)
				conn_event(v, c, events[i].events);
		}
	}
}

/* Ends every connection that the guest may know of, or all of them. */
static void drop_connections(struct vsock *v, bool all)
{
	for (uint16_t i = 0; i < v->slots_used; i++) {
		struct conn *c = &v->conns[i];

		if (c->state == CONN_FREE || !(all || c->request_sent) || c->state == CONN_DRAINING)
			continue;
		if (c->state == CONN_CONNECTING || c->state == CONN_HANDSHAKE)
			conn_say(c, "ERR reset\n");
		conn_free(v, c);
	}
	v->reset_start = v->reset_count = 0;
}

/* --- ops --- */

static void tx_drain(struct vsock *v)
{
	struct virtio_chain chain;

	while (virtio_queue_pop(&v->dev, VIRTIO_VSOCK_TX_QUEUE, &chain) > 0) {
		struct virtio_vsock_hdr h;

		if (!read_packet(&chain, &h)) {
			virtio_needs_reset(&v->dev, "packet shorter than it says");
			return;
		}
		handle_packet(v, &h, &chain);
		virtio_queue_push(&v->dev, VIRTIO_VSOCK_TX_QUEUE, chain.head, 0);
	}
	virtio_queue_interrupt(&v->dev, VIRTIO_VSOCK_TX_QUEUE);
}

static void vsock_notify(struct virtio_device *dev, unsigned queue)
{
	struct vsock *v = vsock_of(dev);

	if (queue == VIRTIO_VSOCK_EVENT_QUEUE)
		return; /* its buffers are for events, and we have none */
	if (queue == VIRTIO_VSOCK_TX_QUEUE)
		tx_drain(v);
	rx_fill(v);
	if (dev->status & VIRTIO_STATUS_NEEDS_RESET)
		drop_connections(v, true);
}

static uint64_t vsock_features(struct virtio_device *dev)
{
	return 0; /* streams only */
}

/* Clients whose request was not sent yet stay: they wait for the driver to come up. */
static void vsock_reset(struct virtio_device *dev)
{
	drop_connections(vsock_of(dev), false);
}

static size_t vsock_config(struct virtio_device *dev, uint8_t *out, size_t max)
{
	put_le64(out, vsock_of(dev)->guest_cid);
	return 8;
}

static void vsock_resume(struct virtio_device *dev)
{
	host_events(vsock_of(dev));
}

static bool guest_knows(const struct conn *c)
{
	return c->state != CONN_FREE && c->state != CONN_DRAINING && c->request_sent;
}

static int vsock_save(struct virtio_device *dev, struct buf *out)
{
	struct vsock *v = vsock_of(dev);
	uint32_t count = v->reset_count;
	int r;

	for (uint16_t i = 0; i < v->slots_used; i++)
		count += guest_knows(&v->conns[i]);
	r = buf_add_le32(out, v->guest_cid);
	r = r ? r : buf_add_le32(out, v->sequence);
	r = r ? r : buf_add_le32(out, count);
	for (unsigned i = 0; i < v->reset_count; i++) {
		const struct reset *s = &v->resets[(v->reset_start + i) % RESETS_MAX];

		r = r ? r : buf_add_le32(out, s->host_port);
		r = r ? r : buf_add_le32(out, s->guest_port);
	}
	for (uint16_t i = 0; i < v->slots_used; i++) {
		if (!guest_knows(&v->conns[i]))
			continue;
		r = r ? r : buf_add_le32(out, v->conns[i].host_port);
		r = r ? r : buf_add_le32(out, v->conns[i].guest_port);
	}
	return r;
}

static int vsock_load(struct virtio_device *dev, struct reader *in)
{
	struct vsock *v = vsock_of(dev);
	uint32_t cid = reader_le32(in), sequence = reader_le32(in), count = reader_le32(in);

	if (in->bad || cid <= VIRTIO_VSOCK_CID_HOST || cid == UINT32_MAX ||
		sequence > SEQUENCE_MAX || count > RESETS_MAX - VSOCK_CONNECTIONS_MAX ||
		reader_left(in) < count * UINT64_C(8))
		return -EINVAL;
	v->guest_cid = cid;
	v->sequence = sequence;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t host_port = reader_le32(in);

		reset_queue(v, host_port, reader_le32(in), RESETS_MAX);
	}
	return 0;
}

static void vsock_destroy(struct virtio_device *dev)
{
	struct vsock *v = vsock_of(dev);

	for (uint16_t i = 0; v->conns && i < v->slots_used; i++)
		if (v->conns[i].state != CONN_FREE)
			conn_free(v, &v->conns[i]);
	free(v->conns);
	if (v->epoll_fd >= 0)
		(void)close(v->epoll_fd); /* no data in any of them */
	if (v->timer_fd >= 0)
		(void)close(v->timer_fd);
	(void)close(v->listen_fd);
	virtio_done(dev);
	free(v);
}

static const struct virtio_ops vsock_ops = {
	.id = VIRTIO_ID_VSOCK,
	.name = "vsock",
	.queue_count = 3,
	.queue_size_max = {QUEUE_SIZE, QUEUE_SIZE, EVENT_QUEUE_SIZE},
	.features = vsock_features,
	.notify = vsock_notify,
	.resume = vsock_resume,
	.reset = vsock_reset,
	.config = vsock_config,
	.save = vsock_save,
	.load = vsock_load,
	.destroy = vsock_destroy,
};

static int open_host_side(struct vsock *v)
{
	struct epoll_event e = {.events = EPOLLIN, .data.u64 = ID_LISTEN};
	int r = fd_set_nonblock(v->listen_fd, 1);

	if (r < 0)
		return r;
	v->conns = calloc(VSOCK_CONNECTIONS_MAX, sizeof(*v->conns));
	if (!v->conns)
		return -ENOMEM;
	v->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	v->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (v->epoll_fd < 0 || v->timer_fd < 0)
		return -errno;
	if (epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, v->listen_fd, &e) < 0)
		return -errno;
	e.data.u64 = ID_TIMER;
	return epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, v->timer_fd, &e) < 0 ? -errno : 0;
}

int vsock_create(const struct guest_memory *memory, int listen_fd, uint32_t guest_cid,
	void (*raise_irq)(void *), void *irq_opaque, struct virtio_device **ret, struct error *e)
{
	struct vsock *v = calloc(1, sizeof(*v));
	int r;

	if (!v) {
		(void)close(listen_fd); /* no data in it */
		return error_set_errno(
			e, ERROR_NO_SPACE, ENOMEM, "cannot create the socket device");
	}
	virtio_init(&v->dev, &vsock_ops, memory, raise_irq, irq_opaque);
	v->guest_cid = guest_cid;
	v->listen_fd = listen_fd;
	v->epoll_fd = v->timer_fd = -1;
	v->free_head = v->work_head = v->work_tail = NO_SLOT;
	r = open_host_side(v);
	if (r < 0) {
		vsock_destroy(&v->dev);
		return error_set_errno(e, ERROR_HOST, -r, "cannot create the socket device");
	}
	*ret = &v->dev;
	return 0;
}

int vsock_poll_fd(const struct virtio_device *dev)
{
	return ((const struct vsock *)(const void *)dev)->epoll_fd;
}

void vsock_poll(struct virtio_device *dev)
{
	struct vsock *v = vsock_of(dev);

	pthread_mutex_lock(&dev->lock);
	virtio_batch_begin(dev);
	host_events(v);
	rx_fill(v);
	/* With more to send than fits a batch, the timer makes the descriptor readable again, so
	 * that the event loop gets to its other work in between. */
	if (virtio_batch_end(dev))
		timer_set(v, 1);
	if (dev->status & VIRTIO_STATUS_NEEDS_RESET)
		drop_connections(v, true);
	pthread_mutex_unlock(&dev->lock);
}

bool vsock_idle(struct virtio_device *dev)
{
	struct vsock *v = vsock_of(dev);
	bool idle;

	pthread_mutex_lock(&dev->lock);
	idle = v->conn_count == 0 && v->reset_count == 0;
	pthread_mutex_unlock(&dev->lock);
	return idle;
}
