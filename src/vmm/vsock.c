/* Theory of operation.
 *
 * Two sides call in, both under the device's lock: vCPU threads (a queue was notified) and the
 * VMM's event loop (vsock_poll: an epoll set of the listening socket, the clients and a timer). The
 * notification itself handles the guest's packets. One sendmsg moves payload from guest memory to
 * the client's socket. Only what the socket does not take is buffered, within the credit that the
 * guest was given.
 *
 * rx_fill sends everything to the guest, as receive buffers allow. First come resets of connections
 * that no longer exist here. Then each connection on the work list sends one packet in turn. A
 * connection is on the list while it has a control packet pending, or has credit and may be
 * readable. Payload is read from its socket straight into the guest's buffers. Linux gives buffers
 * of 4 KiB, so a connection with much to send fills many of them with one read.
 *
 * Clients are watched edge-triggered. An edge sets `readable`, which stays set until a read finds
 * the socket empty. So nothing spins while the guest has no credit or no buffer.
 *
 * A connection has an id: the slot number plus a sequence number that changes with every
 * connection. epoll hands back ids, never pointers. So a late event finds another id in the slot
 * and is dropped. The id is also the host's port, so a late packet is dropped, too. Streams that
 * the guest opens have one host port in common, and are found by the guest's (vsock_guest.c). */
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
#include "base/fd.h"
#include "proto/virtio.h"
#include "vmm/vsock_internal.h"

enum {
	QUEUE_SIZE = 128,
	EVENT_QUEUE_SIZE = 16,
	PACKET_MAX = 65536,	 /* payload of one packet to the guest */
	BATCH_SLOTS = 32,	 /* receive buffers that one read may fill */
	TURN_SLOTS = 8,		 /* likewise, while other connections wait */
	BATCH_PIECES = 2,	 /* of such a buffer, if it is not the only one */
	RESETS_UNKNOWN_MAX = 64, /* replies to packets for connections that do not exist */
};

static struct vsock *vsock_of(struct virtio_device *dev)
{
	return (struct vsock *)(void *)dev;
}

/* --- packets of the guest --- */

static void conn_established(struct vsock *v, struct vsock_conn *c)
{
	char line[LINE_MAX_BYTES];

	if (c->state != CONN_CONNECTING) {
		vsock_conn_reset(v, c);
		return;
	}
	(void)snprintf(line, sizeof(line), "OK %u\n", c->host_port); /* 14 characters at most */
	vsock_conn_say(c, line);
	c->state = CONN_ESTABLISHED;
	c->readable = true; /* what the client sent behind its line */
}

static void conn_guest_reset(struct vsock *v, struct vsock_conn *c)
{
	if (c->state == CONN_CONNECTING) {
		vsock_conn_refuse(v, c, "ERR refused\n");
		return;
	}
	if (c->state != CONN_ESTABLISHED || buf_len(&c->out) == 0) {
		vsock_conn_free(v, c);
		return;
	}
	vsock_conn_drain(v, c);
}

static void conn_guest_shutdown(struct vsock *v, struct vsock_conn *c, uint32_t flags)
{
	if (c->state == CONN_CONNECTING || c->state == CONN_CLOSING) {
		/* Too early; or both sides close at once, and the guest waits for confirmation. */
		if (c->state == CONN_CONNECTING || (flags & SHUTDOWN_BOTH) == SHUTDOWN_BOTH)
			vsock_conn_reset(v, c);
		return;
	}
	if (flags & ~c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV)
		(void)shutdown(c->fd, SHUT_RD); /* fails only if the client went */
	c->guest_shutdown |= flags & SHUTDOWN_BOTH;
	vsock_conn_check_end(v, c);
}

/* Takes over a packet's report on the guest's buffer. Threads of a guest may overtake each other
 * between stamping a packet and queueing it. So a counter that goes back, or claims bytes never
 * sent, is ignored and no reason for a reset. */
static void conn_take_credit(struct vsock_conn *c, const struct virtio_vsock_hdr *h)
{
	c->peer_buf_alloc = h->buf_alloc;
	if (c->sent - h->fwd_cnt <= c->sent - c->peer_fwd_cnt)
		c->peer_fwd_cnt = h->fwd_cnt;
	if (vsock_conn_credit(c))
		c->credit_requested = false;
}

static void conn_packet(struct vsock *v, struct vsock_conn *c, const struct virtio_vsock_hdr *h,
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
			vsock_conn_reset(v, c);
		else
			vsock_conn_payload(v, c, chain, h->len);
		break;
	case VIRTIO_VSOCK_OP_CREDIT_UPDATE:
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		c->pending |= PENDING_CREDIT_UPDATE;
		break;
	default: /* REQUEST for an existing connection, or unknown */
		vsock_conn_reset(v, c);
		break;
	}
	vsock_conn_schedule(v, c);
}

