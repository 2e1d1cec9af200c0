#include "spawn.h"

#include <errno.h>
#include <linux/sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "guest.h"

/* Everything below runs in the child, in the parent's memory. It makes only system calls, and
 * writes only to the stack, errno and *f. It sets the credentials by raw system calls, because
 * libc's wrappers try to notify other threads. */

static void __attribute__((noreturn))
child_fail(volatile struct spawn_failure *f, enum spawn_stage stage, int err)
{
	f->stage = stage;
	f->err = err;
	_exit(127);
}

static void child_exec(const struct spawn *s, const char *path, volatile struct spawn_failure *f)
{
	static const struct timespec pause = {.tv_nsec = 4 * 1000 * 1000};

	/* A forked helper may hold the file open for writing for a moment. */
	f->err = 0; /* what the parent sees after a successful exec */
	for (int i = 0; i < 5; i++) {
		execve(path, (char *const *)s->argv, (char *const *)s->env);
		if (errno != ETXTBSY)
			break;
		(void)nanosleep(&pause, NULL); /* a shorter wait is fine */
	}
	f->err = errno;
	f->exists = (f->err != ENOENT && f->err != ENOTDIR) || access(path, F_OK) == 0;
}

/* Like execvp, but distinguishes a missing interpreter from a missing file. */
static void child_search(const struct spawn *s, volatile struct spawn_failure *f)
{
	char path[AGENT_PATH_MAX + 1];
	const char *p = s->search_path;
	bool denied = false;

	while (p) {
		const char *end = strchrnul(p, ':');
		int n = snprintf(path, sizeof(path), "%.*s%s%s", (int)(end - p), p,
			end > p ? "/" : "./", s->argv[0]);

		if (n > 0 && (size_t)n < sizeof(path)) {
			child_exec(s, path, f);
			if (f->exists && f->err != EACCES)
				return;
			denied |= f->exists;
		}
		p = *end ? end + 1 : NULL;
	}
	f->exists = denied;
	f->err = denied ? EACCES : ENOENT;
}

static void child_become(const struct user *u, volatile struct spawn_failure *f)
{
	/* The agent is root without supplementary groups: plain root needs nothing. */
	if (guest.init && u->uid == 0 && u->gid == 0 && u->group_count == 1)
		return;
	if (geteuid() != 0 && u->uid == geteuid())
		return; /* under test, as an ordinary user */
	if (syscall(SYS_setgroups, u->group_count, u->groups) < 0 ||
		syscall(SYS_setresgid, u->gid, u->gid, u->gid) < 0 ||
		syscall(SYS_setresuid, u->uid, u->uid, u->uid) < 0)
		child_fail(f, SPAWN_USER, errno);
}

static void __attribute__((noinline, noreturn))
child_main(const struct spawn *s, volatile struct spawn_failure *f)
{
	sigset_t none;

	(void)setsid(); /* cannot fail: a new child leads no group */
	if (s->tty && ioctl(s->in, TIOCSCTTY, 0) < 0)
		child_fail(f, SPAWN_TTY, errno);
	if (dup2(s->in, 0) < 0 || dup2(s->out, 1) < 0 || dup2(s->err, 2) < 0)
		child_fail(f, SPAWN_TTY, errno);
	child_become(s->user, f);
	if (chdir(s->cwd) < 0) {
		if (!s->cwd_optional)
			child_fail(f, SPAWN_CWD, errno);
		(void)!chdir("/"); /* the home does not exist */
	}
	(void)sigemptyset(&none); /* cannot fail; the next likewise */
	(void)sigprocmask(SIG_SETMASK, &none, NULL);
	if (strchr(s->argv[0], '/'))
		child_exec(s, s->argv[0], f);
	else if (s->argv[0][0])
		child_search(s, f);
	else
		f->err = ENOENT;
	f->stage = SPAWN_EXEC;
	_exit(127);
}

/* vfork into the control group for processes, if there is one. Moving a process there later makes
 * the kernel wait for all CPUs. Must be inlined: the child runs on the stack of its waiting parent,
 * so this function must not return in the child. */
static inline __attribute__((always_inline)) pid_t vfork_into_cgroup(void)
{
	const struct clone_args a = {
		.flags = CLONE_VM | CLONE_VFORK | CLONE_INTO_CGROUP,
		.exit_signal = SIGCHLD,
		.cgroup = (uint64_t)guest.cgroup_fd,
	};
	long pid;

	__asm__ volatile("syscall"
			 : "=a"(pid)
			 : "0"(SYS_clone3), "D"(&a), "S"(sizeof(a))
			 : "rcx", "r11", "memory");
	return (pid_t)pid;
}

pid_t spawn(const struct spawn *s, struct spawn_failure *ret)
{
	volatile struct spawn_failure f = {.err = 0};
	pid_t pid = guest.cgroup_fd >= 0 ? vfork_into_cgroup() : -1;

	if (pid < 0) /* there is no group, or root in the guest has removed it */
		pid = vfork();
	if (pid == 0)
		child_main(s, &f);
	if (pid < 0) {
		*ret = (struct spawn_failure){.stage = SPAWN_FORK, .err = errno};
		return -1;
	}
	if (f.err) {
		*ret = (struct spawn_failure){.stage = f.stage, .err = f.err, .exists = f.exists};
		return -1; /* the main loop reaps it */
	}
	return pid;
}
