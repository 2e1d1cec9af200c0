/* mayfly-launcher: starts jailed processes for one client, which is its parent.
 *
 * It makes once what all jails share (space.h), and keeps none of its parent's descriptors. Then it
 * serves requests one after the other (request.h) until the client's end of the socket is closed.
 * It never reads what a tenant wrote. Processes that it started are its siblings: they live on when
 * it dies.
 *
 * Its command line is one word, a place (kind.h). Descriptor 3 is the socket. */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "jail/birth.h"
#include "jail/confine.h"
#include "jail/request.h"
#include "jail/space.h"

/* The socket's descriptor. It is above all descriptors of a request, so these can get the numbers
 * that they have in the child. */
enum { SOCKET_FD = 200 };
_Static_assert(SOCKET_FD > BIRTH_FIRST_FD + JAIL_FDS_SENT_MAX, "requests fit below the socket");

static int close_between(unsigned first, unsigned last)
{
	return syscall(SYS_close_range, first, last, 0) < 0 ? -errno : 0;
}

static int keep_only_socket(void)
{
	if (dup3(BIRTH_FIRST_FD, SOCKET_FD, O_CLOEXEC) < 0)
		return -errno;
	if (close_between(BIRTH_FIRST_FD, SOCKET_FD - 1) < 0)
		return -errno;
	return close_between(SOCKET_FD + 1, ~0U);
}

static int enter(enum jail_place place, struct jail_reply *reply)
{
	enum space_step step = SPACE_STEPS_;
	int r = place == JAIL_PLACE_NONE ? JAIL_OFF : space_enter(place, &step);

	reply->step = r < 0 ? step : SPACE_STEPS_;
	if (r < 0)
		return r;
	reply->kind = (uint32_t)r;
	r = confine_keys();
	if (r == 0)
		r = confine_resources((enum jail_kind)reply->kind);
	return r == 0 ? confine_gains() : r;
}

static int answer(const struct jail_reply *reply)
{
	return send(SOCKET_FD, reply, sizeof(*reply), MSG_NOSIGNAL) < 0 ? -errno : 0;
}

/* Returns the number of received descriptors, or -EPROTO when they are not numbered from
 * BIRTH_FIRST_FD on. */
static int count_descriptors(struct msghdr *m)
{
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	int fds[JAIL_FDS_SENT_MAX];
	unsigned n;

	if (!c || c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS ||
		(m->msg_flags & (MSG_CTRUNC | MSG_TRUNC)))
		return -EPROTO;
	n = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
	memcpy(fds, CMSG_DATA(c), n * sizeof(int));
	for (unsigned i = 0; i < n; i++)
		if (fds[i] != (int)(BIRTH_FIRST_FD + i))
			return -EPROTO;
	return (int)n;
}

/* Returns the bytes of a request, 0 at the end. */
static ssize_t receive(char data[JAIL_REQUEST_MAX], int *ret_fds)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int) * JAIL_FDS_SENT_MAX)];
		struct cmsghdr align;
	} control;
	struct iovec iov = {data, JAIL_REQUEST_MAX};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control.bytes,
		.msg_controllen = sizeof(control.bytes)};
	ssize_t n;

	do
		n = recvmsg(SOCKET_FD, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	*ret_fds = n > 0 ? count_descriptors(&m) : -EPROTO;
	return n;
}

static int start(char *data, size_t n, int fds, enum jail_kind kind, pid_t *ret_pid)
{
	static struct jail_request request;
	struct birth b = {.kind = kind, .request = &request, .socket = SOCKET_FD, .cgroup_fd = -1};
	int next, r = fds < 0 ? fds : jail_request_decode(data, n, (unsigned)fds, &request);

	if (r < 0)
		return r;
	next = (int)(BIRTH_FIRST_FD + request.fd_count);
	b.program_fd = next++;
	b.log_fd = next++;
	if (request.has_cgroup)
		b.cgroup_fd = next;
	return birth_give(&b, ret_pid);
}

/* Returns false at the end. */
static bool serve(enum jail_kind kind)
{
	static char data[JAIL_REQUEST_MAX];
	struct jail_reply reply = {.what = JAIL_DONE};
	pid_t pid = 0;
	int fds;
	ssize_t n = receive(data, &fds);

	if (n <= 0)
		return false;
	reply.err = start(data, (size_t)n, fds, kind, &pid);
	reply.pid = pid;
	(void)close_between(BIRTH_FIRST_FD, SOCKET_FD - 1); /* cannot fail: it worked before */
	return answer(&reply) == 0;
}

int main(int argc, char **argv)
{
	struct jail_reply ready = {.what = JAIL_READY};
	int place = argc == 2 ? jail_place_parse(argv[1]) : -EINVAL;

	if (place < 0 || keep_only_socket() < 0)
		return 2;
	confine_terminal();
	ready.err = enter((enum jail_place)place, &ready);
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* nobody but root looks into it */
	if (answer(&ready) < 0 || ready.err < 0)
		return 1;
	while (serve((enum jail_kind)ready.kind))
		;
	return 0;
}
