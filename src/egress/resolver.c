#include "egress/resolver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "dialler/broker.h"

enum {
	WAIT_MS = 1500, /* for one server, before the next is asked */
	ASKS_MIN = 3,	/* tries in all, at least; the last of each server is by TCP */
	TTL_MAX_S = 300,
	TTL_MISSING_S = 5, /* of a name that does not exist */
	TCP_HEADER = 2,
};

struct resolver_query {
	struct resolver *resolver;
	struct resolver_ask *asks; /* who waits */
	struct loop_watch watch;
	struct loop_timer timer;
	unsigned tries;
	bool tcp, connected;
	struct buf query, in; /* in: of TCP */
	struct resolver_query *next;
	char name[DNS_NAME_BYTES];
};

struct known {
	uint64_t until_ns;
	struct dns_answer answer;
	char name[DNS_NAME_BYTES];
};

struct resolver {
	struct loop *loop;
	resolver_may *may;
	void *arg; /* of may */
	struct policy_server servers[POLICY_DNS_MAX];
	unsigned server_count;
	struct resolver_query *queries;
	unsigned query_count;
	struct known *known; /* made when needed */
	unsigned known_next;
};

struct resolver *resolver_make(struct loop *l, resolver_may *may, void *arg)
{
	struct resolver *r = calloc(1, sizeof(*r));

	if (r)
		*r = (struct resolver){.loop = l, .may = may, .arg = arg};
	return r;
}

/* --- what is known --- */

static bool recall(const struct resolver *r, const char *name, struct dns_answer *ret)
{
	for (unsigned i = 0; r->known && i < RESOLVER_CACHE_MAX; i++)
		if (r->known[i].until_ns > r->loop->now_ns && strcmp(r->known[i].name, name) == 0) {
			*ret = r->known[i].answer;
			return true;
		}
	return false;
}

static void remember(struct resolver *r, const char *name, const struct dns_answer *a)
{
	uint32_t ttl = a->count == 0 ? TTL_MISSING_S : a->ttl_s < TTL_MAX_S ? a->ttl_s : TTL_MAX_S;
	struct known *k;

	if (!r->known)
		r->known = calloc(RESOLVER_CACHE_MAX, sizeof(r->known[0]));
	if (!r->known || ttl == 0)
		return;
	k = &r->known[r->known_next++ % RESOLVER_CACHE_MAX];
	k->until_ns = r->loop->now_ns + ttl * NS_PER_S;
	k->answer = *a;
	memcpy(k->name, name, strlen(name) + 1);
}

static void forget_all(struct resolver *r)
{
	free(r->known);
	r->known = NULL;
}

/* --- one try --- */

static void stop_try(struct resolver_query *q)
{
	loop_stop(q->resolver->loop, &q->timer);
	if (q->watch.added) {
		loop_remove(q->resolver->loop, &q->watch);
		(void)close(q->watch.fd); /* ours */
	}
	buf_done(&q->query);
	buf_done(&q->in);
	q->connected = false;
}

/* #calls egress: getrandom */
static int write_query(struct resolver_query *q)
{
	struct {
		uint16_t id;
		uint32_t upper;
	} random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	q->query = (struct buf)BUF_INIT(DNS_UDP_BYTES);
	return dns_put_query(&q->query, random.id, random.upper, q->name);
}

/* Makes a socket that receives from the server only, with a random port from the kernel.
 *
 * #calls egress: close */
static int open_socket(struct resolver_query *q, const struct policy_server *s)
{
	struct loop *l = q->resolver->loop;
	_cleanup_close_ int fd = broker_dial(l->broker_fd, !q->tcp, s->address, s->port);
	int r;

	if (fd < 0)
		return fd;
	r = loop_add(l, &q->watch, fd, q->tcp ? EPOLLOUT : EPOLLIN);
	if (r == 0)
		(void)TAKE_FD(fd); /* the watch has it */
	return r;
}

