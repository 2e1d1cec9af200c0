#include "sandbox/launch.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "io/jailed.h"
#include "io/program.h"
#include "sandbox/launch_internal.h"

enum { ENVIRONMENT_MAX = 5 };

static int take_lock(int dirfd, struct error *e)
{
	_cleanup_close_ int fd = launch_open_file(dirfd, "lock", O_RDWR | O_CREAT);

	if (fd < 0)
		return error_set_errno(e, fd == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -fd,
			"cannot create the sandbox's lock");
	/* Blocks: someone who only checks the lock holds it for a moment. */
	while (flock(fd, LOCK_EX) < 0)
		if (errno != EINTR)
			return error_set_errno(e, ERROR_INTERNAL, errno, "cannot lock the sandbox");
	return TAKE_FD(fd);
}

/* The microVM gets from our environment only its log level and, for test builds of it, its fault
 * points. Every build passes them on, as tests put such a microVM under an ordinary daemon. A
 * released mayfly-vmm reads neither of the two. */
static void pick_environment(char *env[], unsigned max)
{
	static const char *const names[] = {"MAYFLY_LOG=", "MAYFLY_FAULT=", "MAYFLY_FAULT_CPUID="};
	unsigned n = 0;

	for (char **p = environ; p && *p; p++)
		for (size_t i = 0; i < ARRAY_SIZE(names); i++)
			if (str_starts_with(*p, names[i]) && n + 1 < max)
				env[n++] = *p;
	env[n] = NULL;
}

static int start(
	const struct vmm_launch *l, struct vmm *v, struct launch_command *c, struct error *e)
{
	_cleanup_close_ int log_fd = -1;
	_cleanup_close_ int dirfd = -1;
	char path[PATH_MAX], *env[ENVIRONMENT_MAX];
	int pair[2], owner, r;

	dirfd = open(l->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dirfd < 0)
		return error_set_errno(e, ERROR_NOT_FOUND, errno, "cannot open %s", l->dir);
	v->lock_fd = take_lock(dirfd, e);
	if (v->lock_fd < 0)
		return v->lock_fd;
	launch_command_pass_fd(c, fcntl(v->lock_fd, F_DUPFD_CLOEXEC, 3));
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "socketpair");
	v->owner_fd = pair[0];
	owner = launch_command_pass_fd(c, pair[1]);
	log_fd = launch_open_file(dirfd, "vmm.log", O_WRONLY | O_CREAT | O_APPEND);
	if (log_fd < 0)
		return error_set_errno(e, log_fd == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL,
			-log_fd, "cannot create vmm.log");
	r = program_path("mayfly-vmm", path, sizeof(path), e);
	if (r == 0)
		r = launch_command_build(c, l, dirfd, owner, e);
	if (r < 0)
		return r;
	pick_environment(env, ARRAY_SIZE(env));
	return jailed_start(&(struct launcher_start){.path = path,
				    .argv = c->argv,
				    .env = env,
				    .fds = c->fds,
				    .fd_count = c->fd_count,
				    .log_fd = log_fd,
				    .cgroup_fd = l->cgroup_fd},
		&v->pid, &v->jail, e);
}

int vmm_launch(const struct vmm_launch *l, struct vmm **ret, struct error *e)
{
	struct vmm *v = calloc(1, sizeof(*v));
	struct launch_command c = {0};
	int r;

	if (!v)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	v->owner_fd = v->lock_fd = -1;
	for (unsigned i = 0; i < l->disk_count; i++)
		v->writable[i] = l->disks[i].delta != NULL;
	r = start(l, v, &c, e);
	launch_command_done(&c);
	if (r < 0) {
		vmm_stop(v);
		return r;
	}
	*ret = v;
	return 0;
}

int vmm_fd(const struct vmm *v)
{
	return v->owner_fd;
}

pid_t vmm_pid(const struct vmm *v)
{
	return v->pid;
}

enum jail_kind vmm_jail(const struct vmm *v)
{
	return v->jail;
}

void vmm_stop(struct vmm *v)
{
	if (!v)
		return;
	launch_end_process(v);
	vmm_release(v);
}

void vmm_release(struct vmm *v)
{
	if (!v)
		return;
	cleanup_close_p(&v->owner_fd);
	cleanup_close_p(&v->lock_fd);
	free(v);
}

int vmm_dir_is_live(int dirfd)
{
	_cleanup_close_ int fd = file_open_foreign(dirfd, "lock", O_RDONLY, VMM_FILE_MAX);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (flock(fd, LOCK_SH | LOCK_NB) == 0)
		return 0; /* closing releases it */
	return errno == EWOULDBLOCK ? 1 : -errno;
}
