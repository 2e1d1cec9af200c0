#include "egress/tunnel.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/dial.h"
#include "egress/proxy.h"
#include "egress/socks.h"
#include "egress/wrap.h"

/* hop: how many proxies are connected. At 0 the first one is resolved and dialled. Later, `socks`
 * asks each proxy for the next one, whose name is resolved first. */
struct tunnel {
	struct context *context;
	struct proxy_chain *chain;
	const struct target *target;
	unsigned hop;
	uint32_t addresses[DNS_ADDRESSES_MAX]; /* of the hop that is next */
	unsigned count;
	uint16_t port;
	struct resolver_ask ask;
	struct dial dial;
	struct socks socks;
	struct buf out;
	struct loop_watch watch; /* the first proxy's, once it is dialled */
	struct wrap *wrap;	 /* TLS with the last one that was reached, or NULL */
	struct loop_timer timer;
	unsigned ms;
	int result; /* of a failure, until the timer tells it */
	const char *why;
	void (*done)(void *arg, int fd, const char *why);
	void *arg;
};

static void on_failed(void *arg)
{
	struct tunnel *t = arg;

	t->done(t->arg, t->result, t->why);
}

/* Tells it when the caller has returned. */
static void fail(struct tunnel *t, int r, const char *why)
{
	loop_remove(&t->context->loop, &t->watch);
	t->result = r;
	t->why = why;
	t->timer.on = on_failed;
	loop_start(&t->context->loop, &t->timer, 0);
}

static void on_late(void *arg)
{
	fail(arg, -EHOSTUNREACH, "the proxy does not answer");
}

/* --- speaking with a proxy --- */

static void next_hop(struct tunnel *t);
static void reached(struct tunnel *t);

static void connected(struct tunnel *t)
{
	int fd = t->watch.fd;

	loop_stop(&t->context->loop, &t->timer);
	loop_remove(&t->context->loop, &t->watch);
	t->watch.fd = -1;
	t->done(t->arg, fd, NULL);
}

static void flush(struct tunnel *t)
{
	ssize_t n = buf_len(&t->out)
			    ? fd_send_peer(t->watch.fd, buf_head(&t->out), buf_len(&t->out))
			    : 0;

	if (n > 0)
		buf_consume(&t->out, (size_t)n);
	/* an error is an event of its own */
	loop_change(&t->context->loop, &t->watch, EPOLLIN | (buf_len(&t->out) ? EPOLLOUT : 0));
}

static void refused(struct tunnel *t, int r)
{
	if (r == -EPROTO || r == -EACCES || r == -ENOMEM)
		fail(t, -EHOSTUNREACH,
			r == -EPROTO   ? "the proxy does not speak SOCKS5"
			: r == -EACCES ? "the proxy wants another login"
				       : "out of memory");
	else
		fail(t, r, t->hop < t->chain->count ? "the proxy does not reach the next" : NULL);
}

static void on_proxy(void *arg, uint32_t events)
{
	struct tunnel *t = arg;
	ssize_t n = 1;
	int r = 0;

	(void)events; /* what is read says all */
	while (r == 0 && t->socks.state != SOCKS_CONNECTED) {
		n = recv(t->watch.fd, t->socks.in + t->socks.in_bytes, socks_wants(&t->socks), 0);
		if (n <= 0)
			break;
		r = socks_take(&t->socks, (size_t)n, &t->out);
	}
	if (r < 0) {
		refused(t, r);
	} else if (n == 0 || (n < 0 && errno != EAGAIN)) {
		fail(t, -EHOSTUNREACH, "the proxy closes the connection");
	} else if (t->socks.state == SOCKS_CONNECTED) {
		t->hop++;
		reached(t);
	} else {
		flush(t);
	}
}

static void speak(struct tunnel *t, const char *name, uint32_t address, uint16_t port)
{
	const struct proxy *p = &t->chain->hops[t->hop - 1];

	if (socks_begin(&t->socks, p, name, address, port, &t->out) < 0)
		fail(t, -EHOSTUNREACH, "out of memory");
	else
		flush(t);
}

/* --- reaching a proxy --- */

/* Returns false if the socket cannot be watched; then the tunnel has failed. */
static bool take_socket(struct tunnel *t, int fd)
{
	t->watch.on = on_proxy;
	t->watch.arg = t;
	if (loop_add(&t->context->loop, &t->watch, fd, EPOLLIN) == 0)
		return true;
	(void)close(fd); /* a socket */
	fail(t, -EHOSTUNREACH, "out of memory");
	return false;
}