static int begin_try(struct resolver_query *q)
{
	struct resolver *r = q->resolver;
	const struct policy_server *s =
		r->server_count ? &r->servers[q->tries % r->server_count] : NULL;
	int e = s && r->may(r->arg, s->address) ? write_query(q) : -ESRCH;

	e = e ? e : open_socket(q, s);
	if (e == 0 && !q->tcp)
		e = fd_send_peer(q->watch.fd, buf_head(&q->query), buf_len(&q->query)) < 0 ? -errno
											   : 0;
	if (e < 0)
		return e;
	loop_start(r->loop, &q->timer, WAIT_MS);
	return 0;
}

/* --- queries --- */

static void unlink_query(struct resolver_query *q)
{
	struct resolver_query **p = &q->resolver->queries;

	stop_try(q);
	while (*p != q)
		p = &(*p)->next;
	*p = q->next;
	q->resolver->query_count--;
}

/* A callback may ask for the same name again, or cancel others that wait for this answer. */
static void complete(struct resolver_query *q, const struct dns_answer *a)
{
	unlink_query(q);
	while (q->asks) {
		struct resolver_ask *ask = q->asks;

		q->asks = ask->next;
		ask->query = NULL;
		ask->done(ask->arg, a);
	}
	free(q);
}

static void try_next(struct resolver_query *q);

static void fail(struct resolver_query *q)
{
	static const struct dns_answer failed = {.rcode = DNS_SERVFAIL};

	complete(q, &failed);
}

static unsigned tries_max(const struct resolver *r)
{
	return r->server_count < ASKS_MIN ? ASKS_MIN : r->server_count;
}

/* The last try is by TCP: it also reaches servers that do not repeat upper case. */
static void try_next(struct resolver_query *q)
{
	for (;;) {
		stop_try(q);
		if (++q->tries >= tries_max(q->resolver) || q->resolver->server_count == 0) {
			fail(q);
			return;
		}
		q->tcp = q->tries + 1 == tries_max(q->resolver);
		if (begin_try(q) == 0)
			return;
	}
}

static void on_timeout(void *arg)
{
	try_next(arg);
}

/* By TCP to the same server: the answer did not fit. */
static void try_tcp(struct resolver_query *q)
{
	bool was = q->tcp;

	stop_try(q);
	q->tcp = true;
	if (was || begin_try(q) < 0)
		try_next(q);
}

static void take_answer(struct resolver_query *q, const void *data, size_t n)
{
	struct resolver *r = q->resolver;
	struct dns_answer a;
	bool cut;

	if (dns_get_answer(data, n, buf_head(&q->query), buf_len(&q->query), &a, &cut) < 0) {
		if (q->tcp)
			try_next(q); /* by UDP, the right one may still come */
		return;
	}
	if (cut) {
		try_tcp(q);
		return;
	}
	if (a.rcode != DNS_NOERROR && a.rcode != DNS_NXDOMAIN) {
		try_next(q);
		return;
	}
	remember(r, q->name, &a);
	complete(q, &a);
}

static int send_by_tcp(struct resolver_query *q)
{
	struct buf b = BUF_INIT(TCP_HEADER + DNS_UDP_BYTES);
	size_t n = buf_len(&q->query);
	const uint8_t head[TCP_HEADER] = {(uint8_t)(n >> 8), (uint8_t)n};
	int err = 0, r;
	socklen_t len = sizeof(err);

	if (getsockopt(q->watch.fd, SOL_SOCKET, SO_ERROR, &err, &len) < 0 || err)
		return -ECONNREFUSED;
	r = buf_add(&b, head, sizeof(head));
	r = r ? r : buf_add(&b, buf_head(&q->query), n);
	if (r == 0 && fd_send_peer(q->watch.fd, buf_head(&b), buf_len(&b)) != (ssize_t)buf_len(&b))
		r = -EIO;
	buf_done(&b);
	q->connected = true;
	q->in = (struct buf)BUF_INIT(TCP_HEADER + DNS_MESSAGE_MAX);
	loop_change(q->resolver->loop, &q->watch, EPOLLIN);
	return r;
}

