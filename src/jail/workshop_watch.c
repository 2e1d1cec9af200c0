#include "jail/workshop_watch.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "jail/hand.h"

enum { LEAST_MS = 500, MOST_MS = 60000, SHARE = 20 };

static int measure(const struct workshop *w)
{
	uint64_t bytes = 0, most = w->bytes_max ? w->bytes_max : WORKSHOP_BYTES_MAX;
	int r = 0;

	for (unsigned i = 0; i < w->write.count && r == 0; i++)
		r = hand_measure(w->write.items[i], &bytes);
	return r == 0 && bytes > most ? -EFBIG : r;
}

static int pause_after(uint64_t walk_ns)
{
	uint64_t ms = walk_ns / NS_PER_MS * SHARE;

	return ms < LEAST_MS ? LEAST_MS : ms > MOST_MS ? MOST_MS : (int)ms;
}

/* Until the process ends. */
static int watch(const struct workshop *w, int pid_fd)
{
	struct pollfd p = {.fd = pid_fd, .events = POLLIN};
	int r = 0, wait_ms = w->write.count > 0 ? LEAST_MS : -1;

	while (r == 0) {
		uint64_t begin;
		int n = poll(&p, 1, wait_ms);

		if (n > 0)
			return 0;
		if (n < 0 && errno != EINTR)
			return -errno;
		begin = clock_monotonic_ns();
		r = measure(w);
		wait_ms = pause_after(clock_monotonic_ns() - begin);
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
