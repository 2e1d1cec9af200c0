#include "vmm/vsock_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fd.h"

static uint16_t slot_of(const struct vsock *v, const struct vsock_conn *c)
{
	return (uint16_t)(c - v->conns);
}

/* --- work list --- */

void vsock_work_remove(struct vsock *v, struct vsock_conn *c)
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

void vsock_work_add(struct vsock *v, struct vsock_conn *c, bool in_front)
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

/* Returns how many bytes the guest can take. The numbers are the guest's and may be anything. */
uint32_t vsock_conn_credit(const struct vsock_conn *c)
{
	uint32_t in_flight = c->sent - c->peer_fwd_cnt;

	return c->peer_buf_alloc > in_flight ? c->peer_buf_alloc - in_flight : 0;
}

bool vsock_conn_wants_read(const struct vsock_conn *c)
{
	return c->state == CONN_ESTABLISHED && c->readable && !c->host_eof &&
	       !(c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_RCV);
}

/* Puts the connection on the work list if it has anything to send. */
void vsock_conn_schedule(struct vsock *v, struct vsock_conn *c)
{
	bool wants_read = vsock_conn_wants_read(c);

	if (c->state == CONN_FREE || c->state == CONN_DRAINING)
		return;
	if (wants_read && !vsock_conn_credit(c) && !c->credit_requested) {
		c->credit_requested = true;
		c->pending |= PENDING_CREDIT_REQUEST;
	}
	if (!c->queued && (c->pending || (wants_read && vsock_conn_credit(c))))
		vsock_work_add(v, c, false);
}

/* --- life of a connection --- */

struct vsock_conn *vsock_conn_by_id(struct vsock *v, uint32_t id)
{
	struct vsock_conn *c = &v->conns[id % VSOCK_CONNECTIONS_MAX];

	if (slot_of(v, c) >= v->slots_used || c->state == CONN_FREE || c->id != id)
		return NULL;
	return c;
}

struct vsock_conn *vsock_conn_by_ports(struct vsock *v, uint32_t host_port, uint32_t guest_port)
{
	struct vsock_conn *c;

	if (host_port == EGRESS_PORT)
		return vsock_guest_find(v, guest_port);
	c = vsock_conn_by_id(v, host_port);
	if (!c || c->from_guest || c->guest_port != guest_port)
		return NULL;
	return c->guest_knows && c->state != CONN_DRAINING ? c : NULL;
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
struct vsock_conn *vsock_conn_new(struct vsock *v, int fd)
{
	uint16_t slot = slot_take(v);
	struct vsock_conn *c;

