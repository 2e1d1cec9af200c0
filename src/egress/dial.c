#include "egress/dial.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "dialler/broker.h"

enum {
	KEEP_IDLE_S = 60, /* below what common NATs and load balancers forget */
	KEEP_INTERVAL_S = 30,
	KEEP_COUNT = 5,
};

/* What a program gets for an error of connect(2). */
static int error_of(int err)
{
	switch (err) {
	case ECONNREFUSED:
	case ENETUNREACH:
	case ETIMEDOUT:
		return err;
	case ECONNRESET: /* while it connects */
		return ECONNREFUSED;
	default: /* EPERM of a firewall, EADDRNOTAVAIL, no descriptors */
		return EHOSTUNREACH;
	}
}

/* #calls egress: setsockopt */
static void set_options(int fd)
{
	static const struct {
		int level, name, value;
	} options[] = {
		{IPPROTO_TCP, TCP_NODELAY, 1}, /* the guest's kernel has waited already */
		{SOL_SOCKET, SO_KEEPALIVE, 1},
		{IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE_S},
		{IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTERVAL_S},
		{IPPROTO_TCP, TCP_KEEPCNT, KEEP_COUNT},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(options); i++)
		(void)setsockopt(fd, options[i].level, options[i].name, &options[i].value,
			sizeof(options[i].value)); /* a flow without them is a flow */
}

static int try_address(struct dial *d)
{
	_cleanup_close_ int fd =
		broker_dial(d->loop->broker_fd, false, d->addresses[d->at], d->port);
	int r;

	if (fd < 0)
		return fd;
	set_options(fd);
	r = loop_add(d->loop, &d->watch, fd, EPOLLOUT);
	if (r < 0)
		return r;
	(void)TAKE_FD(fd); /* the watch has it */
	loop_start(d->loop, &d->timer, d->ms);
	return 0;
}

static int take_fd(struct dial *d)
{
	loop_stop(d->loop, &d->timer);
	if (!d->watch.added)
		return -1;
	loop_remove(d->loop, &d->watch);
	return d->watch.fd;
}

static void next_address(struct dial *d, int err)
{
	cleanup_close_p(&(int){take_fd(d)});
	while (++d->at < d->count) {
		err = -try_address(d);
		if (err == 0)
			return;
	}
	d->done(d->arg, -error_of(err), 0);
}

static void on_connected(void *arg, uint32_t events)
{
	struct dial *d = arg;
	int err = 0;
	socklen_t len = sizeof(err);

	(void)events; /* the socket's error says all */
	if (getsockopt(d->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0)
		err = errno;
	if (err)
		next_address(d, err);
	else
		d->done(d->arg, take_fd(d), d->addresses[d->at]);
}

static void on_timeout(void *arg)
{
	next_address(arg, ETIMEDOUT);
}

/* The first try, when the caller has returned. */
static void on_start(void *arg)
{
	struct dial *d = arg;
	int r;

	d->timer.on = on_timeout;
	r = try_address(d);
	if (r < 0)
		next_address(d, -r);
}

void dial_start(struct dial *d, struct loop *l, const uint32_t *addresses, unsigned count,
	uint16_t port, unsigned ms)
{
	d->loop = l;
	d->count = count;
	d->at = 0;
	d->port = port;
	d->ms = ms / count;
	memcpy(d->addresses, addresses, count * sizeof(addresses[0]));
	d->watch.on = on_connected;
	d->timer.on = on_start;
	d->watch.arg = d->timer.arg = d;
	loop_start(l, &d->timer, 0);
}

void dial_stop(struct dial *d)
{
	if (d->loop)
		cleanup_close_p(&(int){take_fd(d)});
}
