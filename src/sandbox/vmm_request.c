#include "sandbox/vmm_request.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/str.h"

int vmm_await_readable(int fd, uint64_t deadline_ns)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	for (;;) {
		int ms = clock_ms_until(deadline_ns, INT_MAX), r;

		if (ms == 0)
			return -ETIMEDOUT;
		r = poll(&p, 1, ms);
		if (r > 0)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
	}
}

int vmm_take_reply(const char *text, char *reply, size_t reply_bytes, struct error *e)
{
	if (str_starts_with(text, "error ")) {
		control_parse_error(text + strlen("error "), e);
		return e && e->err ? -e->err : -EIO;
	}
	if (reply)
		(void)snprintf(reply, reply_bytes, "%s",
			str_starts_with(text, "ok ") ? text + 3
						     : ""); /* the caller limits the size */
	return 0;
}

int vmm_ask(
	int dirfd, const char *text, const struct control_fds *fds, int *ret_sock, struct error *e)
{
	int r = *ret_sock = fd_unix_connect(dirfd, "control.sock", SOCK_SEQPACKET);

	if (r < 0)
		return error_set(e, ERROR_NOT_FOUND, -r, "no microVM is running there");
	r = control_send(*ret_sock, text, fds);
	return r < 0 ? error_set(e, ERROR_SANDBOX, -r, "the microVM has ended") : 0;
}

int vmm_await_answer(int sock, const char *request, uint64_t limit_ns,
	char answer[CONTROL_MESSAGE_MAX], struct error *e)
{
	int r = vmm_await_readable(sock, clock_monotonic_ns() + limit_ns);

	if (r == 0)
		r = control_receive(sock, answer, NULL);
	if (r == -ETIMEDOUT)
		return error_set(
			e, ERROR_TIMEOUT, ETIMEDOUT, "the VMM did not answer \"%s\"", request);
	return r > 0 ? 0
		     : error_set(e, ERROR_SANDBOX, r ? -r : ECONNRESET, "the microVM has ended");
}

static int request(int dirfd, const char *text, const struct control_fds *fds, char *reply,
	size_t reply_bytes, struct error *e)
{
	_cleanup_close_ int sock = -1;
	char answer[CONTROL_MESSAGE_MAX];
	int r = vmm_ask(dirfd, text, fds, &sock, e);

	if (r == 0)
		r = vmm_await_answer(sock, text, 10 * NS_PER_S, answer, e);
	return r < 0 ? r : vmm_take_reply(answer, reply, reply_bytes, e);
}

int vmm_request(int dirfd, const char *text, char *reply, size_t reply_bytes, struct error *e)
{
	return request(dirfd, text, NULL, reply, reply_bytes, e);
}

int vmm_set_egress(int dirfd, int channel, struct error *e)
{
	const struct control_fds fds = {.fd = {channel}, .count = channel >= 0};

	return request(dirfd, "network", &fds, NULL, 0, e);
}

int vmm_freeze_disk(int dirfd, int delta_fd, struct error *e)
{
	const struct control_fds fds = {.fd = {delta_fd}, .count = 1};
	char answer[CONTROL_MESSAGE_MAX];
	_cleanup_close_ int sock = -1;
	int r = vmm_ask(dirfd, "freeze-disk", &fds, &sock, e);

	if (r == 0)
		r = vmm_await_answer(sock, "freeze-disk", VMM_REQUEST_MS * NS_PER_MS, answer, e);
	return r < 0 ? r : vmm_take_reply(answer, NULL, 0, e);
}
