#include "egress/datagrams.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "egress/answers.h"
#include "dialler/broker.h"
#include "egress/counts.h"
#include "egress/lease.h"
#include "egress/record.h"
#include "egress/target.h"
#include "proto/egress_wire.h"

enum {
	QUESTIONS_MAX = 64, /* under way */
	FIRST_MAX = 1500,   /* of a datagram that waits for its name to be resolved */
	RECORD_BYTES = EGRESS_DATAGRAM_HEADER + EGRESS_DATAGRAM_MAX,
	OUT_MAX = 256 << 10,
	SWEEP_MS = 1000,
	ROUNDS = 16, /* datagrams of a peer in a turn */
};

/* A pair of ends. It has no socket if it is denied, has failed, or is not resolved yet. */
struct peer {
	struct datagrams *owner;
	struct peer *newer, *older;
	struct egress_endpoint guest, remote;
	struct target target;
	struct resolver_ask ask;
	struct loop_watch watch;
	uint32_t dialled;
	uint64_t used_ns, begin_ms, up, down, told_up, told_down;
	const char *verdict;
	size_t first_bytes;
	uint8_t *first; /* the datagram that waits, or NULL */
};

struct question {
	struct datagrams *owner; /* NULL: free */
	struct egress_endpoint guest, remote;
	struct answers_ask ask;
};

struct datagrams {
	struct context *context;
	struct loop_watch stream;
	struct loop_timer sweep;
	struct buf in, out;
	struct peer *newest, *oldest;
	unsigned peers;
	struct question *questions; /* QUESTIONS_MAX, while there is a stream */
};

/* --- to the guest --- */

static void flush(struct datagrams *d)
{
	while (buf_len(&d->out)) {
		ssize_t n = fd_send_peer(d->stream.fd, buf_head(&d->out), buf_len(&d->out));

		if (n < 0)
			break; /* the stream's end is an event */
		buf_consume(&d->out, (size_t)n);
	}
	if (!buf_len(&d->out))
		buf_done(&d->out); /* gives the memory back */
	loop_change(&d->context->loop, &d->stream, buf_len(&d->out) ? EPOLLIN | EPOLLOUT : EPOLLIN);
}

/* Drops it when the guest reads too slowly. */
static void give(struct datagrams *d, const struct egress_endpoint *guest,
	const struct egress_endpoint *remote, const void *data, size_t n)
{
	struct egress_datagram g = {.guest = *guest, .remote = *remote, .data = data, .len = n};

	if (egress_put_datagram(&d->out, &g) == 0)
		flush(d);
}

/* --- DNS --- */

static void answer(struct question *q, const struct dns_answer *a)
{
	struct buf b = BUF_INIT(DNS_UDP_BYTES + 512);

	if (dns_put_answer(&b, &q->ask.question, a, q->ask.question.room) == 0)
		give(q->owner, &q->guest, &q->remote, buf_head(&b), buf_len(&b));
	buf_done(&b);
	q->owner = NULL;
}

static void on_answer(void *arg, const struct dns_answer *a)
{
	answer(arg, a);
}

static void ask(struct datagrams *d, const struct egress_datagram *g)
{
	struct question *q = d->questions, *end = q + QUESTIONS_MAX;
	struct dns_answer a;

	while (q < end && q->owner)
		q++;
	if (q == end)
		return; /* the program asks again */
	*q = (struct question){.owner = d, .guest = g->guest, .remote = g->remote};
	q->ask.done = on_answer;
	q->ask.arg = q;
	switch (answers_begin(d->context, &q->ask, g->data, g->len, &a)) {
	case ANSWERS_NOW:
		answer(q, &a);
		break;
	case ANSWERS_LATER:
		break;
	case ANSWERS_NONE:
		q->owner = NULL;
		break;
	}
}

/* --- pairs --- */

static void unlink_peer(struct peer *p)
{
	*(p->newer ? &p->newer->older : &p->owner->newest) = p->older;
	*(p->older ? &p->older->newer : &p->owner->oldest) = p->newer;
}

