/* A machine (build/machine.h) without a microVM, for test_builder: an agent that has a directory
 * as its root. Its disk is real, and has the directory as a tar archive: the archive's size in the
 * first block, and then the archive.
 *
 * DOUBLE_BASE is the directory that empty disks stand for. Each start adds a line to DOUBLE_LOG. A
 * saved machine is its disk and an empty `state`. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "build/layers.h"
#include "build/machine_internal.h"
#include "vmm/disk.h"

enum { WAIT_MS = 20, PATH_BYTES = 512 };

#define DISK_BYTES (UINT64_C(4096) << 20)

struct double_machine {
	struct machine m; /* first */
	pid_t pid;
	char dir[PATH_BYTES];
};

static struct double_machine *of(struct machine *m)
{
	return (struct double_machine *)(void *)m;
}

/* Runs a command that knows the machine's directory as $DIR. */
static int shell(const struct double_machine *x, const char *command, struct error *e)
{
	if (setenv("DIR", x->dir, 1) < 0 || system(command) != 0)
		return error_set(e, ERROR_INTERNAL, EIO, "%s", command);
	return 0;
}

/* --- the disk --- */

static int open_image(int dirfd, struct disk **ret, struct error *e)
{
	int base = openat(dirfd, image_file_name(IMAGE_EXT4), O_RDONLY | O_CLOEXEC),
	    deltas[LAYERS_DELTAS_MAX];
	unsigned n = layers_count(dirfd);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < n; i++) {
		image_delta_name(i, name);
		deltas[i] = openat(dirfd, name, O_RDONLY | O_CLOEXEC);
	}
	return disk_open(base, deltas, n, -1, DISK_BYTES, ret, e);
}

/* The archive of a disk: 1, or 0 if it is empty. */
static int read_archive(const struct double_machine *x, struct error *e)
{
	char path[PATH_BYTES + 16], block[DISK_BLOCK_BYTES];
	_cleanup_close_ int fd = -1;
	struct disk *d = NULL;
	uint64_t n = 0;
	int r;

	(void)snprintf(path, sizeof(path), "%s/archive", x->dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || !layers_count(x->m.o.image_fd))
		return fd < 0 ? -errno : 0;
	r = open_image(x->m.o.image_fd, &d, e);
	if (r == 0)
		r = disk_read(d, 0, block, sizeof(block));
	memcpy(&n, block, sizeof(n));
	for (uint64_t at = 0; r == 0 && at < n; at += sizeof(block)) {
		r = disk_read(d, DISK_BLOCK_BYTES + at, block, sizeof(block));
		if (r == 0 && write(fd, block, sizeof(block)) != sizeof(block))
			r = -EIO;
	}
	disk_close(d);
	return r < 0 ? r : n > 0;
}

static int fill_root(const struct double_machine *x, struct error *e)
{
	int r = read_archive(x, e);

	if (r == 0)
		return shell(x, "cp -a \"$DOUBLE_BASE/.\" \"$DIR/root\"", e);
	return r < 0 ? r : shell(x, "tar -xf $DIR/archive -C $DIR/root", e);
}

static int write_delta(struct double_machine *x, const char *name, struct error *e)
{
	char path[PATH_BYTES + 16], block[DISK_BLOCK_BYTES] = "";
	struct disk *d;
	_cleanup_close_ int fd = -1;
	uint64_t at = DISK_BLOCK_BYTES, size = 0;
	int top = openat(x->m.fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600), r;

	(void)snprintf(path, sizeof(path), "%s/archive", x->dir);
	r = shell(
		x, "tar -C $DIR/root --exclude=./proc/* --exclude=./socket -cf $DIR/archive .", e);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (r < 0 || fd < 0 || top < 0)
		return -EIO;
	r = disk_open(open("/dev/null", O_RDONLY | O_CLOEXEC), NULL, 0, top, DISK_BYTES, &d, e);
	while (r == 0 && read(fd, block, sizeof(block)) > 0) {
		r = disk_write(d, at, block, sizeof(block));
		at += sizeof(block);
		memset(block, 0, sizeof(block));
		size += sizeof(block);
	}
	memcpy(block, &size, sizeof(size));
	if (r == 0)
		r = disk_write(d, 0, block, sizeof(block));
	if (r == 0)
		r = disk_flush(d);
	disk_close(d);
	return r;
}

