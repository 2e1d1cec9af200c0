#include "base/fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

int fd_read_full(int fd, void *data, size_t n)
{
	uint8_t *p = data;

	while (n) {
		ssize_t r = read(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ENODATA;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

static ssize_t send_some(int fd, const void *data, size_t n)
{
	return send(fd, data, n, MSG_NOSIGNAL);
}

static int put_full(ssize_t (*call)(int, const void *, size_t), int fd, const void *data, size_t n)
{
	const uint8_t *p = data;

	while (n) {
		ssize_t r = call(fd, p, n);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		p += r;
		n -= (size_t)r;
	}
	return 0;
}

int fd_write_full(int fd, const void *data, size_t n)
{
	return put_full(write, fd, data, n);
}

int fd_send_full(int fd, const void *data, size_t n)
{
	return put_full(send_some, fd, data, n);
}

int fd_pread_full(int fd, void *data, size_t n, off_t offset)
{
	uint8_t *p = data;

	while (n) {
		ssize_t r = pread(fd, p, n, offset);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ENODATA;
		p += r;
		n -= (size_t)r;
		offset += r;
	}
	return 0;
}

static int whole_vector(ssize_t (*call)(int, const struct iovec *, int, off_t), int fd,
	struct iovec *iov, unsigned count, off_t offset)
{
	while (count) {
		ssize_t r = call(fd, iov, (int)count, offset);

		if (r < 0 && errno == EINTR)
			continue;
		if (r < 0)
			return -errno;
		if (r == 0)
			return -ENODATA;
		offset += r;
		for (; count && (size_t)r >= iov->iov_len; iov++, count--)
			r -= (ssize_t)iov->iov_len;
		if (r) {
			iov->iov_base = (uint8_t *)iov->iov_base + r;
			iov->iov_len -= (size_t)r;
		}
	}
	return 0;
}

int fd_pwrite_full(int fd, const void *data, size_t n, off_t offset)
{
	struct iovec iov = {(void *)data, n};

	return whole_vector(pwritev, fd, &iov, n > 0, offset);
}

int fd_preadv_full(int fd, struct iovec *iov, unsigned count, off_t offset)
{
	return whole_vector(preadv, fd, iov, count, offset);
}

int fd_pwritev_full(int fd, struct iovec *iov, unsigned count, off_t offset)
{
	return whole_vector(pwritev, fd, iov, count, offset);
}

ssize_t fd_send_peer(int fd, const void *data, size_t n)
{
	return send(fd, data, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

ssize_t fd_send(int fd, const void *data, size_t n)
{
	struct iovec iov = {(void *)data, n};
	const struct msghdr m = {.msg_iov = &iov, .msg_iovlen = 1};

	return sendmsg(fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int set_flag(int fd, int get, int set, int flag, int on)
{
	int flags = fcntl(fd, get);

	if (flags < 0)
		return -errno;
	flags = on ? flags | flag : flags & ~flag;
	return fcntl(fd, set, flags) < 0 ? -errno : 0;
}

int fd_set_nonblock(int fd, int on)
{
	return set_flag(fd, F_GETFL, F_SETFL, O_NONBLOCK, on);
}

bool fd_is_scarce(int fd)
{
	struct rlimit l;
	rlim_t reserve;

	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return false; /* never, with a valid address */
	reserve = l.rlim_cur / 4 < FD_RESERVE ? l.rlim_cur / 4 : FD_RESERVE;
	return (rlim_t)fd >= l.rlim_cur - reserve;
}

static int unix_address(int dirfd, const char *name, struct sockaddr_un *sa)
{
	int n;

	*sa = (struct sockaddr_un){.sun_family = AF_UNIX};
	n = snprintf(sa->sun_path, sizeof(sa->sun_path), "/proc/self/fd/%d/%s", dirfd, name);
	return n < 0 || (size_t)n >= sizeof(sa->sun_path) ? -ENAMETOOLONG : 0;
}

int fd_unix_listen(int dirfd, const char *name, int type, int backlog)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa;
	int r = unix_address(dirfd, name, &sa);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	if (bind(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 || listen(fd, backlog) < 0)
		return -errno;
	return TAKE_FD(fd);
}

int fd_unix_connect(int dirfd, const char *name, int type)
{
	_cleanup_close_ int fd = -1;
	struct sockaddr_un sa;
	int r = unix_address(dirfd, name, &sa);

	if (r < 0)
		return r;
	fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	while (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0)
		if (errno != EINTR)
			return -errno;
	return TAKE_FD(fd);
}
