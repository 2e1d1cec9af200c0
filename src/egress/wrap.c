#include "egress/wrap.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum {
	LEFT_MS = 15000,
	FILLS = 4,	       /* of a socket in a turn: other flows wait */
	FILL_BYTES = 17 << 10, /* about a record */
};

enum state { SHAKES, OPEN, OVER };

struct wrap {
	struct context *context;
	enum state state;
	struct tls_session tls;
	struct loop_watch outer, inner; /* to the proxy; to the owner */
	struct loop_timer timer;
	struct buf plain;  /* that the owner did not take yet */
	bool outer_eof;	   /* nothing more comes from the proxy's socket */
	bool outer_ended;  /* the owner knows that the proxy's direction has ended */
	bool inner_ended;  /* and the proxy, that the owner's has */
	bool left;	   /* there is no owner */
	unsigned fills[2]; /* of this turn */
	char why[200];
	void (*ready)(void *arg, int fd);
	void *arg;
	struct wrap *previous, *next; /* among those that are left */
};

/* --- the end --- */

static void stop(struct wrap *w)
{
	struct loop *l = &w->context->loop;

	w->state = OVER;
	loop_remove(l, &w->outer);
	loop_remove(l, &w->inner);
}

static void unlist(struct wrap *w)
{
	struct context *c = w->context;

	if (!w->left)
		return;
	*(w->previous ? &w->previous->next : &c->wraps_left) = w->next;
	if (w->next)
		w->next->previous = w->previous;
	c->wraps_left_count--;
}

static void free_wrap(struct wrap *w)
{
	stop(w);
	unlist(w);
	loop_stop(&w->context->loop, &w->timer);
	cleanup_close_p(&w->outer.fd);
	cleanup_close_p(&w->inner.fd);
	tls_done(&w->tls);
	buf_done(&w->plain);
	free(w);
}

/* The owner sees an end, and finds the reason. */
static void break_off(struct wrap *w, const char *what, const char *why)
{
	(void)snprintf(w->why, sizeof(w->why), "%s%s", what, why); /* fits, or is cut */
	stop(w);
	if (w->inner.fd >= 0)
		(void)shutdown(w->inner.fd, SHUT_RDWR); /* of a pair: does not fail */
}

/* --- bytes. Each of these returns whether it changed something --- */

static bool may_fill(const struct wrap *w)
{
	return w->state != OVER && !w->outer_eof && !w->outer_ended && buf_len(&w->tls.in) == 0 &&
	       buf_len(&w->plain) == 0;
}

/* #calls egress: recvfrom */
static bool fill(struct wrap *w)
{
	uint8_t *p;
	ssize_t n;

	if (!may_fill(w) || w->fills[0]++ >= FILLS)
		return false;
	p = buf_reserve(&w->tls.in, FILL_BYTES);
	n = p ? recv(w->outer.fd, p, FILL_BYTES, 0) : 0;
	if (n < 0 && errno == EAGAIN)
		return false;
	w->outer_eof = n <= 0;
	if (n > 0)
		buf_commit(&w->tls.in, (size_t)n);
	return true;
}

static bool send_out(struct wrap *w)
{
	ssize_t n;

	if (w->state == OVER || !buf_len(&w->tls.out))
		return false;
	n = fd_send_peer(w->outer.fd, buf_head(&w->tls.out), buf_len(&w->tls.out));
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n < 0)
		break_off(w, "", "the proxy's connection was lost");
	else
		buf_consume(&w->tls.out, (size_t)n);
	if (!buf_len(&w->tls.out))
		buf_done(&w->tls.out); /* gives the memory back */
	return true;
}

/* What the owner does not take any more is dropped. */
static bool send_in(struct wrap *w)
{
	ssize_t n;

	if (w->state != OPEN || !buf_len(&w->plain))
		return false;
	n = fd_send_peer(w->inner.fd, buf_head(&w->plain), buf_len(&w->plain));
	if (n < 0 && errno == EAGAIN)
		return false;
	buf_consume(&w->plain, n < 0 ? buf_len(&w->plain) : (size_t)n);
	if (!buf_len(&w->plain))
		buf_done(&w->plain); /* likewise */
	return true;
}

/* #calls egress: shutdown */
static bool decrypt(struct wrap *w)
{
	uint8_t *space = w->context->means.space;
	ssize_t n;

	if (w->state != OPEN || w->outer_ended || buf_len(&w->plain))
		return false;
	n = tls_read(&w->tls, space, TLS_PLAIN_MAX);
	if (n == TLS_AGAIN && !w->outer_eof)
		return false;
	if (n > 0 && buf_add(&w->plain, space, (size_t)n) < 0) {
		break_off(w, "", "out of memory");
	} else if (n == TLS_EOF) {
		w->outer_ended = true;
		(void)shutdown(w->inner.fd, SHUT_WR); /* of a pair: does not fail */
	} else if (n <= 0) {
		break_off(w, "the proxy's TLS: ",
			n == TLS_FAILED ? tls_reason(&w->tls) : "the connection was cut off");
	}
	return true;
}

static bool encrypt(struct wrap *w)
{
	uint8_t *space = w->context->means.space;
	ssize_t n;

	if (w->state != OPEN || w->inner_ended || buf_len(&w->tls.out) || w->fills[1]++ >= FILLS)
		return false;
	n = recv(w->inner.fd, space, TLS_PLAIN_MAX, 0);
	if (n < 0 && errno == EAGAIN)
		return false;
	if (n > 0) {
		if (tls_write(&w->tls, space, (size_t)n) != n)
			break_off(w, "the proxy's TLS: ", tls_reason(&w->tls));
	} else {
		w->inner_ended = true;
		tls_end(&w->tls);
	}
	return true;
}

