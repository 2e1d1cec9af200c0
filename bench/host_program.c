#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "host.h"

enum { OUTPUT_MAX = 256 * 1024 };

static pid_t start(const char *const argv[], int out_fd)
{
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int r;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	if (out_fd >= 0)
		posix_spawn_file_actions_adddup2(&actions, out_fd, 1);
	else
		posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
	r = posix_spawnp(&pid, argv[0], &actions, NULL, (char *const *)argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (r)
		die(argv[0], strerror(r));
	return pid;
}

static int reap(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid", strerror(errno));
	return status;
}

uint64_t time_program(const char *const argv[])
{
	uint64_t begin = clock_monotonic_ns();

	if (reap(start(argv, -1)) != 0)
		die(argv[0], "failed");
	return clock_monotonic_ns() - begin;
}

/* Reads until the mark has come. */
static bool await_mark(int fd, const char *mark, uint64_t deadline_ns)
{
	static char text[OUTPUT_MAX];
	size_t have = 0;

	while (clock_monotonic_ns() < deadline_ns && have < sizeof(text) - 1) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		ssize_t n;

		if (poll(&p, 1, 100) <= 0)
			continue;
		n = read(fd, text + have, sizeof(text) - 1 - have);
		if (n <= 0)
			return false;
		have += (size_t)n;
		text[have] = '\0';
		if (strstr(text, mark))
			return true;
	}
	return false;
}

uint64_t time_until(const char *const argv[], const char *mark, unsigned timeout_s)
{
	uint64_t begin = clock_monotonic_ns(), taken = 0;
	int out[2];
	pid_t pid;

	if (pipe2(out, O_CLOEXEC) < 0)
		die("pipe", strerror(errno));
	pid = start(argv, out[1]);
	(void)close(out[1]); /* the child has its own */
	if (await_mark(out[0], mark, begin + timeout_s * NS_PER_S))
		taken = clock_monotonic_ns() - begin;
	(void)kill(pid, SIGKILL); /* not reaped yet, so the pid is still its own */
	(void)reap(pid);	  /* killed: its status says nothing */
	(void)close(out[0]);	  /* only read */
	return taken;
}