static void on_dialled(void *arg, int fd, uint32_t address)
{
	struct tunnel *t = arg;

	(void)address; /* any is as good */
	if (fd < 0) {
		fail(t, -EHOSTUNREACH, "the proxy cannot be reached");
	} else if (take_socket(t, fd)) {
		t->hop = 1;
		reached(t);
	}
}

static void on_wrapped(void *arg, int fd)
{
	struct tunnel *t = arg;

	if (fd < 0)
		fail(t, -EHOSTUNREACH, wrap_reason(t->wrap));
	else if (take_socket(t, fd))
		next_hop(t);
}

/* TLS with the proxy that was reached last. */
static void begin_tls(struct tunnel *t, const struct proxy *p)
{
	struct context *c = t->context;
	struct tls_setup *setup = proxy_trust_get(&c->proxy_trust, t->chain, c->root_fds);
	char address[NET_TEXT_BYTES];
	const char *name = p->tls_name ? p->tls_name
			   : p->host   ? p->host
				       : net_format(p->address, address);
	int fd = t->watch.fd;

	if (setup) {
		loop_remove(&c->loop, &t->watch);
		t->watch.fd = -1;
		t->wrap = wrap_start(c, fd, setup, name, on_wrapped, t);
	}
	if (!t->wrap)
		fail(t, -EHOSTUNREACH, "out of memory");
}

static void reached(struct tunnel *t)
{
	const struct proxy *p = &t->chain->hops[t->hop - 1];

	if (t->hop <= t->chain->count && p->tls)
		begin_tls(t, p);
	else
		next_hop(t);
}

static void reach(struct tunnel *t)
{
	if (t->hop) {
		speak(t, NULL, t->addresses[0], t->port);
		return;
	}
	t->dial.done = on_dialled;
	t->dial.arg = t;
	dial_start(&t->dial, &t->context->loop, t->addresses, t->count, t->port, t->ms);
}

static void add(struct tunnel *t, const struct proxy *p, uint32_t address)
{
	struct context *c = t->context;
	const char *why;

	if (!p->trusted &&
		(!target_place_open(c, address, &why) ||
			!policy_judge_first(c->policy, p->layers, p->host, address, p->port).allow))
		return;
	t->addresses[t->count++] = address;
}

static void on_resolved(void *arg, const struct dns_answer *a)
{
	struct tunnel *t = arg;

	for (unsigned i = 0; i < a->count; i++)
		add(t, &t->chain->hops[t->hop], a->addresses[i]);
	if (t->count)
		reach(t);
	else
		fail(t, -EHOSTUNREACH,
			a->count ? "the proxy is where nothing may be dialled"
				 : "the proxy's name has no address");
}

static void resolve(struct tunnel *t, const struct proxy *p)
{
	const struct policy_host *h = p->host ? policy_host(t->context->policy, p->host) : NULL;
	struct dns_answer a = {.count = 1, .addresses = {p->address}};

	t->count = 0;
	t->port = h && h->port ? h->port : p->port;
	if (h) {
		t->addresses[t->count++] = h->address;
		reach(t);
		return;
	}
	t->ask = (struct resolver_ask){.done = on_resolved, .arg = t};
	if (!p->host || resolver_ask(t->context->resolver, &t->ask, p->host, &a))
		on_resolved(t, &a);
}

static void next_hop(struct tunnel *t)
{
	const struct target *to = t->target;

	if (t->hop < t->chain->count)
		resolve(t, &t->chain->hops[t->hop]);
	else if (t->hop == t->chain->count)
		speak(t, to->name[0] ? target_server(to) : NULL, to->addresses[0], to->dial_port);
	else
		connected(t);
}

struct tunnel *tunnel_start(struct context *c, const struct target *to, unsigned ms,
	void (*done)(void *arg, int fd, const char *why), void *arg)
{
	struct tunnel *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->context = c;
	t->chain = proxy_chain_ref(c->policy->proxies);
	t->target = to;
	t->ms = ms;
	t->done = done;
	t->arg = arg;
	t->watch.fd = -1;
	t->timer.on = on_late;
	t->timer.arg = t;
	buf_init_secret(&t->out, SOCKS_OUT_MAX); /* a password */
	loop_start(&c->loop, &t->timer, ms);
	next_hop(t);
	return t;
}

struct wrap *tunnel_take_wrap(struct tunnel *t)
{
	return TAKE_PTR(t->wrap);
}

void tunnel_free(struct tunnel *t)
{
	if (!t)
		return;
	wrap_leave(t->wrap, true);
	loop_stop(&t->context->loop, &t->timer);
	resolver_cancel(&t->ask);
	dial_stop(&t->dial);
	loop_remove(&t->context->loop, &t->watch);
	cleanup_close_p(&t->watch.fd);
	buf_done(&t->out);
	proxy_chain_unref(t->chain);
	free(t);
}
