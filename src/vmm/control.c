#include "vmm/control.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void control_format_error(const struct error *e, const char *head, char *out)
{
	(void)snprintf(out, CONTROL_MESSAGE_MAX, "%s %d %d %s", head, (int)e->code, e->err,
		e->message); /* a message is shorter than the buffer */
}

void control_parse_error(const char *text, struct error *e)
{
	int code = 0, err = 0, at = 0;

	if (sscanf(text, "%d %d %n", &code, &err, &at) >= 2 && at > 0 && code > ERROR_NONE &&
		code < ERROR_CODES_ && err >= 0)
		(void)error_set(
			e, (enum error_code)code, err, "%s", text + at); /* only to fill e */
	else
		(void)error_set(e, ERROR_INTERNAL, EBADMSG, "%s", text); /* only to fill e */
}

void control_fds_close(struct control_fds *fds)
{
	for (unsigned i = 0; i < fds->count; i++)
		if (fds->fd[i] >= 0)
			(void)close(fds->fd[i]); /* nobody took it */
	fds->count = 0;
}

/* #calls start main snapshot: sendmsg */
int control_send(int sock, const char *text, const struct control_fds *fds)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fds && fds->count) {
		m.msg_control = &control;
		m.msg_controllen = CMSG_SPACE(fds->count * sizeof(int));
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(fds->count * sizeof(int));
		memcpy(CMSG_DATA(&control.head), fds->fd, fds->count * sizeof(int));
	}
	while (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Takes up to the maximum of descriptors and closes any further ones. */
static void take_fds(struct msghdr *m, struct control_fds *fds)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (fds->count < CONTROL_FDS_MAX)
				fds->fd[fds->count++] = fd;
			else
				(void)close(fd); /* not asked for */
		}
	}
}

/* #calls main: recvmsg */
int control_receive(int sock, char out[CONTROL_MESSAGE_MAX], struct control_fds *ret_fds)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(CONTROL_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = out, .iov_len = CONTROL_MESSAGE_MAX - 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	struct control_fds fds = {0};
	ssize_t n;

	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	take_fds(&m, &fds);
	if (ret_fds)
		*ret_fds = fds;
	else
		control_fds_close(&fds);
	out[n] = '\0';
	return n > 0;
}