/* Copies the header once. False when the chain holds no packet. */
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
	struct vsock_conn *c = vsock_conn_by_ports(v, h->dst_port, h->src_port);
	bool stream = h->type == VIRTIO_VSOCK_TYPE_STREAM;

	if (h->src_cid != v->guest_cid || h->dst_cid != VIRTIO_VSOCK_CID_HOST)
		return;
	if (c && stream)
		conn_packet(v, c, h, chain);
	else if (stream && h->op == VIRTIO_VSOCK_OP_REQUEST && h->dst_port == EGRESS_PORT)
		vsock_guest_open(v, h->src_port, h->buf_alloc);
	else if (h->op != VIRTIO_VSOCK_OP_RST)
		vsock_reset_queue(v, h->dst_port, h->src_port, RESETS_UNKNOWN_MAX);
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

static struct virtio_vsock_hdr rx_header(
	const struct vsock *v, const struct vsock_ports *ports, const struct virtio_vsock_hdr *part)
{
	return (struct virtio_vsock_hdr){
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
}

static void rx_push(struct vsock *v, const struct virtio_chain *chain,
	const struct vsock_ports *ports, const struct virtio_vsock_hdr *part)
{
	struct virtio_vsock_hdr h = rx_header(v, ports, part);

	(void)virtio_chain_write(chain, 0, &h, sizeof(h)); /* rx_pop checked the room */
	virtio_queue_push(&v->dev, VIRTIO_VSOCK_RX_QUEUE, chain->head, HEADER_BYTES + part->len);
}

/* What a packet to the guest says of the connection. */
static struct virtio_vsock_hdr conn_header(
	struct vsock_conn *c, uint16_t op, uint32_t len, uint32_t flags)
{
	c->forwarded_told = c->forwarded;
	c->pending &= (uint8_t)~PENDING_CREDIT_UPDATE; /* every packet carries it */
	return (struct virtio_vsock_hdr){.op = op,
		.len = len,
		.flags = flags,
		.buf_alloc = VSOCK_BUFFER_BYTES,
		.fwd_cnt = c->forwarded};
}

static struct vsock_ports conn_ports(const struct vsock_conn *c)
{
	return (struct vsock_ports){.host_port = c->host_port, .guest_port = c->guest_port};
}

static enum send_result conn_send_control(struct vsock *v, struct vsock_conn *c)
{
	struct virtio_chain chain;
	struct vsock_ports ports;
	struct virtio_vsock_hdr part;
	uint32_t flags = 0;
	uint8_t bit;
	uint16_t op;

	if (c->pending & PENDING_REQUEST) {
		bit = PENDING_REQUEST;
		op = VIRTIO_VSOCK_OP_REQUEST;
	} else if (c->pending & PENDING_RESPONSE) {
		bit = PENDING_RESPONSE;
		op = VIRTIO_VSOCK_OP_RESPONSE;
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
	ports = conn_ports(c);
	part = conn_header(c, op, 0, flags);
	rx_push(v, &chain, &ports, &part);
	c->pending &= (uint8_t)~bit;
	c->guest_knows |= op == VIRTIO_VSOCK_OP_REQUEST;
	return SENT;
}

/* The client has sent all its bytes. */
static void conn_host_eof(struct vsock *v, struct vsock_conn *c)
{
	c->host_eof = true;
	c->readable = false;
	c->pending |= PENDING_SHUTDOWN;
	vsock_conn_check_end(v, c);
}

/* A receive buffer that a read may fill. */
struct rx_slot {
	uint16_t head;
	uint32_t room;	 /* for payload */
	uint8_t *header; /* NULL: it is in pieces, and the batch's only one */
};

/* Receive buffers that one read fills, one after the other. */
struct rx_batch {
	struct virtio_chain chain; /* that was popped last */
	struct rx_slot slots[BATCH_SLOTS];
	struct iovec iov[VIRTIO_CHAIN_MAX + BATCH_SLOTS * BATCH_PIECES];
	unsigned count, iov_count;
	size_t room;
};

/* Adds the chain. False: it does not go with those before it. */
static bool batch_add(struct rx_batch *b, size_t credit)
{
	const struct virtio_chain *chain = &b->chain;
	bool whole = chain->in[0].bytes >= HEADER_BYTES;
	size_t room = chain->in_bytes - HEADER_BYTES;

	if (b->count && (!whole || chain->in_count > BATCH_PIECES))
		return false;
	if (room > credit - b->room)
		room = credit - b->room;
	if (room > PACKET_MAX)
		room = PACKET_MAX;
	b->slots[b->count++] = (struct rx_slot){.head = chain->head,
		.room = (uint32_t)room,
		.header = whole ? chain->in[0].host : NULL};
	b->iov_count +=
		vsock_payload_iovecs(chain->in, chain->in_count, room, b->iov + b->iov_count);
	b->room += room;
	return true;
}

/* Takes buffers for what a read may bring, by what the last one brought. Returns whether the guest
 * had any. */
static bool batch_take(struct vsock *v, const struct vsock_conn *c, struct rx_batch *b)
{
	unsigned most = v->work_head == NO_SLOT ? BATCH_SLOTS : TURN_SLOTS;
	unsigned max = c->slots < most ? c->slots : most;
	size_t credit = vsock_conn_credit(c);

	b->count = b->iov_count = 0;
	b->room = 0;
	while ((!b->count || b->count < max) && b->room < credit && rx_pop(v, &b->chain, 1)) {
		if (!batch_add(b, credit)) {
			virtio_queue_unpop(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
			break;
		}
		if (!b->slots[0].header)
			break;
	}
	return b->count;
}

/* How many buffers the next read has: twice as many if all were used, else as many as were, and not
 * many fewer than this one. */
static uint8_t next_slots(const struct rx_batch *b, unsigned used, bool all)
{
	unsigned least = b->count - b->count / 4, n = used > least ? used : least;

	return (uint8_t)(all ? 2 * b->count : n); /* BATCH_SLOTS at most, twice */
}

/* Sends n bytes that were read, and gives back the buffers that are still empty. */
static void batch_push(struct vsock *v, struct vsock_conn *c, struct rx_batch *b, size_t n)
{
	const struct vsock_ports ports = conn_ports(c);
	const struct virtio_vsock_hdr part = conn_header(c, VIRTIO_VSOCK_OP_RW, 0, 0);
	struct virtio_vsock_hdr h = rx_header(v, &ports, &part);
	bool all = n == b->room;
	unsigned used = 0;

	for (unsigned i = 0; i < b->count; i++) {
		const struct rx_slot *s = &b->slots[i];
		uint32_t len = n < s->room ? (uint32_t)n : s->room;

		if (len == 0) {
			virtio_queue_unpop(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
			continue;
		}
		h.len = htole32(len);
		if (s->header)
			memcpy(s->header, &h, sizeof(h));
		else
			(void)virtio_chain_write(&b->chain, 0, &h, sizeof(h)); /* it has room */
		virtio_queue_push(&v->dev, VIRTIO_VSOCK_RX_QUEUE, s->head, HEADER_BYTES + len);
		n -= len;
		used++;
	}
	c->slots = next_slots(b, used, all);
}

/* Reads from the client's socket into the guest's buffers.
 *
 * #calls vcpu main: recvmsg */
static ssize_t conn_read(struct vsock_conn *c, struct rx_batch *b)
{
	struct msghdr m = {.msg_iov = b->iov, .msg_iovlen = b->iov_count};
	ssize_t n;

	do {
		n = recvmsg(c->fd, &m, MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	return n < 0 ? -errno : n;
}

static enum send_result conn_send_payload(struct vsock *v, struct vsock_conn *c)
{
	struct rx_batch b;
	ssize_t n;

	if (!batch_take(v, c, &b))
		return NO_BUFFER;
	n = conn_read(c, &b);
	if (n > 0) {
		c->sent += (uint32_t)n;
		/* A short read emptied the socket: the next byte, or its end, raises an edge. */
		c->readable = (size_t)n == b.room || c->host_hung_up;
		batch_push(v, c, &b, (size_t)n);
		return SENT;
	}
	for (unsigned i = 0; i < b.count; i++)
		virtio_queue_unpop(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
	if (n == -EAGAIN) {
		c->readable = false;
		return NOTHING;
	}
	if (n < 0)
		vsock_conn_host_gone(c);
	conn_host_eof(v, c);
	return NOTHING;
}

static enum send_result conn_send(struct vsock *v, struct vsock_conn *c)
{
	if (c->pending)
		return conn_send_control(v, c);
	if (vsock_conn_wants_read(c) && vsock_conn_credit(c))
		return conn_send_payload(v, c);
	return NOTHING;
}

static bool send_resets(struct vsock *v)
{
	while (v->reset_count) {
		const struct vsock_ports *r = &v->resets[v->reset_start];
		struct virtio_chain chain;

		if (!rx_pop(v, &chain, 0))
			return false;
		rx_push(v, &chain, r, &(struct virtio_vsock_hdr){.op = VIRTIO_VSOCK_OP_RST});
		v->reset_start = (v->reset_start + 1) % RESETS_MAX;
		v->reset_count--;
	}
	return true;
}

/* Sends all that is pending while the guest has buffers for it. */
static void rx_fill(struct vsock *v)
{
	while (send_resets(v) && v->work_head != NO_SLOT) {
		struct vsock_conn *c = &v->conns[v->work_head];
		enum send_result r;

		vsock_work_remove(v, c);
		r = conn_send(v, c);
		if (r == NO_BUFFER) {
			vsock_work_add(v, c, true);
			break;
		}
		vsock_conn_schedule(v, c);
	}
	virtio_queue_interrupt(&v->dev, VIRTIO_VSOCK_RX_QUEUE);
}

/* Ends every connection that the guest may know of, or all of them. */
static void drop_connections(struct vsock *v, bool all)
{
	for (uint16_t i = 0; i < v->slots_used; i++) {
		struct vsock_conn *c = &v->conns[i];

		if (c->state == CONN_FREE || !(all || c->guest_knows) || c->state == CONN_DRAINING)
			continue;
		if (c->state == CONN_CONNECTING || c->state == CONN_HANDSHAKE)
			vsock_conn_say(c, "ERR reset\n");
		vsock_conn_free(v, c);
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
		return; /* its buffers are for events, and we send none */
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

/* Clients whose request was not sent yet stay, and wait until the driver is up. */
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
	vsock_host_events(vsock_of(dev));
}

static bool must_save(const struct vsock_conn *c)
{
	return c->state != CONN_FREE && c->state != CONN_DRAINING && c->guest_knows;
}

static int vsock_save(struct virtio_device *dev, struct buf *out)
{
	struct vsock *v = vsock_of(dev);
	uint32_t count = v->reset_count;
	int r;

	for (uint16_t i = 0; i < v->slots_used; i++)
		count += must_save(&v->conns[i]);
	r = buf_add_le32(out, v->guest_cid);
	r = r ? r : buf_add_le32(out, v->sequence);
	r = r ? r : buf_add_le32(out, count);
	for (unsigned i = 0; i < v->reset_count; i++) {
		const struct vsock_ports *s = &v->resets[(v->reset_start + i) % RESETS_MAX];

		r = r ? r : buf_add_le32(out, s->host_port);
		r = r ? r : buf_add_le32(out, s->guest_port);
	}
	for (uint16_t i = 0; i < v->slots_used; i++) {
		if (!must_save(&v->conns[i]))
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
		sequence > SEQUENCE_MAX || count > RESETS_MAX ||
		reader_left(in) < count * UINT64_C(8))
		return -EINVAL;
	v->guest_cid = cid;
	v->sequence = sequence;
	for (uint32_t i = 0; i < count; i++) {
		uint32_t host_port = reader_le32(in);

		vsock_reset_queue(v, host_port, reader_le32(in), RESETS_MAX);
	}
	return 0;
}

static void vsock_destroy(struct virtio_device *dev)
{
	struct vsock *v = vsock_of(dev);

	for (uint16_t i = 0; v->conns && i < v->slots_used; i++)
		if (v->conns[i].state != CONN_FREE)
			vsock_conn_free(v, &v->conns[i]);
	free(v->conns);
	if (v->epoll_fd >= 0)
		(void)close(v->epoll_fd); /* no data in any of them */
	if (v->timer_fd >= 0)
		(void)close(v->timer_fd);
	if (v->egress_fd >= 0)
		(void)close(v->egress_fd);
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

/* #calls start: fcntl(F_GETFL|F_SETFL) timerfd_create epoll_create1 epoll_ctl */
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
	v->epoll_fd = v->timer_fd = v->egress_fd = -1;
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

	virtio_lock(dev);
	virtio_batch_begin(dev);
	vsock_host_events(v);
	rx_fill(v);
	/* If more is left than one batch may send, the timer makes the descriptor readable again.
	 * So the event loop gets to its other work in between. */
	if (virtio_batch_end(dev))
		vsock_timer_set(v, 1);
	if (dev->status & VIRTIO_STATUS_NEEDS_RESET)
		drop_connections(v, true);
	virtio_unlock(dev);
}

void vsock_set_egress(struct virtio_device *dev, int fd)
{
	struct vsock *v = vsock_of(dev);
	int old;

	virtio_lock(dev);
	old = v->egress_fd;
	v->egress_fd = fd;
	virtio_unlock(dev);
	if (old >= 0)
		(void)close(old); /* what it holds is the other side's */
}

bool vsock_idle(struct virtio_device *dev)
{
	struct vsock *v = vsock_of(dev);
	bool idle;

	virtio_lock(dev);
	idle = v->conn_count == 0 && v->reset_count == 0;
	virtio_unlock(dev);
	return idle;
}