static void read_by_tcp(struct resolver_query *q)
{
	uint8_t *p = buf_reserve(&q->in, 1024);
	ssize_t n = p ? recv(q->watch.fd, p, 1024, 0) : 0;
	size_t bytes;

	if (n < 0 && errno == EAGAIN)
		return;
	if (n <= 0) {
		try_next(q);
		return;
	}
	buf_commit(&q->in, (size_t)n);
	p = q->in.data + q->in.start;
	if (buf_len(&q->in) < TCP_HEADER)
		return;
	bytes = (size_t)p[0] << 8 | p[1];
	if (buf_len(&q->in) - TCP_HEADER >= bytes)
		take_answer(q, p + TCP_HEADER, bytes);
}

/* #calls egress: recvfrom
 * #calls egress: getsockopt */
static void on_answer(void *arg, uint32_t events)
{
	struct resolver_query *q = arg;
	uint8_t data[DNS_UDP_BYTES * 2];
	ssize_t n;

	(void)events; /* errors show when it is read */
	if (q->tcp && !q->connected) {
		if (send_by_tcp(q) < 0)
			try_next(q);
	} else if (q->tcp) {
		read_by_tcp(q);
	} else {
		n = recv(q->watch.fd, data, sizeof(data), 0);
		if (n >= 0)
			take_answer(q, data, (size_t)n);
		else if (errno != EAGAIN)
			try_next(q); /* nobody is there */
	}
}

static struct resolver_query *find(struct resolver *r, const char *name)
{
	struct resolver_query *q = r->queries;

	while (q && strcmp(q->name, name) != 0)
		q = q->next;
	return q;
}

/* NULL when there are too many, or none goes out. */
static struct resolver_query *make_query(struct resolver *r, const char *name)
{
	struct resolver_query *q;

	if (r->server_count == 0 || r->query_count == RESOLVER_QUERIES_MAX ||
		!(q = calloc(1, sizeof(*q))))
		return NULL;
	*q = (struct resolver_query){.resolver = r, .next = r->queries};
	memcpy(q->name, name, strnlen(name, sizeof(q->name) - 1));
	q->watch.on = on_answer;
	q->timer.on = on_timeout;
	q->watch.arg = q->timer.arg = q;
	r->queries = q;
	r->query_count++;
	if (begin_try(q) == 0)
		return q;
	stop_try(q);
	loop_start(r->loop, &q->timer, 0); /* the next try, when the caller has returned */
	return q;
}

bool resolver_ask(
	struct resolver *r, struct resolver_ask *ask, const char *name, struct dns_answer *ret)
{
	struct resolver_query *q;

	if (recall(r, name, ret))
		return true;
	q = find(r, name);
	if (!q)
		q = make_query(r, name);
	if (!q) {
		*ret = (struct dns_answer){.rcode = DNS_SERVFAIL};
		return true;
	}
	ask->query = q;
	ask->next = q->asks;
	q->asks = ask;
	return false;
}

void resolver_cancel(struct resolver_ask *ask)
{
	struct resolver_ask **p;

	if (!ask->query)
		return;
	for (p = &ask->query->asks; *p && *p != ask;)
		p = &(*p)->next;
	if (*p)
		*p = ask->next;
	ask->query = NULL;
}

void resolver_set(struct resolver *r, const struct policy_server *servers, unsigned count)
{
	bool same = count == r->server_count &&
		    memcmp(servers, r->servers, count * sizeof(servers[0])) == 0;

	if (same)
		return;
	memcpy(r->servers, servers, count * sizeof(servers[0]));
	r->server_count = count;
	forget_all(r);
}

void resolver_free(struct resolver *r)
{
	if (!r)
		return;
	while (r->queries) {
		struct resolver_query *q = r->queries;

		unlink_query(q);
		free(q);
	}
	forget_all(r);
	free(r);
}
