#include "agent/net/net_flow.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/guest.h"
#include "agent/net/net_host.h"
#include "agent/net/net_lookup.h"
#include "agent/net/net_program.h"
#include "agent/net/net_queue.h"
#include "agent/relay.h"
#include "base/clock.h"

#define CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))

/* The kernel repeats the packet of a program that still waits, after 64 s at the latest. */
#define ABANDONED_NS (70 * NS_PER_S)
#define ACCEPT_NS    (10 * NS_PER_S)
#define RETRY_NS     (50 * NS_PER_MS) /* doubles each time */

enum { ACCEPTS_PER_ROUND = 64, HELD_MAX = RELAY_SLICE + EGRESS_ANSWER_MAX };

enum flow_state {
	/* The stream is being opened, or the host's answer is awaited, or a retry is due (then
	 * there is no stream). The first packet waits (`held`), or the connection exists already.
	 * Every other state may follow. */
	FLOW_ASKING,
	FLOW_GRANTED, /* the packet went on and its connection will arrive; to JOINED or the end */
	FLOW_JOINED,  /* the relay runs, until its end */
	/* The connect shall time out: there is no stream, and the agent drops repeated packets
	 * until the program gives up. When the table is full, these flows are removed first. */
	FLOW_IGNORED,
};

struct flow {
	struct relay relay; /* near: the program's connection; far: the stream */
	enum flow_state state;
	struct sockaddr_in from, to;
	struct egress_open open; /* what the host is told */
	bool held, sent;	 /* sent: the header was */
	uint32_t packet;
	unsigned asked;
	uint8_t answer[EGRESS_ANSWER_MAX];
	size_t answer_len;
	struct timer timer;
	struct flow *next, **link;
};

static struct source listener = {.fd = -1};
static struct flow *flows;
static unsigned flow_count;
static bool told; /* that connections do not wait */

static void ask(struct flow *f);

/* --- the table --- */

static bool same(const struct sockaddr_in *a, const struct sockaddr_in *b)
{
	return a->sin_addr.s_addr == b->sin_addr.s_addr && a->sin_port == b->sin_port;
}

static struct flow *find(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	for (struct flow *f = flows; f; f = f->next)
		if (same(&f->from, from) && same(&f->to, to))
			return f;
	return NULL;
}

/* `reset`: the program gets ECONNRESET. */
static void flow_free(struct flow *f, bool reset)
{
	static const struct linger at_once = {.l_onoff = 1};

	if (reset && f->relay.near.fd >= 0)
		(void)setsockopt(f->relay.near.fd, SOL_SOCKET, SO_LINGER, &at_once,
			sizeof(at_once)); /* without it, an end of file */
	relay_close(&f->relay);
	timer_cancel(&f->timer);
	*f->link = f->next;
	if (f->next)
		f->next->link = f->link;
	flow_count--;
	loop_defer_free(f);
}

static bool make_room(void)
{
	if (flow_count < NET_FLOWS_MAX)
		return true;
	for (struct flow *f = flows; f; f = f->next)
		if (f->state == FLOW_IGNORED) {
			flow_free(f, false);
			return true;
		}
	return false;
}

/* NULL if there are too many. */
static struct flow *flow_new(const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	struct flow *f = make_room() ? calloc(1, sizeof(*f)) : NULL;

	if (!f)
		return NULL;
	relay_init(&f->relay, HELD_MAX, HELD_MAX);
	f->relay.far_may_go = true;
	f->from = *from;
	f->to = *to;
	f->open = (struct egress_open){
		.kind = EGRESS_TCP, .to = net_endpoint(to), .from = net_endpoint(from)};
	f->next = flows;
	f->link = &flows;
	if (flows)
		flows->link = &f->next;
	flows = f;
	flow_count++;
	return f;
}

/* --- the end of asking --- */

static void flow_expired(struct timer *t)
{
	struct flow *f = CONTAINER(t, struct flow, timer);

	if (f->held)
		net_queue_give(f->packet, NET_FORGET);
	flow_free(f, true);
}

static void refuse(struct flow *f, enum net_verdict v)
{
	bool ignore = f->held && v == NET_FORGET;

	if (f->held)
		net_queue_give(f->packet, v);
	f->held = false;
	if (!ignore) {
		flow_free(f, true);
		return;
	}
	source_close(&f->relay.far);
	f->state = FLOW_IGNORED;
	timer_set(&f->timer, ABANDONED_NS, flow_expired);
}

