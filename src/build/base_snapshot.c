#include "build/base_snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "build/disk_budget.h"
#include "build/layers.h"
#include "image/workdir.h"
#include "sandbox/backend.h"
#include "sandbox/sandbox.h"
#include "sandbox/stack.h"

enum { LOOK_MS = 250 };

static const char what[] = "write the snapshot's disk";

static int open_files(const struct home *home, const struct base_snapshot *s, struct error *e)
{
	int fd = openat(home->area_fd[HOME_SNAPSHOTS], s->id,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 ? error_set_errno(
				e, ERROR_NOT_FOUND, errno, "the files of snapshot '%.40s'", s->id)
		      : fd;
}

int base_snapshot_load(const struct home *home, const struct base_snapshot *s, struct template *ret,
	struct error *e)
{
	_cleanup_close_ int fd = open_files(home, s, e);
	int r = fd < 0 ? fd : template_load_at(fd, s->id, ret, e);

	if (r < 0)
		return r;
	if (ret->kind != IMAGE_EXT4)
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the snapshot stands on an EROFS image: only ext4 can be built on");
	else if (s->disk_bytes < (uint64_t)ret->config.disk_mb << 20 ||
		 s->disk_bytes > (uint64_t)CONFIG_DISK_MB_MAX << 20)
		r = error_set(e, ERROR_BAD_IMAGE, EINVAL,
			"the snapshot's disk has %llu bytes, and its template's %u MB: it is "
			"damaged, so take another snapshot",
			(unsigned long long)s->disk_bytes, ret->config.disk_mb);
	if (r < 0)
		template_done(ret);
	else
		ret->config.disk_mb = (uint32_t)(s->disk_bytes >> 20);
	return r;
}

/* --- what the guest has not written --- */

static int wait_ready(struct sandbox *s, const struct progress *p, struct error *e)
{
	struct pollfd fds[SANDBOX_POLL_FDS];
	struct agent_event ev;
	int r = 0;

	while (r >= 0 && !sandbox_is_ready(s)) {
		r = progress_report(p, what, PROGRESS_NO_PERCENT, NULL);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
		r = sandbox_next_event(s, &ev, e);
		if (r != 0 || sandbox_is_ready(s))
			continue;
		sandbox_poll(s, false, fds);
		(void)poll(fds, SANDBOX_POLL_FDS, LOOK_MS); /* early is fine */
	}
	return r < 0 ? r : 0;
}

/* The files that it stands on, for the pause. */
static int note_layers(const struct sandbox *s, int snapshot_fd, struct error *e)
{
	_cleanup_close_ int fd = stack_open(sandbox_dirfd(s), STACK_DIR, true, e);

	return fd < 0 ? fd : stack_clone(snapshot_fd, fd, e);
}

/* Leaves the disks, as a stack, in work_fd. */
static int write_disks(const struct home *home, const struct base_snapshot *s, int work_fd,
	const char *name, const struct progress *p, struct error *e)
{
	_cleanup_close_ int fd = open_files(home, s, e);
	const struct sandbox_origin origin = {fd, s->memory};
	const struct sandbox_options o = {.template = s->id,
		.origin = &origin,
		.cpus = s->cpus,
		.memory_bytes = s->memory_bytes,
		.disk_bytes = s->disk_bytes,
		.hidden = true};
	struct sandbox_dirs dirs = SANDBOX_DIRS_INIT;
	struct sandbox *sandbox = NULL;
	int r = fd < 0 ? fd : sandbox_dirs_open(home->path, &dirs, e);

	if (r == 0)
		r = sandbox_create(home, &dirs, &o, &sandbox, e);
	if (r == 0)
		r = note_layers(sandbox, fd, e);
	if (r == 0)
		r = wait_ready(sandbox, p, e);
	if (r == 0)
		r = backend_vmm_pause(sandbox_dirfd(sandbox), false, work_fd, name, e);
	sandbox_destroy(sandbox);
	sandbox_dirs_close(&dirs);
	return r;
}

/* --- the disk --- */

struct adding {
	int from_fd, to_fd;
	uint64_t disk_bytes;
	struct disk_budget *budget;
	struct error *e;
};

/* The image, made as large as the disk. */
static int copy_image(const struct adding *a, const char *name)
{
	_cleanup_close_ int in = openat(a->from_fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC),
			    out = openat(
				    a->to_fd, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	uint64_t bytes = file_disk_bytes(a->from_fd, name);
	int r = in < 0 || out < 0 ? -errno : 0;

	if (r == 0 && a->budget &&
		(disk_budget_room(a->budget, bytes, a->e) < 0 ||
			disk_budget_take(a->budget, bytes, a->e) < 0))
		return -ENOSPC;
	if (r == 0)
		r = file_copy_sparse(in, out);
	if (r == 0 && (ftruncate(out, (off_t)a->disk_bytes) < 0 || fsync(out) < 0))
		r = -errno;
	return r < 0 ? error_set_errno(a->e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot copy the snapshot's image")
		     : 0;
}

static int add_image(const struct adding *a, const char *name)
{
	struct stat st;

	if (fstatat(a->from_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size < a->disk_bytes)
		return copy_image(a, name);
	return stack_take(a->from_fd, name, a->to_fd, name, a->e);
}

static int add_layer(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	const struct adding *a = arg;

	if (disk != 0)
		return 0;
	return role == STACK_IMAGE ? add_image(a, name)
				   : layers_add(a->from_fd, name, a->to_fd, a->e);
}

int base_snapshot_disk(const struct home *home, const struct base_snapshot *s, int work_fd,
	const char *name, int to_fd, struct disk_budget *budget, const struct progress *p,
	struct error *e)
{
	int r = s->memory ? write_disks(home, s, work_fd, name, p, e) : 0;
	_cleanup_close_ int fd = r < 0	     ? -1
				 : s->memory ? stack_open(work_fd, name, false, e)
					     : open_files(home, s, e);
	struct adding a = {fd, to_fd, s->disk_bytes, budget, e};

	if (r < 0 || fd < 0)
		return r < 0 ? r : fd;
	r = stack_each(fd, false, add_layer, &a);
	if (s->memory)
		(void)workdir_remove(work_fd, name); /* else it goes with work_fd */
	return r;
}
