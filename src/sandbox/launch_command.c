#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "sandbox/host_cpu.h"
#include "sandbox/launch_internal.h"
#include "vmm/kvm.h"

enum {
	VSOCK_BACKLOG = 4096, /* as in the agent */
	CONTROL_BACKLOG = 16
};

void launch_command_done(struct launch_command *c)
{
	for (unsigned i = 0; i < c->argc; i++)
		free(c->argv[i]);
	for (unsigned i = 0; i < c->fd_count; i++)
		(void)close(c->fds[i]); /* the child has its own */
}

static void add_arg(struct launch_command *c, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void add_arg(struct launch_command *c, const char *fmt, ...)
{
	va_list ap;
	char *s = NULL;
	int r;

	va_start(ap, fmt);
	r = vasprintf(&s, fmt, ap);
	va_end(ap);
	if (r < 0 || c->argc == LAUNCH_ARGS_MAX) {
		free(r < 0 ? NULL : s);
		c->err = -ENOMEM;
		return;
	}
	c->argv[c->argc++] = s;
}

int launch_command_pass_fd(struct launch_command *c, int fd)
{
	if (c->fd_count == LAUNCH_FDS_MAX) {
		(void)close(fd); /* never used */
		c->err = -E2BIG;
		return -1;
	}
	c->fds[c->fd_count] = fd;
	return (int)(LAUNCH_FIRST_FD + c->fd_count++);
}

int launch_open_file(int dirfd, const char *path, int flags)
{
	_cleanup_close_ int made = -1;

	if (flags & O_CREAT) { /* O_EXCL does not follow links either */
		made = openat(dirfd, path, flags | O_EXCL | O_CLOEXEC, 0600);
		if (made >= 0 || errno != EEXIST)
			return made < 0 ? -errno : TAKE_FD(made);
	}
	return file_open_foreign(dirfd, path, flags & ~O_CREAT, VMM_FILE_MAX);
}

static int pass_file(
	struct launch_command *c, int dirfd, const char *path, int flags, struct error *e)
{
	int fd = launch_open_file(dirfd, path, flags);

	if (fd < 0)
		return error_set_errno(e,
			fd == -ENOSPC || fd == -EDQUOT ? ERROR_NO_SPACE
			: fd == -ENOENT		       ? ERROR_NOT_FOUND
						       : ERROR_BAD_SNAPSHOT,
			-fd, "cannot open %s", path);
	return launch_command_pass_fd(c, fd);
}

static int add_disk(struct launch_command *c, int dirfd, const struct vmm_disk *d, struct error *e)
{
	char spec[512];
	int n, fd = pass_file(c, AT_FDCWD, d->base, O_RDONLY, e);

	if (fd < 0)
		return fd;
	n = snprintf(spec, sizeof(spec), "base=%d", fd);
	for (unsigned i = 0; i < d->layer_count; i++) {
		fd = pass_file(c, AT_FDCWD, d->layers[i], O_RDONLY, e);
		if (fd < 0)
			return fd;
		n += snprintf(spec + n, sizeof(spec) - (size_t)n, ",%s=%d",
			i < d->image_deltas ? "image" : "layer", fd);
	}
	if (d->delta) {
		fd = pass_file(c, dirfd, d->delta, O_RDWR | O_CREAT, e);
		if (fd < 0)
			return fd;
		n += snprintf(spec + n, sizeof(spec) - (size_t)n, ",delta=%d", fd);
	}
	if (d->bytes)
		(void)snprintf(spec + n, sizeof(spec) - (size_t)n, ",bytes=%llu",
			(unsigned long long)d->bytes); /* 16 layers of 12 characters fit */
	add_arg(c, "--disk=%s", spec);
	return 0;
}

/* Opens one file of a snapshot and passes it as the option's descriptor. name is relative to
 * dirfd. */
static int add_file(
	struct launch_command *c, const char *option, int dirfd, const char *name, struct error *e)
{
	int fd = pass_file(c, dirfd, name, O_RDONLY, e);

	if (fd >= 0)
		add_arg(c, "--%s=%d", option, fd);
	return fd < 0 ? fd : 0;
}

static int add_snapshot(struct launch_command *c, const struct vmm_launch *l, struct error *e)
{
	_cleanup_close_ int dirfd = open(l->snapshot, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const char *memory = l->memory ? l->memory : "memory", *hot = l->hot ? l->hot : "hot";
	int r;

	if (dirfd < 0)
		return error_set_errno(
			e, ERROR_NOT_FOUND, errno, "cannot open the snapshot %s", l->snapshot);
	if (l->layer_count > SNAPSHOT_LAYERS_MAX)
		return error_set(
			e, ERROR_LIMIT, EINVAL, "more than %d memory layers", SNAPSHOT_LAYERS_MAX);
	r = add_file(c, "state-fd", dirfd, "state", e);
	if (r == 0)
		r = add_file(c, "memory-fd", dirfd, memory, e);
	for (unsigned i = 0; i < l->layer_count && r == 0; i++)
		r = add_file(c, "layer-fd", dirfd, l->layers[i], e);
	if (r == 0 && faccessat(dirfd, hot, R_OK, 0) == 0) /* only a hint */
		r = add_file(c, "hot-fd", dirfd, hot, e);
	if (l->check_layers)
		add_arg(c, "--check-layers");
	add_arg(c, "--host-cpu=%" PRIu64, host_cpu_hash());
	if (l->rehearse)
		add_arg(c, "--rehearse");
	return r;
}

static int add_source(struct launch_command *c, const struct vmm_launch *l, struct error *e)
{
	int r;

	if (l->snapshot)
		return add_snapshot(c, l, e);
	r = add_file(c, "kernel-fd", AT_FDCWD, l->kernel, e);
	if (r == 0 && l->initrd)
		r = add_file(c, "initrd-fd", AT_FDCWD, l->initrd, e);
	if (r == 0 && l->cpu_baseline)
		r = add_file(c, "baseline-fd", AT_FDCWD, l->cpu_baseline, e);
	add_arg(c, "--cmdline=%s", l->cmdline);
	add_arg(c, "--cpus=%u", l->cpus);
	add_arg(c, "--memory-bytes=%llu", (unsigned long long)l->memory_bytes);
	return r;
}

static int add_sockets(struct launch_command *c, int dirfd, struct error *e)
{
	int vsock = fd_unix_listen(dirfd, "vsock.sock", SOCK_STREAM, VSOCK_BACKLOG);
	int control;

	if (vsock < 0)
		return error_set_errno(e, ERROR_INTERNAL, -vsock, "cannot create vsock.sock");
	add_arg(c, "--vsock-fd=%d", launch_command_pass_fd(c, vsock));
	control = fd_unix_listen(dirfd, "control.sock", SOCK_SEQPACKET, CONTROL_BACKLOG);
	if (control < 0)
		return error_set_errno(e, ERROR_INTERNAL, -control, "cannot create control.sock");
	add_arg(c, "--control-fd=%d", launch_command_pass_fd(c, control));
	return 0;
}

static void add_egress(struct launch_command *c, int channel)
{
	int fd = fcntl(channel, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		c->err = -errno;
	else
		add_arg(c, "--egress-fd=%d", launch_command_pass_fd(c, fd));
}

/* Passes what the process would otherwise open by path. */
static int add_host(struct launch_command *c, int dirfd, struct error *e)
{
	int kvm = kvm_open(e), proc, console;

	if (kvm < 0)
		return kvm;
	add_arg(c, "--kvm-fd=%d", launch_command_pass_fd(c, kvm));
	proc = open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (proc < 0)
		return error_set_errno(e, ERROR_HOST, errno, "cannot open /proc");
	add_arg(c, "--proc-fd=%d", launch_command_pass_fd(c, proc));
	console = pass_file(c, dirfd, "console.log", O_RDWR | O_CREAT, e);
	if (console >= 0)
		add_arg(c, "--console-fd=%d", console);
	return console < 0 ? console : 0;
}

int launch_command_build(struct launch_command *c, const struct vmm_launch *l, int dirfd,
	int owner_fd, struct error *e)
{
	int r;

	add_arg(c, "mayfly-vmm");
	add_arg(c, "--owner-fd=%d", owner_fd);
	r = add_host(c, dirfd, e);
	if (r == 0)
		r = add_sockets(c, dirfd, e);
	if (r == 0 && l->egress_fd > 0)
		add_egress(c, l->egress_fd);
	if (r == 0)
		r = add_source(c, l, e);
	for (unsigned i = 0; i < l->disk_count && r == 0; i++)
		r = add_disk(c, dirfd, &l->disks[i], e);
	if (l->paused)
		add_arg(c, "--paused");
	if (l->keep)
		add_arg(c, "--keep");
	if (r == 0 && c->err)
		r = error_set_errno(
			e, ERROR_INTERNAL, -c->err, "cannot build the VMM's command line");
	return r;
}
