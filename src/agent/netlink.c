#include "netlink.h"

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Room for n more bytes and their padding, zeroed; NULL if there is none. */
static uint8_t *reserve(struct netlink *n, size_t len)
{
	uint8_t *p = n->data + n->len;

	if (n->err || len > sizeof(n->data) - n->len ||
		NLMSG_ALIGN(len) > sizeof(n->data) - n->len) {
		n->err = -EMSGSIZE;
		return NULL;
	}
	memset(p, 0, NLMSG_ALIGN(len));
	n->len += NLMSG_ALIGN(len);
	return p;
}

static void measure(struct netlink *n)
{
	struct nlmsghdr *m = (struct nlmsghdr *)(void *)(n->data + n->message);

	m->nlmsg_len = (uint32_t)(n->len - n->message);
}

void netlink_begin(
	struct netlink *n, unsigned type, unsigned flags, const void *head, size_t head_len)
{
	uint8_t *p;

	n->message = n->len;
	p = reserve(n, NLMSG_HDRLEN + head_len);
	if (!p)
		return;
	*(struct nlmsghdr *)(void *)p = (struct nlmsghdr){
		.nlmsg_type = (uint16_t)type, .nlmsg_flags = (uint16_t)(NLM_F_REQUEST | flags)};
	if (head_len)
		memcpy(p + NLMSG_HDRLEN, head, head_len);
	measure(n);
}

void netlink_put(struct netlink *n, unsigned type, const void *data, size_t len)
{
	struct nlattr a = {.nla_len = (uint16_t)(NLA_HDRLEN + len), .nla_type = (uint16_t)type};
	uint8_t *p = reserve(n, NLA_HDRLEN + len);

	if (!p)
		return;
	memcpy(p, &a, sizeof(a));
	if (len)
		memcpy(p + NLA_HDRLEN, data, len);
	measure(n);
}

void netlink_put_be16(struct netlink *n, unsigned type, unsigned v)
{
	uint16_t be = htons((uint16_t)v);

	netlink_put(n, type, &be, sizeof(be));
}

void netlink_put_be32(struct netlink *n, unsigned type, uint32_t v)
{
	v = htonl(v);
	netlink_put(n, type, &v, sizeof(v));
}

void netlink_put_u32(struct netlink *n, unsigned type, uint32_t v)
{
	netlink_put(n, type, &v, sizeof(v));
}

void netlink_put_string(struct netlink *n, unsigned type, const char *s)
{
	netlink_put(n, type, s, strlen(s) + 1);
}

size_t netlink_nest(struct netlink *n, unsigned type)
{
	size_t nest = n->len;

	netlink_put(n, type | NLA_F_NESTED, NULL, 0);
	return nest;
}

void netlink_nest_end(struct netlink *n, size_t nest)
{
	uint16_t len = (uint16_t)(n->len - nest);

	if (!n->err)
		memcpy(n->data + nest, &len, sizeof(len)); /* nla_len is the first member */
}

int netlink_open(int protocol, uint32_t groups)
{
	struct sockaddr_nl sa = {.nl_family = AF_NETLINK, .nl_groups = groups};
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol), err;

	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) == 0)
		return fd;
	err = errno;
	(void)close(fd); /* not used */
	return -err;
}

int netlink_send(int fd, struct netlink *n)
{
	static const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
	int r = n->err;

	if (r == 0 && sendto(fd, n->data, n->len, 0, (const struct sockaddr *)&kernel,
			      sizeof(kernel)) < 0)
		r = -errno;
	n->len = n->message = 0;
	n->err = 0;
	return r;
}

static int answer;

static void take_answer(const struct nlmsghdr *m)
{
	const struct nlmsgerr *e = NLMSG_DATA(m);

	if (m->nlmsg_type != NLMSG_ERROR || m->nlmsg_len < NLMSG_LENGTH(sizeof(*e)))
		return;
	if (answer == -ENODATA || answer == 0)
		answer = e->error;
}

int netlink_ask(int fd, struct netlink *n)
{
	int r = netlink_send(fd, n);

	answer = -ENODATA;
	while (r == 0 && (r = netlink_read(fd, take_answer)) > 0)
		r = 0;
	return r < 0 ? r : answer;
}

int netlink_read(int fd, void (*each)(const struct nlmsghdr *m))
{
	static uint8_t data[NETLINK_READ_MAX] __attribute__((aligned(NLMSG_ALIGNTO)));
	struct sockaddr_nl from;
	socklen_t from_len = sizeof(from);
	ssize_t n =
		recvfrom(fd, data, sizeof(data), MSG_DONTWAIT, (struct sockaddr *)&from, &from_len);
	const struct nlmsghdr *m = (const void *)data;
	size_t left;

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -errno;
	if (from.nl_pid != 0)
		return 1; /* not the kernel's */
	for (left = (size_t)n;
		left >= sizeof(*m) && m->nlmsg_len >= sizeof(*m) && m->nlmsg_len <= left;) {
		size_t step = NLMSG_ALIGN(m->nlmsg_len);

		each(m);
		if (step >= left)
			break;
		left -= step;
		m = (const void *)((const uint8_t *)m + step);
	}
	return 1;
}

const void *netlink_find(
	const struct nlmsghdr *m, size_t skip, unsigned type, size_t min, size_t *ret_len)
{
	size_t at = NLMSG_HDRLEN + NLMSG_ALIGN(skip);

	while (at + NLA_HDRLEN <= m->nlmsg_len) {
		struct nlattr a;

		memcpy(&a, (const uint8_t *)m + at, sizeof(a));
		if (a.nla_len < NLA_HDRLEN || a.nla_len > m->nlmsg_len - at)
			return NULL;
		if ((a.nla_type & NLA_TYPE_MASK) == type && a.nla_len - NLA_HDRLEN >= (int)min) {
			*ret_len = (size_t)a.nla_len - NLA_HDRLEN;
			return (const uint8_t *)m + at + NLA_HDRLEN;
		}
		at += NLA_ALIGN(a.nla_len);
	}
	return NULL;
}
