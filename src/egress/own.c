#include "egress/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ANSWER_MAX = 4096 };

/* #calls egress: socket(AF_NETLINK) */
int own_open(void)
{
	int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	return fd < 0 ? -errno : fd;
}

struct request {
	struct nlmsghdr head;
	struct rtmsg route;
	struct rtattr to;
	uint32_t address;
};

static int ask(int fd, uint32_t address)
{
	struct request r = {
		.head = {.nlmsg_len = sizeof(r),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST},
		.route = {.rtm_family = AF_INET, .rtm_dst_len = 32},
		.to = {.rta_len = RTA_LENGTH(sizeof(address)), .rta_type = RTA_DST},
		.address = htonl(address),
	};

	return send(fd, &r, sizeof(r), 0) == sizeof(r) ? 0 : -EIO;
}

static int judge_route(const struct nlmsghdr *h, size_t n)
{
	const struct rtmsg *route = NLMSG_DATA(h);
	const struct nlmsgerr *failure = NLMSG_DATA(h);

	if (h->nlmsg_type == NLMSG_ERROR && n >= NLMSG_LENGTH(sizeof(*failure)))
		return failure->error == -ENETUNREACH || failure->error == -EHOSTUNREACH ||
				       failure->error == -EACCES || failure->error == -EINVAL
			       ? 0 /* no route, or one that refuses: the program gets that */
			       : -EIO;
	if (h->nlmsg_type != RTM_NEWROUTE || n < NLMSG_LENGTH(sizeof(*route)))
		return -EIO;
	return route->rtm_type == RTN_LOCAL || route->rtm_type == RTN_BROADCAST ||
	       route->rtm_type == RTN_MULTICAST || route->rtm_type == RTN_ANYCAST;
}

/* The kernel has answered when send(2) returns.
 *
 * #calls egress: sendto recvfrom */
int own_is(int fd, uint32_t address)
{
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_MAX];
	} answer;
	ssize_t n;
	int r = ask(fd, address);

	if (r < 0)
		return r;
	n = recv(fd, &answer, sizeof(answer), 0);
	if (n < (ssize_t)sizeof(answer.head) || answer.head.nlmsg_len > (size_t)n)
		return -EIO;
	return judge_route(&answer.head, (size_t)n);
}
