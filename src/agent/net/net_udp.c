#include "agent/net/net_udp.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agent/loop.h"
#include "agent/net/net_host.h"
#include "agent/net/net_lookup.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"

#ifndef SOL_IP
#define SOL_IP 0
#endif

/* How long the agent opens no stream after a refused one. */
#define REFUSED_NS (200 * NS_PER_MS)

enum {
	RECORD_MAX = EGRESS_DATAGRAM_HEADER + EGRESS_DATAGRAM_MAX,
	OUT_MAX = 256 * 1024,
	IN_MAX = 2 * RECORD_MAX,
	READ_MAX = RECORD_MAX,
	DATAGRAMS_PER_ROUND = 32,
	ICMP_CODE_NET_PROHIBITED = 9, /* a program gets ENETUNREACH at once; with code 0 it would
				       * not */
};

static struct source relay = {.fd = -1}, stream = {.fd = -1};
static bool connected; /* the stream is joined; before that, `out` begins with its header */
static bool answered;  /* by the worker: records follow */
static struct buf out, in;
static int raw_udp = -1, raw_icmp = -1;
static uint64_t refused_until_ns;

/* --- to programs --- */

/* A raw socket gets a copy of each packet of its protocol. This one drops them. */
static int open_raw(int protocol)
{
	static struct sock_filter none = BPF_STMT(BPF_RET | BPF_K, 0);
	const struct sock_fprog program = {.len = 1, .filter = &none};
	_cleanup_close_ int fd = socket(AF_INET, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
	int one = 1;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program)) < 0 ||
		setsockopt(fd, SOL_IP, IP_TRANSPARENT, &one, sizeof(one)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

/* Sends a packet from an address that is not this machine's. Losing it is allowed. */
static void send_from(
	int fd, const struct in_addr *from, struct sockaddr_in to, struct iovec *iov, size_t count)
{
	union {
		struct cmsghdr align;
		char data[CMSG_SPACE(sizeof(struct in_pktinfo))];
	} control = {0};
	struct msghdr m = {.msg_name = &to,
		.msg_namelen = sizeof(to),
		.msg_iov = iov,
		.msg_iovlen = count,
		.msg_control = &control,
		.msg_controllen = sizeof(control.data)};
	const struct in_pktinfo info = {.ipi_spec_dst = *from};
	struct cmsghdr *c = CMSG_FIRSTHDR(&m);

	to.sin_port = 0; /* raw sockets have none */
	c->cmsg_level = SOL_IP;
	c->cmsg_type = IP_PKTINFO;
	c->cmsg_len = CMSG_LEN(sizeof(info));
	memcpy(CMSG_DATA(c), &info, sizeof(info));
	(void)sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL); /* see above */
}

/* Without a checksum, which IPv4 allows. */
static void deliver(const struct egress_datagram *d)
{
	const struct sockaddr_in from = net_sockaddr(&d->remote), to = net_sockaddr(&d->guest);
	struct udphdr head = {.uh_sport = from.sin_port,
		.uh_dport = to.sin_port,
		.uh_ulen = htons((uint16_t)(sizeof(head) + d->len))};
	struct iovec iov[] = {{&head, sizeof(head)}, {(void *)(uintptr_t)d->data, d->len}};

	send_from(raw_udp, &from.sin_addr, to, iov, ARRAY_SIZE(iov));
}