static void link_newest(struct peer *p)
{
	struct datagrams *d = p->owner;

	p->newer = NULL;
	p->older = d->newest;
	*(p->older ? &p->older->newer : &d->oldest) = p;
	d->newest = p;
}

static void record(struct peer *p)
{
	struct context *c = p->owner->context;

	counts_bytes(c, p->up, &p->told_up, p->down, &p->told_down);
	record_send(c, &(struct record){.proto = "udp",
			       .verdict = p->verdict,
			       .rule = p->target.rule[0] ? p->target.rule : NULL,
			       .reason = p->target.reason,
			       .noted = p->target.noted,
			       .name = p->target.name,
			       .address = p->dialled ? p->dialled : p->target.asked,
			       .port = p->target.port,
			       .err = p->target.err,
			       .generation = c->policy ? c->policy->generation : 0,
			       .begin_ms = p->begin_ms,
			       .up = p->up,
			       .down = p->down});
}

static void free_peer(struct peer *p)
{
	struct context *c = p->owner->context;

	if (strcmp(p->verdict, "denied") != 0) /* told already */
		record(p);
	resolver_cancel(&p->ask);
	if (p->watch.added) {
		loop_remove(&c->loop, &p->watch);
		(void)close(p->watch.fd); /* a socket */
	}
	free(p->first);
	unlink_peer(p);
	p->owner->peers--;
	c->active--;
	c->last_active_ns = c->loop.now_ns;
	free(p);
	lease_left(c);
}

static void on_datagram(void *arg, uint32_t events)
{
	struct peer *p = arg;
	struct context *c = p->owner->context;
	ssize_t n = 0;

	/* errors are those of datagrams sent before: they are lost, as on a network */
	(void)events;
	for (unsigned i = 0; i < ROUNDS && n >= 0; i++) {
		n = recv(p->watch.fd, c->means.space, sizeof(c->means.space), 0);
		if (n < 0 || n > EGRESS_DATAGRAM_MAX)
			break;
		p->used_ns = c->loop.now_ns;
		p->down += (uint64_t)n;
		give(p->owner, &p->guest, &p->remote, c->means.space, (size_t)n);
	}
}

static void deny_peer(struct peer *p, const char *verdict)
{
	p->verdict = verdict;
	if (strcmp(verdict, "denied") == 0)
		record(p);
	free(p->first);
	p->first = NULL;
}

static int open_socket(struct peer *p)
{
	struct loop *l = &p->owner->context->loop;
	_cleanup_close_ int fd =
		broker_dial(l->broker_fd, true, p->target.addresses[0], p->target.dial_port);
	int r;

	if (fd < 0)
		return fd;
	p->watch.on = on_datagram;
	p->watch.arg = p;
	r = loop_add(l, &p->watch, fd, EPOLLIN);
	if (r == 0)
		(void)TAKE_FD(fd); /* the watch has it */
	return r;
}

/* Whether a datagram begins a QUIC connection (RFC 9000, 17.2; RFC 9369; drafts). Its hello is
 * encrypted, so it may be for another name than the dialled one. */
static bool is_quic(const uint8_t *data, size_t n)
{
	uint32_t version;

	if (n < 5 || (data[0] & 0xc0) != 0xc0)
		return false;
	memcpy(&version, data + 1, sizeof(version));
	version = ntohl(version);
	return version == 1 || version == 0x6b3343cf || version >> 8 == 0xff0000;
}

static void refuse_quic(struct peer *p)
{
	loop_remove(&p->owner->context->loop, &p->watch);
	(void)close(p->watch.fd); /* a socket */
	target_deny(&p->target, "tls", "QUIC may be for another name, use TLS over TCP");
	deny_peer(p, "denied");
}

static void send_out(struct peer *p, const void *data, size_t n)
{
	p->used_ns = p->owner->context->loop.now_ns;
	if (p->watch.added && p->target.name[0] && is_quic(data, n))
		refuse_quic(p);
	else if (p->watch.added && fd_send_peer(p->watch.fd, data, n) >= 0)
		p->up += n;
}

