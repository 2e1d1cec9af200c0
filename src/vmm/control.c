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
			e, (enum error_code)code, err, "%s", text + at); /* filled is enough */
	else
		(void)error_set(e, ERROR_INTERNAL, EBADMSG, "%s", text); /* filled is enough */
}

int control_send(int sock, const char *text, int fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control = {0};
	struct iovec iov = {.iov_base = (void *)text, .iov_len = strlen(text)};
	struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	if (fd >= 0) {
		m.msg_control = &control;
		m.msg_controllen = sizeof(control.space);
		control.head.cmsg_level = SOL_SOCKET;
		control.head.cmsg_type = SCM_RIGHTS;
		control.head.cmsg_len = CMSG_LEN(sizeof(int));
		memcpy(CMSG_DATA(&control.head), &fd, sizeof(fd));
	}
	while (sendmsg(sock, &m, MSG_NOSIGNAL) < 0)
		if (errno != EINTR)
			return -errno;
	return 0;
}

/* Takes the first descriptor that came along and closes any further ones. */
static int take_fd(struct msghdr *m)
{
	int taken = -1;

	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		size_t n;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (size_t i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (taken < 0)
				taken = fd;
			else
				(void)close(fd); /* not asked for */
		}
	}
	return taken;
}

int control_receive(int sock, char out[CONTROL_MESSAGE_MAX], int *ret_fd)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(4 * sizeof(int))];
	} control;
	struct iovec iov = {.iov_base = out, .iov_len = CONTROL_MESSAGE_MAX - 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control.space)};
	ssize_t n;
	int fd;

	do
		n = recvmsg(sock, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	fd = take_fd(&m);
	if (ret_fd)
		*ret_fd = fd;
	else if (fd >= 0)
		(void)close(fd); /* not asked for */
	out[n] = '\0';
	return n > 0;
}
