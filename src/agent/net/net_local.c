#include "agent/net/net_local.h"

#include <errno.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <string.h>

#include "agent/loop.h"
#include "agent/net/net_lookup.h"
#include "agent/netlink.h"

enum { READS_PER_ROUND = 16 };

static struct source changes = {.fd = -1};

static void take(const struct nlmsghdr *m)
{
	struct in_addr a;
	const void *p;
	size_t n;

	if (m->nlmsg_type != RTM_NEWADDR && m->nlmsg_type != RTM_DELADDR)
		return;
	p = netlink_find(m, sizeof(struct ifaddrmsg), IFA_LOCAL, sizeof(a), &n);
	if (!p)
		return; /* IPv6 */
	memcpy(&a, p, sizeof(a));
	net_lookup_set_local(a, m->nlmsg_type == RTM_NEWADDR);
}

static int ask_for_all(int fd)
{
	const struct ifaddrmsg head = {.ifa_family = AF_INET};
	struct netlink n = {0};

	netlink_begin(&n, RTM_GETADDR, NLM_F_DUMP, &head, sizeof(head));
	return netlink_send(fd, &n);
}

static void changes_ready(struct source *s, uint32_t events)
{
	for (int i = 0; i < READS_PER_ROUND; i++) {
		int r = netlink_read(s->fd, take);

		if (r == -ENOBUFS)
			(void)ask_for_all(s->fd); /* some were lost; fails only if it is asked */
		else if (r <= 0)
			return;
	}
}

int net_local_open(void)
{
	int fd = netlink_open(NETLINK_ROUTE, RTMGRP_IPV4_IFADDR), r;

	if (fd < 0)
		return fd;
	source_open(&changes, fd, changes_ready);
	r = source_wait(&changes, EPOLLIN);
	if (r == 0)
		r = ask_for_all(fd);
	if (r < 0)
		source_close(&changes);
	return r;
}