static void go(struct peer *p, enum target_step step)
{
	if (step == TARGET_DIAL && target_is_proxied(p->owner->context, &p->target)) {
		target_deny(&p->target, "proxy", "no proxy takes datagrams");
		step = TARGET_DENIED;
	}
	if (step == TARGET_ASK) {
		target_deny(&p->target, "ask", "a rule asks a person, and datagrams cannot wait");
		step = TARGET_DENIED;
	}
	if (step == TARGET_BETWEEN) {
		target_deny(&p->target, "place", "other sandboxes take no datagrams");
		step = TARGET_DENIED;
	}
	if (step != TARGET_DIAL) {
		deny_peer(p, step == TARGET_DENIED ? "denied" : "failed");
		return;
	}
	p->dialled = p->target.addresses[0];
	if (open_socket(p) < 0) {
		p->target.err = EHOSTUNREACH;
		deny_peer(p, "failed");
		return;
	}
	p->verdict = "allowed";
	if (p->first)
		send_out(p, p->first, p->first_bytes);
	free(p->first);
	p->first = NULL;
}

static void on_resolved(void *arg, const struct dns_answer *a)
{
	struct peer *p = arg;

	go(p, target_resolved(p->owner->context, &p->target, a));
}

static void begin(struct peer *p, const struct egress_datagram *g)
{
	struct context *c = p->owner->context;
	enum target_step step =
		target_begin(c, net_get(g->remote.address), g->remote.port, true, &p->target);
	struct dns_answer a;

	if (g->len <= FIRST_MAX && (p->first = malloc(g->len ? g->len : 1))) {
		p->first_bytes = g->len;
		memcpy(p->first, g->data, g->len);
	}
	p->ask = (struct resolver_ask){.done = on_resolved, .arg = p};
	if (step != TARGET_RESOLVE) {
		go(p, step);
		if (!p->up && p->watch.added)
			send_out(p, g->data, g->len); /* it was larger than what may wait */
	} else if (resolver_ask(c->resolver, &p->ask, p->target.name, &a)) {
		on_resolved(p, &a);
	}
}

static bool same_end(const struct egress_endpoint *a, const struct egress_endpoint *b)
{
	return a->port == b->port && memcmp(a->address, b->address, sizeof(a->address)) == 0;
}

static struct peer *find(struct datagrams *d, const struct egress_datagram *g)
{
	struct peer *p = d->newest;

	while (p && !(same_end(&p->guest, &g->guest) && same_end(&p->remote, &g->remote)))
		p = p->older;
	return p;
}

/* One for which the daemon has no room. A program sends again what is lost while it is asked. */
static void refuse_peer(struct context *c, const struct egress_datagram *g)
{
	const struct record r = {.proto = "udp",
		.verdict = "denied",
		.rule = lease_rule(c),
		.reason = lease_reason(c),
		.address = net_get(g->remote.address),
		.port = g->remote.port,
		.generation = c->policy->generation,
		.begin_ms = record_now_ms()};

	record_send(c, &r);
}

static bool has_room(struct datagrams *d, const struct egress_datagram *g)
{
	struct context *c = d->context;
	enum lease_verdict verdict;

	while (d->peers >= c->policy->limits.datagram_peers)
		free_peer(d->oldest);
	verdict = lease_look(c);
	if (verdict == LEASE_REFUSED)
		refuse_peer(c, g);
	return verdict == LEASE_ROOM;
}

static void make_peer(struct datagrams *d, const struct egress_datagram *g)
{
	struct context *c = d->context;
	struct peer *p;

	if (!c->policy || !c->policy->limits.datagram_peers ||
		!rate_take(&c->flow_rate, c->policy->limits.flows_per_second, c->loop.now_ns) ||
		!has_room(d, g))
		return;
	p = calloc(1, sizeof(*p));
	if (!p)
		return;
	*p = (struct peer){.owner = d,
		.guest = g->guest,
		.remote = g->remote,
		.verdict = "failed",
		.begin_ms = record_now_ms(),
		.used_ns = c->loop.now_ns};
	link_newest(p);
	d->peers++;
	c->active++;
	begin(p, g);
}