static enum net_verdict verdict_of(int err)
{
	switch (err) {
	case ECONNREFUSED:
		return NET_REFUSED;
	case ENETUNREACH:
		return NET_NET;
	case ETIMEDOUT:
		return NET_FORGET;
	case EACCES:
		return NET_PROHIBITED;
	default:
		return NET_HOST;
	}
}

static void flow_over(struct relay *r, bool broken)
{
	flow_free(CONTAINER(r, struct flow, relay), broken);
}

static void join(struct flow *f)
{
	int one = 1;

	timer_cancel(&f->timer);
	(void)setsockopt(f->relay.near.fd, IPPROTO_TCP, TCP_NODELAY, &one,
		sizeof(one)); /* without it, the connection is only slower */
	f->state = FLOW_JOINED;
	relay_run(&f->relay, flow_over);
}

/* The host has connected. The n bytes that followed its answer belong to the program. */
static void grant(struct flow *f, const uint8_t *rest, size_t n)
{
	if (buf_add(&f->relay.to_near.held, rest, n) < 0 || source_wait(&f->relay.far, 0) < 0) {
		refuse(f, NET_HOST);
		return;
	}
	if (!f->held) {
		join(f);
		return;
	}
	net_queue_give(f->packet, NET_PASS);
	f->held = false;
	f->state = FLOW_GRANTED;
	timer_set(&f->timer, ACCEPT_NS, flow_expired);
}

/* --- asking --- */

static void ask_again(struct timer *t)
{
	ask(CONTAINER(t, struct flow, timer));
}

/* The stream broke before its answer: the sandbox was restored, or the worker ended. */
static void lost(struct flow *f)
{
	source_close(&f->relay.far);
	if (f->asked < NET_ASK_MAX)
		timer_set(&f->timer, (RETRY_NS << f->asked) - RETRY_NS, ask_again);
	else
		refuse(f, NET_HOST);
}

static void send_header(struct flow *f)
{
	struct buf b = BUF_INIT(EGRESS_OPEN_MAX);
	bool ok = egress_put_open(&b, &f->open) == 0 &&
		  send(f->relay.far.fd, buf_head(&b), buf_len(&b), MSG_DONTWAIT | MSG_NOSIGNAL) ==
			  (ssize_t)buf_len(&b);

	buf_done(&b);
	f->sent = true;
	if (!ok || source_wait(&f->relay.far, EPOLLIN) < 0)
		lost(f);
}

static void connected(struct flow *f)
{
	int err = net_host_connected(f->relay.far.fd);

	if (!err)
		send_header(f);
	else if (err == ETIMEDOUT)
		lost(f);
	else
		refuse(f, NET_NET);
}

/* Handles complete answers. False: the flow has ended, or no longer asks. */
static bool take_answer(struct flow *f)
{
	struct egress_answer a;
	int used = egress_get_answer(f->answer, f->answer_len, &a);

	if (used == 0)
		return false;
	if (used < 0) {
		refuse(f, NET_HOST);
		return false;
	}
	f->answer_len -= (size_t)used;
	memmove(f->answer, f->answer + used, f->answer_len);
	if (a.verdict == EGRESS_WAITING)
		return true;
	if (a.verdict == EGRESS_OK)
		grant(f, f->answer, f->answer_len);
	else
		refuse(f, verdict_of(a.err));
	return false;
}

static void receive(struct flow *f)
{
	ssize_t n = recv(f->relay.far.fd, f->answer + f->answer_len,
		sizeof(f->answer) - f->answer_len, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lost(f);
		return;
	}
	f->answer_len += (size_t)n;
	while (take_answer(f))
		;
}

static void stream_ready(struct source *s, uint32_t events)
{
	struct flow *f = CONTAINER(s, struct flow, relay.far);

	if (f->sent)
		receive(f);
	else
		connected(f);
}

static void ask(struct flow *f)
{
	int fd = net_host_connect();

	f->asked++;
	f->sent = false;
	f->answer_len = 0;
	if (f->held)
		timer_set(&f->timer, ABANDONED_NS, flow_expired);
	if (fd < 0) {
		refuse(f, NET_NET);
		return;
	}
	source_open(&f->relay.far, fd, stream_ready);
	if (f->asked == 1)
		net_program_find(&f->from, &f->to, &f->open); /* while the host takes the stream */
	if (source_wait(&f->relay.far, EPOLLOUT) < 0)
		refuse(f, NET_HOST);
}

