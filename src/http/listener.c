#include "http/listener.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

static int listening(int fd, const struct sockaddr *a, socklen_t n)
{
	return bind(fd, a, n) < 0 || listen(fd, LISTENER_BACKLOG) < 0 ? -errno : 0;
}

int listener_tcp(const struct sockaddr_storage *a)
{
	_cleanup_close_ int fd =
		socket(a->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	socklen_t n =
		a->ss_family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
	int one = 1, r;

	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) < 0)
		return -errno;
	r = listening(fd, (const struct sockaddr *)a, n);
	return r < 0 ? r : TAKE_FD(fd);
}

int listener_unix(const char *path)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	_cleanup_close_ int fd = -1;
	mode_t mask;
	int r;

	if (strlen(path) >= sizeof(a.sun_path))
		return -ENAMETOOLONG;
	memcpy(a.sun_path, path, strlen(path));
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	(void)unlink(path); /* of a dead daemon: ours holds the store's lock */
	mask = umask(0177); /* no worker runs yet */
	r = listening(fd, (const struct sockaddr *)&a, sizeof(a));
	(void)umask(mask); /* cannot fail */
	return r < 0 ? r : TAKE_FD(fd);
}

static void on_readable(uv_poll_t *poll, int status, int events);

static void on_pause_over(uv_timer_t *t)
{
	struct listener *l = t->data;

	(void)uv_poll_start(&l->poll, UV_READABLE, on_readable); /* it did before */
}

static void rest(struct listener *l)
{
	(void)uv_poll_stop(&l->poll);					      /* always 0 */
	(void)uv_timer_start(&l->pause, on_pause_over, LISTENER_PAUSE_MS, 0); /* cannot fail */
}

static void on_readable(uv_poll_t *poll, int status, int events)
{
	struct listener *l = poll->data;

	for (unsigned i = 0; i < LISTENER_BATCH && l->fd >= 0; i++) {
		int fd = accept4(l->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

		if (fd < 0 && (errno == ECONNABORTED || errno == EINTR))
			continue;
		if (fd < 0 && errno == EAGAIN)
			return;
		if (fd < 0) {
			int r = -errno;

			rest(l);
			l->accepted(l, r);
			return;
		}
		l->accepted(l, fd);
	}
}

int listener_start(struct listener *l, uv_loop_t *loop, int fd, listener_fn *accepted)
{
	int r = uv_poll_init(loop, &l->poll, fd);

	if (r < 0) {
		(void)close(fd); /* nothing was written */
		return r;
	}
	(void)uv_timer_init(loop, &l->pause); /* cannot fail */
	l->poll.data = l->pause.data = l;
	l->fd = fd;
	l->accepted = accepted;
	r = uv_poll_start(&l->poll, UV_READABLE, on_readable);
	if (r < 0)
		listener_close(l);
	return r;
}

uint16_t listener_port(const struct listener *l)
{
	struct sockaddr_storage a;
	socklen_t n = sizeof(a);

	if (getsockname(l->fd, (struct sockaddr *)&a, &n) < 0)
		return 0;
	if (a.ss_family == AF_INET6)
		return ntohs(((const struct sockaddr_in6 *)&a)->sin6_port);
	return a.ss_family == AF_INET ? ntohs(((const struct sockaddr_in *)&a)->sin_port) : 0;
}

void listener_close(struct listener *l)
{
	if (l->fd < 0)
		return;
	uv_close((uv_handle_t *)&l->poll, NULL);
	uv_close((uv_handle_t *)&l->pause, NULL);
	(void)close(l->fd); /* nothing was written */
	l->fd = -1;
}
