/* Streams that the guest opens, all to one port of the host.
 *
 * The guest chooses the other port, and nobody else does, so that port alone names such a stream. A
 * table of buckets finds it. A guest may choose ports that share a bucket: then its own packets
 * walk along VSOCK_GUEST_CONNECTIONS_MAX streams at most. */
#include "vmm/vsock_internal.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* --- the table --- */

/* Kernels number their ports one after the other, and these spread best as they are. */
static uint16_t *bucket_of(struct vsock *v, uint32_t guest_port)
{
	return &v->buckets[guest_port % GUEST_BUCKETS];
}

struct vsock_conn *vsock_guest_find(struct vsock *v, uint32_t guest_port)
{
	uint16_t at = *bucket_of(v, guest_port);

	while (at && v->conns[at - 1].guest_port != guest_port)
		at = v->conns[at - 1].bucket_next;
	return at ? &v->conns[at - 1] : NULL;
}

static void remember(struct vsock *v, struct vsock_conn *c)
{
	uint16_t *bucket = bucket_of(v, c->guest_port);

	c->bucket_next = *bucket;
	*bucket = (uint16_t)(c - v->conns + 1);
}

void vsock_guest_forget(struct vsock *v, struct vsock_conn *c)
{
	uint16_t self = (uint16_t)(c - v->conns + 1), *at;

	if (!c->from_guest || !c->guest_knows)
		return;
	c->guest_knows = false;
	for (at = bucket_of(v, c->guest_port); *at != self; at = &v->conns[*at - 1].bucket_next)
		assert(*at); /* the guest knows of it, so it is in there */
	*at = c->bucket_next;
}

/* --- opening --- */

/* Sends fd over the egress channel, and does not wait.
 *
 * #calls vcpu: sendmsg */
static int channel_send(int channel, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = &(char){0}, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};

	control.head.cmsg_level = SOL_SOCKET;
	control.head.cmsg_type = SCM_RIGHTS;
	control.head.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	while (sendmsg(channel, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Makes a stream whose other end the channel got. NULL: there is no room for it, or nobody takes
 * it.
 *
 * #calls vcpu: socketpair(AF_UNIX) close */
static struct vsock_conn *conn_open(struct vsock *v)
{
	struct vsock_conn *c;
	int pair[2], r;

	if (v->egress_fd < 0 || v->guest_count >= VSOCK_GUEST_CONNECTIONS_MAX ||
		socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return NULL;
	c = vsock_conn_new(v, pair[0]);
	r = c ? vsock_conn_watch(v, c) : -ENOSPC;
	r = r ? r : channel_send(v->egress_fd, pair[1]);
	(void)close(pair[1]); /* the channel has its own */
	if (r == 0)
		return c;
	if (c)
		vsock_conn_free(v, c);
	else
		(void)close(pair[0]); /* nobody took it */
	return NULL;
}

void vsock_guest_open(struct vsock *v, uint32_t guest_port, uint32_t guest_buffer)
{
	struct vsock_conn *c;

	if (v->reset_count >= RESETS_WAITING_MAX)
		return; /* the guest takes no packets: it does not even hear of a refusal */
	c = conn_open(v);
	if (!c) {
		vsock_reset_queue(v, EGRESS_PORT, guest_port, RESETS_WAITING_MAX);
		return;
	}
	c->state = CONN_ESTABLISHED;
	c->from_guest = true;
	c->guest_knows = true;
	c->host_port = EGRESS_PORT;
	c->guest_port = guest_port;
	c->peer_buf_alloc = guest_buffer;
	c->pending = PENDING_RESPONSE;
	v->guest_count++;
	remember(v, c);
	vsock_conn_schedule(v, c);
}
