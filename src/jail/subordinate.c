#include "jail/subordinate.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"

enum { ID_CHARS = 16, MISSING = 127 };

struct range {
	unsigned own, first, count;
};

static int await(pid_t pid)
{
	int status;

	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (WIFEXITED(status) && WEXITSTATUS(status) == MISSING)
		return -ENOENT;
	return WIFEXITED(status) && WEXITSTATUS(status) == 0 ? 0 : -EPERM;
}

/* Starts newuidmap or newgidmap: PROGRAM PID INSIDE OUTSIDE COUNT... */
static int map(const char *program, pid_t pid, const struct range *r)
{
	char whom[ID_CHARS], own[ID_CHARS], first[ID_CHARS], count[ID_CHARS];
	pid_t mapper;

	(void)snprintf(whom, sizeof(whom), "%d", (int)pid);   /* fits */
	(void)snprintf(own, sizeof(own), "%u", r->own);	      /* fits */
	(void)snprintf(first, sizeof(first), "%u", r->first); /* fits */
	(void)snprintf(count, sizeof(count), "%u", r->count); /* fits */
	mapper = fork();
	if (mapper == 0) {
		(void)dup2(STDERR_FILENO, STDOUT_FILENO); /* stdout is for the program's output */
		(void)execlp(program, program, whom, "0", own, "1", "1", first, count, NULL);
		_exit(MISSING);
	}
	return mapper < 0 ? -errno : await(mapper);
}

/* Outside of the new namespace: waits until the other process is in it, and maps its ids. */
static _Noreturn void be_helper(int go_fd, pid_t pid, const struct range *u, const struct range *g)
{
	char go;
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	r = fd_read_full(go_fd, &go, 1);
	if (r == 0)
		r = map("newuidmap", pid, u);
	if (r == 0)
		r = map("newgidmap", pid, g);
	_exit(r == -ENOENT ? MISSING : r < 0);
}

int subordinate_enter(uid_t uid, gid_t gid, unsigned count)
{
	const struct range users = {geteuid(), uid, count}, groups = {getegid(), gid, count};
	pid_t self = getpid(), helper;
	int go[2], r = 0;

	if (pipe2(go, O_CLOEXEC) < 0)
		return -errno;
	helper = fork();
	if (helper == 0) {
		(void)close(go[1]); /* its end ends this process, too */
		be_helper(go[0], self, &users, &groups);
	}
	(void)close(go[0]); /* the helper's */
	if (helper < 0 || unshare(CLONE_NEWUSER) < 0)
		r = -errno;
	else
		r = fd_write_full(go[1], "", 1);
	(void)close(go[1]); /* without the byte the helper ends */
	if (helper > 0) {
		int mapped = await(helper);

		r = r < 0 ? r : mapped;
	}
	return r;
}
