#include "sandbox/launch_spawn.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

/* Makes the child inherit the listed descriptors and no others, whatever we inherited. */
static void keep_descriptors(void)
{
	/* Before Linux 5.11 the child also gets those that we inherited. */
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

int launch_spawn(const struct launch_spawn *s, pid_t *ret)
{
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attr;
	sigset_t none, all;
	int r;

	sigemptyset(&none);
	sigfillset(&all);
	posix_spawn_file_actions_init(&actions);
	posix_spawnattr_init(&attr);
	/* Its own process group: Ctrl-C at the terminal is for the owner to handle. */
	r = posix_spawnattr_setflags(
		&attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	posix_spawnattr_setsigmask(&attr, &none);
	posix_spawnattr_setsigdefault(&attr, &all);
	r = r ? r : posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDWR, 0);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, 0, 1);
	r = r ? r : posix_spawn_file_actions_adddup2(&actions, s->log_fd, 2);
	for (unsigned i = 0; i < s->fd_count; i++) /* onto itself: clears close-on-exec */
		r = r ? r : posix_spawn_file_actions_adddup2(&actions, s->fds[i], s->fds[i]);
	keep_descriptors();
	if (r == 0)
		r = posix_spawn(ret, s->path, &actions, &attr, s->argv, s->env);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attr);
	return -r;
}