static void take(struct datagrams *d, const struct egress_datagram *g)
{
	struct peer *p;

	if (g->remote.port == DNS_PORT) {
		ask(d, g);
		return;
	}
	p = find(d, g);
	if (!p) {
		make_peer(d, g);
		return;
	}
	unlink_peer(p);
	link_newest(p);
	send_out(p, g->data, g->len);
}

/* --- the stream --- */

static void drop_stream(struct datagrams *d)
{
	if (!d->stream.added)
		return;
	while (d->oldest)
		free_peer(d->oldest);
	for (unsigned i = 0; i < QUESTIONS_MAX; i++)
		if (d->questions[i].owner)
			answers_cancel(&d->questions[i].ask);
	free(d->questions);
	d->questions = NULL;
	loop_stop(&d->context->loop, &d->sweep);
	loop_remove(&d->context->loop, &d->stream);
	(void)close(d->stream.fd); /* a socket */
	buf_done(&d->in);
	buf_done(&d->out);
}

/* Returns 0 or -EBADMSG. */
static int take_records(struct datagrams *d)
{
	struct egress_datagram g;
	int n;

	while ((n = egress_get_datagram(buf_head(&d->in), buf_len(&d->in), &g)) > 0) {
		take(d, &g);
		buf_consume(&d->in, (size_t)n);
	}
	if (!buf_len(&d->in))
		buf_done(&d->in); /* gives the memory back */
	return n;
}

static void on_stream(void *arg, uint32_t events)
{
	struct datagrams *d = arg;
	uint8_t *p;
	ssize_t n;

	if (events & EPOLLOUT)
		flush(d);
	if (!(events & (EPOLLIN | EPOLLHUP | EPOLLERR)))
		return;
	p = buf_reserve(&d->in, RECORD_BYTES);
	n = p ? recv(d->stream.fd, p, RECORD_BYTES, 0) : 0;
	if (n < 0 && errno == EAGAIN)
		return;
	if (n > 0)
		buf_commit(&d->in, (size_t)n);
	if (n <= 0 || take_records(d) < 0)
		drop_stream(d);
}

static void on_sweep(void *arg)
{
	struct datagrams *d = arg;
	struct context *c = d->context;
	uint64_t idle_ns = (c->policy ? c->policy->limits.datagram_seconds : 1) * NS_PER_S;
	struct peer *newer;

	for (struct peer *p = d->oldest; p; p = newer) {
		newer = p->newer;
		if (c->loop.now_ns - p->used_ns >= idle_ns)
			free_peer(p);
		else if (p->up != p->told_up || p->down != p->told_down)
			counts_bytes(c, p->up, &p->told_up, p->down, &p->told_down);
	}
	loop_start(&c->loop, &d->sweep, SWEEP_MS);
}

void datagrams_take(struct datagrams *d, int fd)
{
	struct loop *l = &d->context->loop;

	drop_stream(d);
	d->questions = calloc(QUESTIONS_MAX, sizeof(d->questions[0]));
	if (!d->questions || fd_set_nonblock(fd, 1) < 0 ||
		loop_add(l, &d->stream, fd, EPOLLIN) < 0) {
		free(d->questions);
		d->questions = NULL;
		(void)close(fd); /* a reset for the guest */
		return;
	}
	loop_start(l, &d->sweep, SWEEP_MS);
}

void datagrams_judge(struct datagrams *d)
{
	struct peer *newer;

	/* what is judged anew comes again with its next datagram */
	for (struct peer *p = d->oldest; p; p = newer) {
		newer = p->newer;
		if (!p->watch.added || !target_holds(d->context, &p->target, p->dialled))
			free_peer(p);
	}
}

struct datagrams *datagrams_make(struct context *c)
{
	struct datagrams *d = calloc(1, sizeof(*d));

	if (!d)
		return NULL;
	d->context = c;
	d->stream.on = on_stream;
	d->stream.arg = d->sweep.arg = d;
	d->sweep.on = on_sweep;
	buf_init(&d->in, 2 * RECORD_BYTES);
	buf_init(&d->out, OUT_MAX);
	return d;
}

void datagrams_free(struct datagrams *d)
{
	if (!d)
		return;
	drop_stream(d);
	free(d);
}
