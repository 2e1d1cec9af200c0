#include "dialler/dialler.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "dialler/broker.h"
#include "dialler/own.h"
#include "jail/landlock.h"
#include "proto/egress_reach.h"

enum { WAIT_S = 10, QUESTIONS_AT_ONCE = 16 };

struct dialler {
	int broker, clients; /* our ends */
	int listener, reach_listener, own;
	struct egress_reach reach;
};

/* --- the daemon's side --- */

/* #calls dialler: accept4 recvfrom close */
static void take_reach(struct dialler *d)
{
	_cleanup_close_ int fd = accept4(d->reach_listener, NULL, NULL, SOCK_CLOEXEC);
	struct egress_reach r;
	const struct timeval patience = {.tv_sec = 1};

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) < 0)
		return;
	if (egress_reach_is_valid(&r, (size_t)recv(fd, &r, sizeof(r), 0)))
		d->reach = r;
	else
		log_error("the daemon's message to the dialler is malformed");
}

/* With a descriptor or -1.
 *
 * #calls dialler: sendmsg */
static int answer(int to, int32_t result, int fd)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct broker_answer a = {result};
	struct iovec iov = {&a, sizeof(a)};
	const struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = fd >= 0 ? control.bytes : NULL,
		.msg_controllen = fd >= 0 ? sizeof(control.bytes) : 0};

	memcpy(CMSG_DATA(&control.head), &fd, sizeof(int));
	return sendmsg(to, &m, MSG_NOSIGNAL) < 0 ? -errno : 0;
}

static void take_client(struct dialler *d)
{
	_cleanup_close_ int fd = accept4(d->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd >= 0)
		(void)answer(d->clients, 0, fd); /* else it sees its end */
}

/* --- the worker's side --- */

static bool may_dial(const struct dialler *d, uint32_t address, uint16_t port)
{
	if (port == 0)
		return false;
	return egress_reach_has_end(&d->reach, address, port) ||
	       (egress_reach_has(&d->reach, address) && own_is(d->own, address) == 0);
}

/* #calls dialler: socket(AF_INET) connect setsockopt
 * #calls dialler (own.c): sendto recvfrom */
static int dial(const struct dialler *d, const struct broker_question *q)
{
	const struct sockaddr_in to = {.sin_family = AF_INET,
		.sin_port = htons(q->port),
		.sin_addr.s_addr = htonl(q->address)};
	int type = q->kind == BROKER_STREAM ? SOCK_STREAM : SOCK_DGRAM;
	_cleanup_close_ int fd = -1;

	if (!may_dial(d, q->address, q->port))
		return -EPERM;
	fd = socket(AF_INET, type | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 ||
		(connect(fd, (const struct sockaddr *)&to, sizeof(to)) < 0 && errno != EINPROGRESS))
		return -errno;
	return TAKE_FD(fd);
}

static int32_t judge(const struct dialler *d, const struct broker_question *q, int *ret_fd)
{
	int r;

	switch (q->kind) {
	case BROKER_OWN:
		return own_is(d->own, q->address);
	case BROKER_STREAM:
	case BROKER_DATAGRAMS:
		r = dial(d, q);
		if (r >= 0)
			*ret_fd = r;
		return r < 0 ? r : 0;
	default:
		return -EINVAL;
	}
}

static void end(void)
{
	_exit(0); /* the worker is gone */
}

static void take_question(struct dialler *d)
{
	struct broker_question q;
	ssize_t n = recv(d->broker, &q, sizeof(q), MSG_DONTWAIT);
	_cleanup_close_ int fd = -1;
	int32_t result;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(q))
		end();
	result = judge(d, &q, &fd);
	if (answer(d->broker, result, fd) < 0)
		end();
}

/* What the daemon has said comes before what the worker asks: it tells the reach first.
 *
 * #calls dialler: poll exit_group */
static _Noreturn void serve(struct dialler *d)
{
	struct pollfd p[] = {{.fd = d->reach_listener, .events = POLLIN},
		{.fd = d->listener, .events = POLLIN}, {.fd = d->broker, .events = POLLIN}};

	for (;;) {
		if (poll(p, ARRAY_SIZE(p), -1) < 0)
			continue;
		if (p[0].revents)
			take_reach(d);
		else if (p[1].revents)
			take_client(d);
		else if (p[2].revents)
			take_question(d);
	}
}

/* --- the beginning --- */

static int confine(const struct filter *filter, struct error *e)
{
	int r = landlock_forbid_all(LANDLOCK_CONNECT);

	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "Landlock") : filter_install(filter, e);
}

static _Noreturn void run(struct dialler *d, const struct dialler_start *s)
{
	struct error e = {0};

	for (unsigned i = 0; i < s->unused_count; i++)
		if (s->unused[i] >= 0)
			(void)close(s->unused[i]); /* the worker's */
	d->own = own_open();
	if (d->own < 0 || confine(s->filter, &e) < 0) {
		log_error("the dialler cannot begin: %s", e.code ? e.message : "netlink");
		_exit(1);
	}
	serve(d);
}

/* Without a daemon that reads, an answer comes at once. */
static int set_patience(int fd)
{
	const struct timeval patience = {.tv_sec = WAIT_S};

	return setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
}

int dialler_start(const struct dialler_start *s, struct dialler_ends *ret, struct error *e)
{
	int broker[2], clients[2];
	struct dialler d = {.listener = s->listen_fd, .reach_listener = s->reach_fd, .own = -1};
	pid_t pid;

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, broker) < 0 ||
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, clients) < 0 ||
		set_patience(broker[0]) < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot make its dialler's sockets");
	pid = fork();
	if (pid < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot start its dialler");
	if (pid == 0) {
		(void)close(broker[0]); /* the worker's ends */
		(void)close(clients[0]);
		d.broker = broker[1];
		d.clients = clients[1];
		run(&d, s);
	}
	(void)close(broker[1]); /* the dialler's ends */
	(void)close(clients[1]);
	(void)close(s->listen_fd);
	(void)close(s->reach_fd);
	*ret = (struct dialler_ends){broker[0], clients[0]};
	return 0;
}
