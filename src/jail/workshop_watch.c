#include "jail/workshop_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "jail/hand.h"

enum { LEAST_MS = 500, MOST_MS = 60000, SHARE = 20 };

uint64_t workshop_watch_limit(const struct workshop *w)
{
	return w->bytes_max ? w->bytes_max : WORKSHOP_BYTES_MAX;
}

bool workshop_watch_is_due(const struct workshop_measure *last, int waited_ms, uint64_t free_bytes)
{
	return waited_ms >= last->pause_ms || free_bytes + last->left_bytes < last->free_bytes;
}

/* Of the file systems with the paths. One with several of them counts as often: then it is measured
 * sooner. */
static uint64_t free_bytes(const struct workshop *w)
{
	uint64_t bytes = 0;
	struct statvfs s;

	for (unsigned i = 0; i < w->write.count; i++)
		if (statvfs(w->write.items[i], &s) == 0)
			bytes += (uint64_t)s.f_bavail * s.f_frsize;
	return bytes;
}

static int pause_after(uint64_t walk_ns)
{
	uint64_t ms = walk_ns / NS_PER_MS * SHARE;

	return ms < LEAST_MS ? LEAST_MS : ms > MOST_MS ? MOST_MS : (int)ms;
}

static int measure(const struct workshop *w, struct workshop_measure *ret)
{
	uint64_t bytes = 0, most = workshop_watch_limit(w), begin = clock_monotonic_ns();
	int r = 0;

	ret->free_bytes = free_bytes(w);
	for (unsigned i = 0; i < w->write.count && r == 0; i++)
		r = hand_measure(w->write.items[i], &bytes);
	if (r == 0 && bytes > most)
		r = -EFBIG;
	ret->left_bytes = r == 0 ? most - bytes : 0;
	ret->pause_ms = pause_after(clock_monotonic_ns() - begin);
	return r;
}

/* Until the process ends. */
static int watch(const struct workshop *w, int pid_fd)
{
	struct pollfd p = {.fd = pid_fd, .events = POLLIN};
	struct workshop_measure last = {0};
	int r = 0, waited_ms = 0;

	while (r == 0) {
		int n = poll(&p, 1, w->write.count > 0 ? LEAST_MS : -1);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		waited_ms += LEAST_MS;
		if (workshop_watch_is_due(&last, waited_ms, free_bytes(w))) {
			r = measure(w, &last);
			waited_ms = 0;
		}
	}
	return r;
}

int workshop_watch(const struct workshop *w, pid_t pid, int *status)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r = fd < 0 ? -errno : watch(w, fd);

	if (r < 0)
		(void)kill(pid, SIGKILL); /* not waited for yet, so it is ours */
	while (waitpid(pid, status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return r;
}
