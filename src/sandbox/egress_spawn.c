#include "sandbox/egress_spawn.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/str.h"
#include "io/jailed.h"
#include "io/program.h"
#include "proto/egress_reach.h"
#include "sandbox/launch_internal.h"

enum { BACKLOG = 4, ENVIRONMENT_MAX = 3, BORROWED_FDS = 3 };

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

static void pick_environment(char *env[])
{
	static const char *const names[] = {"MAYFLY_LOG=", "MAYFLY_EGRESS_IDLE_MS="};
	unsigned n = 0;

	for (char **p = environ; p && *p; p++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (str_starts_with(*p, names[i]) && n + 1 < ENVIRONMENT_MAX)
				env[n++] = *p;
	env[n] = NULL;
}

static int listen_at(int dirfd, const char *name, int type, int *ret, struct error *e)
{
	if (unlinkat(dirfd, name, 0) < 0 && errno != ENOENT)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot replace %s", name);
	*ret = fd_unix_listen(dirfd, name, type, BACKLOG);
	return *ret < 0 ? error_set_errno(e, ERROR_INTERNAL, -*ret, "cannot create %s", name) : 0;
}

static int open_files(int dirfd, int *ret_listen, int *ret_reach, int *ret_log, struct error *e)
{
	int r = listen_at(dirfd, EGRESS_REACH_SOCKET, SOCK_SEQPACKET, ret_reach, e);

	r = r ? r : listen_at(dirfd, "egress.sock", SOCK_STREAM, ret_listen, e);
	if (r < 0)
		return r;
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

int egress_spawn(int dirfd, int far_fd, const char *roots, pid_t *ret, struct error *e)
{
	_cleanup_(close_files) struct egress_fds given = {.count = BORROWED_FDS};
	_cleanup_close_ int listen_fd = -1;
	_cleanup_close_ int reach_fd = -1;
	_cleanup_close_ int log_fd = -1;
	char path[PATH_MAX], *env[ENVIRONMENT_MAX];
	char *argv[] = {(char *)"mayfly-egress", NULL};
	int r = open_files(dirfd, &listen_fd, &reach_fd, &log_fd, e);

	if (r == 0)
		r = program_path("mayfly-egress", path, sizeof(path), e);
	if (r < 0)
		return r;
	pick_environment(env);
	given.fds[0] = far_fd;
	given.fds[1] = listen_fd;
	given.fds[2] = reach_fd;
	add_file(&given, EGRESS_ROOTS);
	add_file(&given, roots);
	return jailed_start_dialler(&(struct launcher_start){.path = path,
					    .argv = argv,
					    .env = env,
					    .fds = given.fds,
					    .fd_count = given.count,
					    .log_fd = log_fd},
		ret, e);
}