/* --- packets --- */

/* Keeps the newest packet, because a program may have started another connect from the same
 * port. */
static void repeated(struct flow *f, uint32_t id)
{
	if (f->state == FLOW_IGNORED) {
		net_queue_give(id, NET_FORGET);
		timer_set(&f->timer, ABANDONED_NS, flow_expired);
	} else if (f->held) {
		net_queue_give(f->packet, NET_FORGET);
		f->packet = id;
		if (f->relay.far.fd >= 0)
			timer_set(&f->timer, ABANDONED_NS, flow_expired);
	} else {
		net_queue_give(id, NET_PASS);
	}
}

static void first(const struct sockaddr_in *from, const struct sockaddr_in *to, uint32_t id)
{
	struct flow *f = flow_new(from, to);

	if (!f) {
		net_queue_give(id, NET_REFUSED);
		return;
	}
	f->held = true;
	f->packet = id;
	ask(f);
}

/* Reads the addresses of a TCP packet; false if it is truncated. */
static bool parse(
	const uint8_t *packet, size_t len, struct sockaddr_in *from, struct sockaddr_in *to)
{
	const struct iphdr *ip = (const void *)packet;
	size_t head = len < sizeof(*ip) ? 0 : (size_t)ip->ihl * 4;

	if (head < sizeof(*ip) || len < head + sizeof(struct tcphdr))
		return false;
	*from = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = ip->saddr};
	*to = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = ip->daddr};
	memcpy(&from->sin_port, packet + head, 2);
	memcpy(&to->sin_port, packet + head + 2, 2);
	return true;
}

void net_flow_packet(uint32_t id, const uint8_t *packet, size_t len)
{
	const struct iphdr *ip = (const void *)packet;
	struct sockaddr_in from, to;
	struct flow *f;

	if (len < sizeof(*ip)) {
		net_queue_give(id, NET_FORGET);
	} else if (net_lookup_is_local((struct in_addr){ip->daddr})) {
		net_queue_give(id, NET_PASS);
	} else if (ip->protocol != IPPROTO_TCP) {
		net_queue_give(id, NET_PROHIBITED);
	} else if (!parse(packet, len, &from, &to)) {
		net_queue_give(id, NET_FORGET);
	} else {
		f = find(&from, &to);
		if (f)
			repeated(f, id);
		else
			first(&from, &to, id);
	}
}

/* --- connections --- */

static void unasked(int fd, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	struct flow *f = flow_new(from, to);

	if (!told)
		console("network: a connection did not wait for the host's answer: the nftables "
			"table `mayfly` is missing");
	told = true;
	if (!f) {
		(void)close(fd); /* as if it was refused */
		return;
	}
	source_open(&f->relay.near, fd, NULL); /* until relay_run */
	ask(f);
}

static void arrived(int fd, const struct sockaddr_in *from, const struct sockaddr_in *to)
{
	struct flow *f = find(from, to);

	if (net_lookup_is_local(to->sin_addr) || (f && f->relay.near.fd >= 0)) {
		(void)close(fd); /* not a flow of ours, or a second one */
		return;
	}
	if (!f) {
		unasked(fd, from, to);
		return;
	}
	source_open(&f->relay.near, fd, NULL); /* until relay_run */
	if (f->held)
		net_queue_give(f->packet, NET_FORGET); /* it came past the rules */
	f->held = false;
	if (f->state == FLOW_GRANTED)
		join(f);
	else if (f->state == FLOW_IGNORED)
		flow_free(f, true);
	else if (f->relay.far.fd >= 0)
		timer_cancel(&f->timer); /* whoever is connected waits */
}

static void accept_ready(struct source *s, uint32_t events)
{
	for (int i = 0; i < ACCEPTS_PER_ROUND; i++) {
		struct sockaddr_in from = {0}, to = {0};
		socklen_t from_len = sizeof(from), to_len = sizeof(to);
		int fd = accept4(
			s->fd, (struct sockaddr *)&from, &from_len, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0)
			return;
		if (getsockname(fd, (struct sockaddr *)&to, &to_len) == 0)
			arrived(fd, &from, &to);
		else
			(void)close(fd); /* gone already */
	}
}

int net_flow_open(int fd)
{
	int r;

	source_open(&listener, fd, accept_ready);
	r = source_wait(&listener, EPOLLIN);
	if (r < 0)
		source_close(&listener);
	return r;
}
