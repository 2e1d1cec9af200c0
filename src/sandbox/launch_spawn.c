#include "sandbox/launch_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Makes the child inherit the listed descriptors and no others, whatever we inherited. */
static void keep_descriptors(void)
{
	/* Before Linux 5.11 the child also gets those that we inherited. */
	(void)close_range(3, ~0U, CLOSE_RANGE_CLOEXEC);
}

/* --- into a control group --- */

/* Runs on the stack of its waiting parent. So it only makes system calls. */
static _Noreturn void become(const struct launch_spawn *s, volatile int *err)
{
	struct sigaction by_default = {.sa_handler = SIG_DFL};
	sigset_t none;
	int null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	for (int n = 1; n < NSIG; n++)
		(void)sigaction(n, &by_default, NULL); /* some cannot be set */
	if (null_fd < 0 || setpgid(0, 0) < 0 || dup2(null_fd, 0) < 0 || dup2(null_fd, 1) < 0 ||
		dup2(s->log_fd, 2) < 0)
		goto fail;
	for (unsigned i = 0; i < s->fd_count; i++)
		if (fcntl(s->fds[i], F_SETFD, 0) < 0)
			goto fail;
	(void)sigemptyset(&none); /* cannot fail; the next likewise */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	(void)execve(s->path, s->argv, s->env);
fail:
	*err = errno;
	_exit(127);
}

/* vfork into the group. Moving a process there later makes the kernel wait for all CPUs. Must be
 * inlined: the child runs on the same stack, so this function must not return in it. */
static inline __attribute__((always_inline)) long vfork_into(int cgroup_fd)
{
	const struct clone_args a = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)cgroup_fd,
	};
	long pid;

	__asm__ volatile("syscall"
			 : "=a"(pid)
			 : "0"(SYS_clone3), "D"(&a), "S"(sizeof(a))
			 : "rcx", "r11", "memory");
	return pid;
}

/* No handler of ours may run in the child, whose memory is ours. */
static int spawn_in_group(const struct launch_spawn *s, pid_t *ret)
{
	volatile int err = 0;
	sigset_t all, before;
	long pid;

	sigfillset(&all);
	(void)pthread_sigmask(SIG_BLOCK, &all, &before); /* cannot fail; the next likewise */
	keep_descriptors();
	pid = vfork_into(s->cgroup_fd);
	if (pid == 0)
		become(s, &err);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	if (pid < 0)
		return (int)pid;
	if (err) {
		while (waitpid((pid_t)pid, NULL, 0) < 0 && errno == EINTR)
			;
		return -err;
	}
	*ret = (pid_t)pid;
	return 0;
}

/* --- into our own --- */

static int spawn_here(const struct launch_spawn *s, pid_t *ret)
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

int launch_spawn(const struct launch_spawn *s, pid_t *ret)
{
	return s->cgroup_fd > 0 ? spawn_in_group(s, ret) : spawn_here(s, ret);
}