	if (slot == NO_SLOT)
		return NULL;
	v->sequence++;
	if (v->sequence < SEQUENCE_FIRST || v->sequence > SEQUENCE_MAX)
		v->sequence = SEQUENCE_FIRST;
	c = &v->conns[slot];
	*c = (struct vsock_conn){.state = CONN_HANDSHAKE,
		.fd = fd,
		.id = v->sequence << SLOT_BITS | slot,
		.out = BUF_INIT(VSOCK_BUFFER_BYTES)};
	c->host_port = c->id;
	v->conn_count++;
	return c;
}

/* Edges only. `out`: also when the socket takes more. */
static struct epoll_event conn_interest(const struct vsock_conn *c, bool out)
{
	return (struct epoll_event){
		.events = EPOLLIN | EPOLLRDHUP | EPOLLET | (out ? EPOLLOUT : 0), .data.u64 = c->id};
}

/* #calls vcpu main: epoll_ctl */
int vsock_conn_watch(struct vsock *v, struct vsock_conn *c)
{
	struct epoll_event e = conn_interest(c, false);

	return epoll_ctl(v->epoll_fd, EPOLL_CTL_ADD, c->fd, &e) < 0 ? -errno : 0;
}

/* #calls vcpu main: close */
static void conn_close_fd(struct vsock_conn *c)
{
	if (c->fd >= 0)
		(void)close(c->fd); /* a socket; also leaves the epoll set */
	c->fd = -1;
}

void vsock_conn_free(struct vsock *v, struct vsock_conn *c)
{
	vsock_work_remove(v, c);
	vsock_guest_forget(v, c);
	conn_close_fd(c);
	buf_done(&c->out);
	c->state = CONN_FREE;
	c->next = v->free_head;
	v->free_head = slot_of(v, c);
	v->conn_count--;
	v->guest_count -= c->from_guest;
	if (v->listen_paused)
		vsock_listen_watch(v, true);
}

void vsock_conn_drain(struct vsock *v, struct vsock_conn *c)
{
	vsock_work_remove(v, c);
	vsock_guest_forget(v, c);
	c->pending = 0;
	c->state = CONN_DRAINING;
}

/* Sends one line to the client, as far as its socket takes it.
 *
 * #calls vcpu main: sendmsg */
void vsock_conn_say(struct vsock_conn *c, const char *line)
{
	size_t n = strlen(line);

	if (c->fd >= 0 && fd_send(c->fd, line, n) != (ssize_t)n)
		c->host_gone = true;
}

void vsock_conn_refuse(struct vsock *v, struct vsock_conn *c, const char *line)
{
	vsock_conn_say(c, line);
	vsock_conn_free(v, c);
}

/* Queues a reset: the guest will be told that this connection does not exist. */
void vsock_reset_queue(struct vsock *v, uint32_t host_port, uint32_t guest_port, unsigned max)
{
	if (v->reset_count >= max)
		return;
	v->resets[(v->reset_start + v->reset_count++) % RESETS_MAX] =
		(struct vsock_ports){.host_port = host_port, .guest_port = guest_port};
}

/* Ends a connection that the guest knows of. Resets go out before new requests, and the guest opens
 * streams only while fewer than RESETS_WAITING_MAX wait. So there is always room for one more of
 * each connection that the guest knows, and a state with all of them can be loaded. */
void vsock_conn_reset(struct vsock *v, struct vsock_conn *c)
{
	if (c->guest_knows)
		vsock_reset_queue(v, c->host_port, c->guest_port, RESETS_MAX);
	if (c->state == CONN_CONNECTING)
		vsock_conn_say(c, "ERR reset\n");
	vsock_conn_free(v, c);
}

static void conn_watch_out(struct vsock *v, struct vsock_conn *c, bool on)
{
	struct epoll_event e = conn_interest(c, on);

	if (c->watches_out == on)
		return;
	c->watches_out = on;
	(void)epoll_ctl(v->epoll_fd, EPOLL_CTL_MOD, c->fd, &e); /* it is in the set */
}

static void conn_forwarded(struct vsock_conn *c, size_t n)
{
	c->forwarded += (uint32_t)n;
	if (c->forwarded - c->forwarded_told >= VSOCK_BUFFER_BYTES / 2)
		c->pending |= PENDING_CREDIT_UPDATE;
}

/* The client takes no more bytes. What waits for it is dropped and counts as delivered, so the
 * guest does not wait forever. */
void vsock_conn_host_gone(struct vsock_conn *c)
{
	c->host_gone = true;
	conn_forwarded(c, buf_len(&c->out));
	buf_done(&c->out);
}

/* Ends the connection if both directions have ended.
 *
 * #calls vcpu main: shutdown */
void vsock_conn_check_end(struct vsock *v, struct vsock_conn *c)
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
		vsock_conn_reset(v, c); /* the guest waits for this confirmation, 5.10.6.6.1 */
		return;
	}
	conn_close_fd(c);
	c->state = CONN_CLOSING;
	c->pending |= PENDING_SHUTDOWN;
	vsock_conn_set_deadline(v, c, VSOCK_CLOSE_MS);
}

/* --- guest to client --- */

/* Writes what is buffered. */
void vsock_conn_flush(struct vsock *v, struct vsock_conn *c)
{
	while (buf_len(&c->out)) {
		ssize_t n = fd_send(c->fd, buf_head(&c->out), buf_len(&c->out));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			break;
		if (n < 0) {
			vsock_conn_host_gone(c);
			break;
		}
		conn_forwarded(c, (size_t)n);
		buf_consume(&c->out, (size_t)n);
	}
	conn_watch_out(v, c, buf_len(&c->out) > 0);
	if (buf_len(&c->out) == 0)
		buf_done(&c->out); /* gives the memory back */
}

/* Makes an iovec array of len bytes of payload behind the header. Returns its length. */
unsigned vsock_payload_iovecs(
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
static size_t conn_write(struct vsock_conn *c, const struct virtio_chain *chain, size_t len)
{
	struct iovec iov[VIRTIO_CHAIN_MAX];
	struct msghdr m = {.msg_iov = iov};
	ssize_t n;

	m.msg_iovlen = vsock_payload_iovecs(chain->out, chain->out_count, len, iov);
	do {
		n = sendmsg(c->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno != EAGAIN)
		vsock_conn_host_gone(c);
	return n < 0 ? 0 : (size_t)n;
}

void vsock_conn_payload(
	struct vsock *v, struct vsock_conn *c, const struct virtio_chain *chain, uint32_t len)
{
	size_t done = 0;
	uint8_t *p;

	if (c->guest_shutdown & VIRTIO_VSOCK_SHUTDOWN_SEND ||
		len > VSOCK_BUFFER_BYTES - buf_len(&c->out)) {
		vsock_conn_reset(v, c);
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
		vsock_conn_check_end(v, c);
		return;
	}
	p = buf_reserve(&c->out, len - done);
	if (!p) {
		vsock_conn_reset(v, c);
		return;
	}
	(void)virtio_chain_read(chain, HEADER_BYTES + done, p, len - done); /* it is that long */
	buf_commit(&c->out, len - done);
	conn_watch_out(v, c, true);
}