/* --- its life --- */

static void start_agent(struct double_machine *x)
{
	static const char enter[] = "mount --make-rprivate / && mount --bind \"$1\" \"$1\" && "
				    "mount -t proc proc \"$1/proc\" && "
				    "exec chroot \"$1\" /agent --test-listen /socket";
	char root[PATH_BYTES + 16];

	(void)snprintf(root, sizeof(root), "%s/root", x->dir);
	x->pid = fork();
	if (x->pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
		(void)execlp("unshare", "unshare", "-m", "sh", "-c", enter, "sh", root, NULL);
		_exit(127);
	}
}

static int connect_agent(struct double_machine *x, struct error *e)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	char path[64];
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d/root/socket", x->m.fd);
	memcpy(a.sun_path, path, sizeof(path));
	while (connect(fd, (struct sockaddr *)&a, sizeof(a)) < 0) {
		if (waitpid(x->pid, NULL, WNOHANG) != 0)
			return error_set(e, ERROR_INTERNAL, EIO, "the agent has ended");
		(void)usleep(WAIT_MS * 1000);
	}
	return agent_open(fd, 0, &x->m.agent, e);
}

static void note_start(const struct machine_options *o)
{
	FILE *f = fopen(getenv("DOUBLE_LOG"), "a");

	if (f) {
		(void)fprintf(f, "%s%s\n", o->saved ? "saved " : "", o->name);
		(void)fclose(f);
	}
}

int machine_start(const struct machine_options *o, struct machine **ret, struct error *e)
{
	struct double_machine *x = calloc(1, sizeof(*x));
	char path[64];
	int r;

	note_start(o);
	x->m.o = *o;
	(void)mkdirat(o->work_fd, o->name, 0700);
	x->m.fd = openat(o->work_fd, o->name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)mkdirat(x->m.fd, "root", 0755);
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", x->m.fd);
	(void)!readlink(path, x->dir, sizeof(x->dir) - 1);
	if (o->saved && faccessat(o->image_fd, "state", F_OK, 0) < 0)
		r = error_set(e, ERROR_BAD_SNAPSHOT, ENOENT, "no state");
	else
		r = fill_root(x, e);
	if (r == 0) {
		start_agent(x);
		r = connect_agent(x, e);
	}
	if (r < 0)
		machine_stop(&x->m);
	else
		*ret = &x->m;
	return r;
}

static void end_agent(struct double_machine *x)
{
	agent_close(TAKE_PTR(x->m.agent));
	if (x->pid > 0) {
		(void)kill(x->pid, SIGKILL);
		(void)waitpid(x->pid, NULL, 0);
	}
	x->pid = 0;
}

void machine_stop(struct machine *m)
{
	if (!m)
		return;
	end_agent(of(m));
	(void)close(m->fd);
	(void)shell(of(m), "rm -rf $DIR", NULL);
	free(m);
}

int machine_set_network(struct machine *m, const struct machine_network *n, struct error *e)
{
	return 0;
}

unsigned machine_freezes(const struct machine *m)
{
	return m->freezes;
}

int machine_freeze(struct machine *m, int to_fd, struct error *e)
{
	char name[IMAGE_DELTA_NAME_BYTES];
	int r;

	image_delta_name(m->freezes++, name);
	r = write_delta(of(m), name, e);
	return r < 0 ? r : layers_add(m->fd, name, to_fd, e);
}

int machine_save(struct machine *m, int to_fd, struct error *e)
{
	_cleanup_close_ int fd =
		openat(to_fd, "state", O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	return fd < 0 ? -errno : machine_freeze(m, to_fd, e);
}

int machine_finish(struct machine *m, int to_fd, struct error *e)
{
	end_agent(of(m));
	return machine_freeze(m, to_fd, e);
}
