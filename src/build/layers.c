#include "build/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "image/image.h"
#include "vmm/disk.h"

static const char merged[] = "merged";

void layers_name(unsigned number, char out[LAYERS_NAME_BYTES])
{
	(void)snprintf(out, LAYERS_NAME_BYTES, "delta%u", number); /* fits */
}

unsigned layers_count(int fd)
{
	char name[LAYERS_NAME_BYTES];
	unsigned n = 0;

	for (; n < LAYERS_DELTAS_MAX; n++) {
		layers_name(n, name);
		if (!file_exists(fd, name))
			break;
	}
	return n;
}

static int link_file(int from_fd, const char *from, int to_fd, const char *to, struct error *e)
{
	if (linkat(from_fd, from, to_fd, to, 0) == 0)
		return 0;
	return error_set_errno(e, errno == ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, errno,
		"cannot link a step's disk: the areas of the state directory must lie on one file "
		"system");
}

int layers_link(int from_fd, int to_fd, struct error *e)
{
	const char *base = image_file_name(IMAGE_EXT4);
	int r = link_file(from_fd, base, to_fd, base, e);
	unsigned n = layers_count(from_fd);
	char name[LAYERS_NAME_BYTES];

	for (unsigned i = 0; i < n && r == 0; i++) {
		layers_name(i, name);
		r = link_file(from_fd, name, to_fd, name, e);
	}
	return r;
}

/* --- the disk --- */

static int open_file(int dirfd, const char *name, struct error *e)
{
	int fd = file_open_foreign(dirfd, name, O_RDONLY, VMM_FILE_MAX);

	return fd < 0 ? error_set_errno(e, ERROR_INTERNAL, -fd, "cannot open a step's %s", name)
		      : fd;
}

static int open_disk(int dirfd, struct disk **ret, struct error *e)
{
	int base = open_file(dirfd, image_file_name(IMAGE_EXT4), e), deltas[LAYERS_DELTAS_MAX];
	unsigned count = layers_count(dirfd), n = 0;
	char name[LAYERS_NAME_BYTES];
	struct stat st;
	int r = base < 0 ? base : fstat(base, &st) < 0 ? -errno : 0;

	for (; n < count && r == 0; n += r == 0) {
		layers_name(n, name);
		deltas[n] = open_file(dirfd, name, e);
		r = deltas[n] < 0 ? deltas[n] : 0;
	}
	if (r == 0)
		return disk_open(base, deltas, count, -1, (uint64_t)st.st_size, ret, e);
	if (base >= 0)
		(void)close(base); /* read only, as the others */
	while (n)
		(void)close(deltas[--n]);
	return r;
}

/* --- adding --- */

/* Many deltas become one. */
static int merge(int fd, struct error *e)
{
	_cleanup_close_ int out = openat(fd, merged, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char name[LAYERS_NAME_BYTES];
	struct disk *d = NULL;
	int r = out < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a disk's delta")
			: open_disk(fd, &d, e);

	if (r == 0)
		r = disk_flatten(d, out, e);
	disk_close(d);
	for (unsigned n = r == 0 ? LAYERS_DELTAS_MAX : 0; n-- > 0 && r == 0;) {
		layers_name(n, name);
		r = unlinkat(fd, name, 0) < 0 ? -errno : 0;
	}
	if (r == 0 && renameat(fd, merged, fd, name) < 0) /* the first one's */
		r = -errno;
	return r < 0 && e && e->code == ERROR_NONE
		       ? error_set_errno(e, ERROR_HOST, -r, "cannot merge a step's disk")
		       : r;
}

static int sync_file(int dirfd, const char *name)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);

	return fd < 0 || fdatasync(fd) < 0 ? -errno : 0;
}

int layers_add(int from_fd, const char *from, int to_fd, struct error *e)
{
	char name[LAYERS_NAME_BYTES];
	unsigned n = layers_count(to_fd);
	struct stat st;
	int r;

	if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "a step's disk is missing");
	if (st.st_size == 0)
		return 0; /* nothing was written */
	layers_name(n, name);
	r = link_file(from_fd, from, to_fd, name, e);
	if (r < 0)
		return r;
	r = sync_file(to_fd, name);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot write a step's disk");
	return n + 1 == LAYERS_DELTAS_MAX ? merge(to_fd, e) : 0;
}

int layers_write_image(int fd, int out_fd, struct error *e)
{
	struct disk *d = NULL;
	int r = open_disk(fd, &d, e);

	if (r == 0)
		r = disk_write_raw(d, out_fd, e);
	disk_close(d);
	return r;
}
