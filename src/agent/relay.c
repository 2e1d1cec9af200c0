#include "relay.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#define CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

static uint8_t slice[RELAY_SLICE];
static size_t held_by_all;

static void count(struct relay_half *x)
{
	held_by_all += buf_len(&x->held) - x->counted;
	x->counted = buf_len(&x->held);
}

static void half_done(struct relay_half *x)
{
	buf_done(&x->held);
	count(x);
}

void relay_init(struct relay *r, size_t to_near_max, size_t to_far_max)
{
	*r = (struct relay){.near.fd = -1, .far.fd = -1};
	buf_init(&r->to_near.held, to_near_max);
	buf_init(&r->to_far.held, to_far_max);
}

void relay_close(struct relay *r)
{
	source_close(&r->near);
	source_close(&r->far);
	half_done(&r->to_near);
	half_done(&r->to_far);
}

/* Sends to `to`. Returns how many bytes it took, or -1 when it is gone. */
static ssize_t give(struct source *to, const void *data, size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = send(to->fd, (const uint8_t *)data + done, len - done,
			MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? (ssize_t)done : -1;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

/* False: the receiver is gone. */
static bool drain(struct relay_half *x, struct source *to)
{
	ssize_t n = give(to, buf_head(&x->held), buf_len(&x->held));

	if (n < 0)
		return false;
	buf_consume(&x->held, (size_t)n);
	count(x);
	if (buf_len(&x->held))
		return true;
	buf_done(&x->held);
	if (x->ended && !x->shut) {
		x->shut = true;
		(void)shutdown(to->fd, SHUT_WR); /* if it is gone, the other direction notices */
	}
	return true;
}

static size_t slice_size(void)
{
	size_t left = held_by_all < RELAY_HELD_MAX ? RELAY_HELD_MAX - held_by_all : 0;

	return left > RELAY_SLICE ? RELAY_SLICE : left < RELAY_SLICE_MIN ? RELAY_SLICE_MIN : left;
}

/* True if the socket takes no more bytes. After an end of file, its peer is gone then. */
static bool takes_nothing(const struct source *s)
{
	return send(s->fd, slice, 0, MSG_DONTWAIT | MSG_NOSIGNAL) < 0 && errno != EAGAIN;
}

/* Moves the bytes of one read. False: the connection broke. */
static bool carry(struct relay_half *x, struct source *from, struct source *to, bool may_go)
{
	ssize_t n = recv(from->fd, slice, slice_size(), MSG_DONTWAIT), done;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR;
	if (n == 0 && may_go && takes_nothing(from))
		return false;
	if (n == 0) {
		x->ended = true;
		return drain(x, to);
	}
	done = give(to, slice, (size_t)n);
	if (done < 0 || buf_add(&x->held, slice + done, (size_t)(n - done)) < 0)
		return false;
	count(x);
	return true;
}

static uint32_t wanted(const struct relay_half *in, const struct relay_half *out)
{
	uint32_t events = !in->ended && !buf_len(&in->held) ? EPOLLIN : 0;

	return events | (buf_len(&out->held) ? EPOLLOUT : 0);
}

static void go_on(struct relay *r, bool alive)
{
	if (!alive || source_wait(&r->near, wanted(&r->to_far, &r->to_near)) < 0 ||
		source_wait(&r->far, wanted(&r->to_near, &r->to_far)) < 0)
		r->over(r, true);
	else if (r->to_near.shut && r->to_far.shut)
		r->over(r, false);
}

/* Handles events of `from`. Its bytes go along x; bytes for it come along y. */
static bool handle(struct source *from, struct source *to, struct relay_half *x,
	struct relay_half *y, uint32_t events, bool may_go)
{
	if ((events & EPOLLOUT) && !drain(y, from))
		return false;
	/* Treat a hang-up as end of file, so that the bytes before it are delivered. */
	if (!x->ended && !buf_len(&x->held) && (events & ~(uint32_t)EPOLLOUT))
		return carry(x, from, to, may_go && !y->shut);
	return !(x->ended && (events & (EPOLLHUP | EPOLLERR)));
}

static void near_ready(struct source *s, uint32_t events)
{
	struct relay *r = CONTAINER(s, struct relay, near);

	go_on(r, handle(&r->near, &r->far, &r->to_far, &r->to_near, events, false));
}

static void far_ready(struct source *s, uint32_t events)
{
	struct relay *r = CONTAINER(s, struct relay, far);

	go_on(r, handle(&r->far, &r->near, &r->to_near, &r->to_far, events, r->far_may_go));
}

void relay_run(struct relay *r, void (*over)(struct relay *r, bool broken))
{
	r->over = over;
	r->near.ready = near_ready;
	r->far.ready = far_ready;
	count(&r->to_near);
	count(&r->to_far);
	go_on(r, drain(&r->to_far, &r->far) && drain(&r->to_near, &r->near));
}
