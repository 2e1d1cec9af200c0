#include "sandbox/egress_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "io/jailed.h"
#include "io/program.h"
#include "sandbox/cgroup.h"
#include "sandbox/launch_internal.h"

enum { BACKLOG = 4, ENVIRONMENT_MAX = 4, LIMIT_BYTES = 64, BORROWED_FDS = 2 };

/* What a worker is given: those that the caller closes, and then files. */
struct egress_fds {
	int fds[BORROWED_FDS + 2];
	unsigned count;
};

int egress_channel(int *ret_vmm, int *ret_far, struct error *e)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair) < 0)
		return error_set_errno(
			e, ERROR_NO_SPACE, errno, "cannot make the sandbox's egress channel");
	*ret_vmm = pair[0];
	*ret_far = pair[1];
	return 0;
}

static void pick_environment(char *env[], char *limit)
{
	static const char *const names[] = {"MAYFLY_LOG=", "MAYFLY_EGRESS_IDLE_MS="};
	unsigned n = 0;

	env[n++] = limit;
	for (char **p = environ; p && *p; p++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (str_starts_with(*p, names[i]) && n + 1 < ENVIRONMENT_MAX)
				env[n++] = *p;
	env[n] = NULL;
}

static int open_files(int dirfd, int *ret_listen, int *ret_log, struct error *e)
{
	if (unlinkat(dirfd, "egress.sock", 0) < 0 && errno != ENOENT)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot replace egress.sock");
	*ret_listen = fd_unix_listen(dirfd, "egress.sock", SOCK_STREAM, BACKLOG);
	if (*ret_listen < 0)
		return error_set_errno(
			e, ERROR_INTERNAL, -*ret_listen, "cannot create egress.sock");
	*ret_log = launch_open_file(dirfd, "egress.log", O_WRONLY | O_CREAT | O_APPEND);
	if (*ret_log < 0)
		return error_set_errno(e, *ret_log == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL,
			-*ret_log, "cannot create egress.log");
	return 0;
}

/* Appends a file to the descriptors of a worker, if it is there. */
static void add_file(struct egress_fds *to, const char *path)
{
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY) : -1;

	if (fd >= 0)
		to->fds[to->count++] = fd;
	else if (path)
		log_debug("authorities of TLS servers: cannot read %s: %m", path);
}

static void close_files(struct egress_fds *f)
{
	while (f->count > BORROWED_FDS)
		(void)close(f->fds[--f->count]); /* was only read */
}

/* -1: there is none. */
static int open_group(const struct egress_owner *o, int *ret, struct error *e)
{
	int fd = o->id ? cgroup_open(o->dirfd, o->id) : -ENOENT;

	*ret = fd < 0 ? -1 : fd;
	return fd < 0 && fd != -ENOENT
		       ? error_set_errno(e, ERROR_HOST, -fd, "the sandbox's control group")
		       : 0;
}

/* If this fails, the kernel chooses by size. */
static void be_killed_first(pid_t pid)
{
	char path[48];

	(void)snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)pid); /* fits */
	(void)file_write_text(AT_FDCWD, path, "1000");
}

static void say_limit(const struct egress_owner *o, char *text)
{
	(void)snprintf(text, LIMIT_BYTES, "MAYFLY_EGRESS_MEMORY_MAX=%" PRIu64,
		o->memory_bytes ? cgroup_worker_bytes(o->memory_bytes)
				: CGROUP_WORKER_MAX); /* fits */
}

int egress_spawn(
	const struct egress_owner *o, int far_fd, const char *roots, pid_t *ret, struct error *e)
{
	_cleanup_(close_files) struct egress_fds given = {.count = BORROWED_FDS};
	_cleanup_close_ int listen_fd = -1;
	_cleanup_close_ int log_fd = -1;
	_cleanup_close_ int cgroup_fd = -1;
	char path[PATH_MAX], *env[ENVIRONMENT_MAX], limit[LIMIT_BYTES];
	char *argv[] = {(char *)"mayfly-egress", NULL};
	int r = open_files(o->dirfd, &listen_fd, &log_fd, e);

	if (r == 0)
		r = program_path("mayfly-egress", path, sizeof(path), e);
	if (r == 0)
		r = open_group(o, &cgroup_fd, e);
	if (r < 0)
		return r;
	say_limit(o, limit);
	pick_environment(env, limit);
	given.fds[0] = far_fd;
	given.fds[1] = listen_fd;
	add_file(&given, EGRESS_ROOTS);
	add_file(&given, roots);
	r = jailed_start_dialler(&(struct launcher_start){.path = path,
					 .argv = argv,
					 .env = env,
					 .fds = given.fds,
					 .fd_count = given.count,
					 .log_fd = log_fd,
					 .cgroup_fd = cgroup_fd},
		ret, e);
	if (r == 0)
		be_killed_first(*ret);
	return r;
}
