#include "dialler/own.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
	ANSWER_MAX = 4096,
	STALE_MAX = 64,	 /* answers that are skipped; then nothing is known */
	KERNEL_PORT = 0, /* the kernel's nl_pid */
};

/* Before the filter. */
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

static int ask(int fd, uint32_t address, uint32_t number)
{
	struct request r = {
		.head = {.nlmsg_len = sizeof(r),
			.nlmsg_type = RTM_GETROUTE,
			.nlmsg_flags = NLM_F_REQUEST,
			.nlmsg_seq = number},
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

/* Returns the length of the answer to this question, or -errno. Answers to earlier questions, and
 * what other processes send, are skipped: they would speak of another address. */
static ssize_t receive(int fd, uint32_t number, void *answer, size_t size)
{
	for (unsigned i = 0; i < STALE_MAX; i++) {
		struct sockaddr_nl from = {0};
		socklen_t length = sizeof(from);
		const struct nlmsghdr *h = answer;
		ssize_t n = recvfrom(fd, answer, size, 0, (struct sockaddr *)&from, &length);

		if (n < 0)
			return errno == EINTR ? -EAGAIN : -errno;
		if (from.nl_pid != KERNEL_PORT || n < (ssize_t)sizeof(*h) ||
			h->nlmsg_len > (size_t)n)
			continue;
		if (h->nlmsg_seq == number)
			return n;
	}
	return -EIO;
}

/* The kernel has answered when send(2) returns.
 */
int own_is(int fd, uint32_t address)
{
	static uint32_t number; /* of the last question */
	union {
		struct nlmsghdr head;
		char bytes[ANSWER_MAX];
	} answer;
	ssize_t n;
	int r = ask(fd, address, ++number);

	if (r < 0)
		return r;
	n = receive(fd, number, &answer, sizeof(answer));
	return n < 0 ? (int)n : judge_route(&answer.head, (size_t)n);
}