/* --- the handshake --- */

static void fail(struct wrap *w, const char *why)
{
	(void)send_out(w); /* an alert; its failure changes nothing */
	break_off(w, "the proxy's TLS: ", why);
}

/* #calls egress: socketpair(AF_UNIX) */
static int open_pair(struct wrap *w)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return -errno;
	if (loop_add(&w->context->loop, &w->inner, pair[0], EPOLLIN) < 0) {
		(void)close(pair[0]); /* nothing was sent */
		(void)close(pair[1]);
		return -ENOMEM;
	}
	w->state = OPEN;
	return pair[1];
}

/* Returns the owner's socket when it is there, -1 when it failed, else -EAGAIN. */
static int shake(struct wrap *w)
{
	int r = w->state == OVER ? TLS_FAILED : tls_handshake(&w->tls), fd;

	if (r == TLS_AGAIN && !w->outer_eof)
		return -EAGAIN;
	if (r != 1) {
		fail(w, r == TLS_FAILED && tls_reason(&w->tls)[0] ? tls_reason(&w->tls)
								  : "it ended the connection");
		return -1;
	}
	fd = open_pair(w);
	if (fd < 0)
		break_off(w, "", "no descriptor is free for the proxy's TLS");
	return fd < 0 ? -1 : fd;
}

/* --- turns --- */

static bool is_done(const struct wrap *w)
{
	return w->state == OVER ||
	       (w->inner_ended && !buf_len(&w->tls.out) && (w->outer_ended || w->left));
}

/* When both directions of a socket have ended it is not watched, because epoll would report it in
 * each turn. It may still have bytes; they are read when the other side can be written. */
static void watch(struct wrap *w)
{
	struct loop *l = &w->context->loop;
	bool reads = !w->inner_ended && !buf_len(&w->tls.out);

	loop_change(
		l, &w->outer, (may_fill(w) ? EPOLLIN : 0) | (buf_len(&w->tls.out) ? EPOLLOUT : 0));
	loop_change(l, &w->inner, (reads ? EPOLLIN : 0) | (buf_len(&w->plain) ? EPOLLOUT : 0));
}

static void run(struct wrap *w)
{
	bool changed = true, shook = w->state == SHAKES;
	int fd = -EAGAIN;

	w->fills[0] = w->fills[1] = 0;
	while (changed && w->state != OVER && fd == -EAGAIN) {
		changed = fill(w);
		if (w->state == SHAKES)
			fd = shake(w);
		changed |= send_in(w);
		changed |= decrypt(w);
		changed |= encrypt(w);
		changed |= send_out(w);
	}
	if (shook && w->state == OVER && fd == -EAGAIN)
		fd = -1; /* it could not be sent to */
	if (w->left && is_done(w)) {
		free_wrap(w);
		return;
	}
	if (is_done(w))
		stop(w);
	else
		watch(w);
	if (fd != -EAGAIN)
		w->ready(w->arg, fd); /* may leave it */
}

static void on_outer(void *arg, uint32_t events)
{
	struct wrap *w = arg;

	if (events & (EPOLLHUP | EPOLLERR) && !may_fill(w))
		loop_remove(&w->context->loop, &w->outer);
	run(w);
}

static void on_inner(void *arg, uint32_t events)
{
	struct wrap *w = arg;

	if (events & (EPOLLHUP | EPOLLERR) && w->inner_ended)
		loop_remove(&w->context->loop, &w->inner);
	run(w);
}

static void on_timer(void *arg)
{
	struct wrap *w = arg;

	if (w->left)
		free_wrap(w);
	else
		run(w);
}

/* --- begin --- */

struct wrap *wrap_start(struct context *c, int fd, struct tls_setup *setup, const char *name,
	void (*ready)(void *arg, int fd), void *arg)
{
	struct wrap *w = calloc(1, sizeof(*w));

	if (!w) {
		(void)close(fd); /* nothing was sent */
		return NULL;
	}
	*w = (struct wrap){.context = c, .ready = ready, .arg = arg};
	w->outer = (struct loop_watch){.on = on_outer, .arg = w, .fd = fd};
	w->inner = (struct loop_watch){.on = on_inner, .arg = w, .fd = -1};
	w->timer = (struct loop_timer){.on = on_timer, .arg = w};
	buf_init_secret(&w->plain, TLS_PLAIN_MAX);
	if (tls_connect(&w->tls, setup, name, (struct tls_protocols){0}) < 0 ||
		loop_add(&c->loop, &w->outer, fd, EPOLLIN) < 0) {
		free_wrap(w);
		return NULL;
	}
	loop_start(&c->loop, &w->timer, 0);
	return w;
}

const char *wrap_reason(const struct wrap *w)
{
	return w->why;
}

void wrap_leave(struct wrap *w, bool reset)
{
	static const struct linger now = {.l_onoff = 1};
	struct context *c;

	if (!w)
		return;
	c = w->context;
	if (reset && w->outer.fd >= 0)
		(void)setsockopt(w->outer.fd, SOL_SOCKET, SO_LINGER, &now,
			sizeof(now)); /* without it, it ends in order */
	if (reset || w->state != OPEN || is_done(w) || c->wraps_left_count >= WRAPS_LEFT_MAX) {
		free_wrap(w);
		return;
	}
	w->left = true;
	w->next = c->wraps_left;
	if (w->next)
		w->next->previous = w;
	c->wraps_left = w;
	c->wraps_left_count++;
	loop_start(&c->loop, &w->timer, LEFT_MS);
}

void wraps_free(struct context *c)
{
	while (c->wraps_left)
		free_wrap(c->wraps_left);
}
