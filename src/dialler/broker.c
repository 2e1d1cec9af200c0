#include "dialler/broker.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/cleanup.h"
#include "base/log.h"

enum { KNOWN_MAX = 16 };

static _Noreturn void give_up(const char *what)
{
	log_error("the dialler %s", what);
	_exit(1); /* the daemon starts another worker */
}

/* #calls egress: recvmsg */
static int32_t receive(int broker_fd, int *ret_fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr align;
	} control;
	struct broker_answer a;
	struct iovec iov = {&a, sizeof(a)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n;
	struct cmsghdr *c;

	do
		n = recvmsg(broker_fd, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n != sizeof(a))
		give_up(n < 0 && errno == EAGAIN ? "does not answer" : "has ended");
	*ret_fd = -1;
	c = CMSG_FIRSTHDR(&m);
	if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS &&
		c->cmsg_len == CMSG_LEN(sizeof(int)))
		memcpy(ret_fd, CMSG_DATA(c), sizeof(int));
	return a.result;
}

int broker_take(int clients_fd)
{
	int fd;

	(void)receive(clients_fd, &fd);
	return fd < 0 ? -EMFILE : fd;
}

/* #calls egress: sendto(NO_ADDRESS) */
static int32_t ask(int broker_fd, struct broker_question q, int *ret_fd)
{
	if (send(broker_fd, &q, sizeof(q), MSG_NOSIGNAL) != sizeof(q))
		give_up("has ended");
	return receive(broker_fd, ret_fd);
}

int broker_dial(int broker_fd, bool datagrams, uint32_t address, uint16_t port)
{
	int fd;
	int32_t r = ask(broker_fd,
		(struct broker_question){
			datagrams ? BROKER_DATAGRAMS : BROKER_STREAM, port, address},
		&fd);

	return r < 0 ? r : fd < 0 ? -EMFILE : fd; /* its table of descriptors is full */
}

/* Half a second old at most. A stale answer opens nothing: the dialler judges each connection. */
static struct known {
	uint32_t address;
	int32_t own;
	uint64_t until_ns;
} known[KNOWN_MAX];

int broker_own(int broker_fd, uint32_t address)
{
	struct known *k = &known[(address ^ address >> 8 ^ address >> 16) % KNOWN_MAX];
	uint64_t now = clock_monotonic_ns();
	int fd;

	if (k->address == address && k->until_ns > now)
		return k->own;
	*k = (struct known){address,
		ask(broker_fd, (struct broker_question){BROKER_OWN, 0, address}, &fd),
		now + NS_PER_S / 2};
	cleanup_close_p(&fd);
	return k->own;
}