static uint16_t checksum(const void *data, size_t len)
{
	const uint8_t *p = data;
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < len; i += 2)
		sum += (uint32_t)p[i] << 8 | p[i + 1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

/* Tells the program that its datagram cannot leave: an ICMP message that quotes its headers. */
static void unreachable(const struct egress_datagram *d)
{
	const struct sockaddr_in from = net_sockaddr(&d->guest), to = net_sockaddr(&d->remote);
	struct {
		struct icmphdr icmp;
		struct iphdr ip;
		struct udphdr udp;
	} m = {.icmp = {.type = ICMP_DEST_UNREACH, .code = ICMP_CODE_NET_PROHIBITED},
		.ip = {.version = 4,
			.ihl = sizeof(struct iphdr) / 4,
			.tot_len = htons(
				(uint16_t)(sizeof(struct iphdr) + sizeof(struct udphdr) + d->len)),
			.protocol = IPPROTO_UDP,
			.ttl = 64,
			.saddr = from.sin_addr.s_addr,
			.daddr = to.sin_addr.s_addr},
		.udp = {.uh_sport = from.sin_port,
			.uh_dport = to.sin_port,
			.uh_ulen = htons((uint16_t)(sizeof(struct udphdr) + d->len))}};
	struct iovec iov = {&m, sizeof(m)};

	m.ip.check = checksum(&m.ip, sizeof(m.ip));
	m.icmp.checksum = checksum(&m, sizeof(m));
	send_from(raw_icmp, &to.sin_addr, from, &iov, 1);
}

/* --- the stream --- */

static void lost(void)
{
	source_close(&stream);
	connected = answered = false;
	buf_done(&out);
	buf_done(&in);
}

/* There is no network: reports that to the programs of all waiting datagrams. */
static void refused(void)
{
	struct egress_datagram d;
	struct egress_open o;
	int n = egress_get_open(buf_head(&out), buf_len(&out), &o);

	while (n > 0) {
		buf_consume(&out, (size_t)n);
		n = egress_get_datagram(buf_head(&out), buf_len(&out), &d);
		if (n > 0)
			unreachable(&d);
	}
	refused_until_ns = clock_monotonic_ns() + REFUSED_NS;
	lost();
}

static void flush(void)
{
	ssize_t n = buf_len(&out) ? send(stream.fd, buf_head(&out), buf_len(&out),
					    MSG_DONTWAIT | MSG_NOSIGNAL)
				  : 0;

	if (n < 0 && errno != EAGAIN && errno != EINTR) {
		lost();
		return;
	}
	if (n > 0)
		buf_consume(&out, (size_t)n);
	if (source_wait(&stream, EPOLLIN | (buf_len(&out) ? EPOLLOUT : 0)) < 0)
		lost();
}

/* Handles one record of `in`. Returns the bytes used, or -EBADMSG. */
static int take_one(void)
{
	struct egress_datagram d;
	struct egress_answer a;
	int n;

	if (answered) {
		n = egress_get_datagram(buf_head(&in), buf_len(&in), &d);
		if (n > 0)
			deliver(&d);
		return n;
	}
	n = egress_get_answer(buf_head(&in), buf_len(&in), &a);
	if (n > 0 && a.verdict != EGRESS_OK && a.verdict != EGRESS_WAITING)
		return -EBADMSG;
	answered = n > 0 && a.verdict == EGRESS_OK;
	return n;
}

static void receive(void)
{
	uint8_t *p = buf_reserve(&in, READ_MAX);
	ssize_t n = p ? recv(stream.fd, p, READ_MAX, MSG_DONTWAIT) : 0;
	int used = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lost();
		return;
	}
	buf_commit(&in, (size_t)n);
	while (buf_len(&in) && (used = take_one()) > 0)
		buf_consume(&in, (size_t)used);
	if (used < 0) {
		refused_until_ns = clock_monotonic_ns() + REFUSED_NS; /* not at once again */
		lost();
	}
}

static void stream_ready(struct source *s, uint32_t events)
{
	int err = connected ? 0 : net_host_connected(s->fd);

	if (err == ETIMEDOUT) {
		lost();
	} else if (err) {
		refused();
	} else {
		connected = true;
		if (events & ~(uint32_t)EPOLLOUT)
			receive();
		if (s->fd >= 0)
			flush();
	}
}

/* False: there is none. */
static bool open_stream(void)
{
	const struct egress_open o = {.kind = EGRESS_UDP};
	int fd;

	if (stream.fd >= 0)
		return true;
	if (clock_monotonic_ns() < refused_until_ns)
		return false;
	fd = net_host_connect();
	if (fd < 0)
		return false;
	source_open(&stream, fd, stream_ready);
	if (egress_put_open(&out, &o) == 0 && source_wait(&stream, EPOLLOUT) == 0)
		return true;
	lost();
	return false;
}

/* --- from programs --- */

static void take(const struct egress_datagram *d)
{
	if (!open_stream())
		unreachable(d);
	else
		(void)egress_put_datagram(&out, d); /* full: dropped, as a network would */
}

/* The address that the program wrote to; false: it is not known. */
static bool original(struct msghdr *m, struct sockaddr_in *ret)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c))
		if (c->cmsg_level == SOL_IP && c->cmsg_type == IP_ORIGDSTADDR) {
			memcpy(ret, CMSG_DATA(c), sizeof(*ret));
			return true;
		}
	return false;
}

/* False: there was none. */
static bool receive_datagram(int fd)
{
	static uint8_t data[EGRESS_DATAGRAM_MAX];
	union {
		struct cmsghdr align;
		char data[CMSG_SPACE(sizeof(struct sockaddr_in))];
	} control;
	struct sockaddr_in from, to;
	struct iovec iov = {data, sizeof(data)};
	struct msghdr m = {.msg_name = &from,
		.msg_namelen = sizeof(from),
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.data)};
	ssize_t n = recvmsg(fd, &m, MSG_DONTWAIT);
	struct egress_datagram d;

	if (n < 0)
		return false;
	if (!original(&m, &to) || net_lookup_is_local(to.sin_addr))
		return true;
	d = (struct egress_datagram){.guest = net_endpoint(&from),
		.remote = net_endpoint(&to),
		.data = data,
		.len = (size_t)n};
	take(&d);
	return true;
}

static void relay_ready(struct source *s, uint32_t events)
{
	for (int i = 0; i < DATAGRAMS_PER_ROUND && receive_datagram(s->fd); i++)
		;
	if (connected)
		flush();
}

int net_udp_open(int fd)
{
	int r;

	source_open(&relay, fd, relay_ready);
	buf_init(&out, OUT_MAX);
	buf_init(&in, IN_MAX);
	raw_udp = open_raw(IPPROTO_UDP);
	raw_icmp = open_raw(IPPROTO_ICMP);
	r = raw_udp < 0 ? raw_udp : raw_icmp < 0 ? raw_icmp : source_wait(&relay, EPOLLIN);
	if (r < 0)
		source_close(&relay);
	return r;
}
