#include "build/layers.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "image/image.h"
#include "vmm/disk.h"

static const char merged[] = "merged";

unsigned layers_count(int fd)
{
	char name[IMAGE_DELTA_NAME_BYTES];
	unsigned n = 0;

	for (; n < LAYERS_DELTAS_MAX; n++) {
		image_delta_name(n, name);
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

/* Links the file and its lowest deltas. */
static int link_lowest(int from_fd, unsigned n, int to_fd, struct error *e)
{
	const char *base = image_file_name(IMAGE_EXT4);
	int r = link_file(from_fd, base, to_fd, base, e);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < n && r == 0; i++) {
		image_delta_name(i, name);
		r = link_file(from_fd, name, to_fd, name, e);
	}
	return r;
}

int layers_link(int from_fd, int to_fd, struct error *e)
{
	return link_lowest(from_fd, layers_count(from_fd), to_fd, e);
}

/* --- the disk --- */

static int open_file(int dirfd, const char *name, struct error *e)
{
	int fd = file_open_foreign(dirfd, name, O_RDONLY, VMM_FILE_MAX);

	return fd < 0 ? error_set_errno(e, ERROR_INTERNAL, -fd, "cannot open a step's %s", name)
		      : fd;
}

/* With the deltas from the one of that number on. */
static int open_disk(int dirfd, unsigned first, struct disk **ret, struct error *e)
{
	int base = open_file(dirfd, image_file_name(IMAGE_EXT4), e), deltas[LAYERS_DELTAS_MAX];
	unsigned count = layers_count(dirfd), n = 0;
	char name[IMAGE_DELTA_NAME_BYTES];
	struct stat st;
	int r = base < 0 ? base : fstat(base, &st) < 0 ? -errno : 0;

	for (; first + n < count && r == 0; n += r == 0) {
		image_delta_name(first + n, name);
		deltas[n] = open_file(dirfd, name, e);
		r = deltas[n] < 0 ? deltas[n] : 0;
	}
	if (r == 0)
		return disk_open(base, deltas, n, -1, (uint64_t)st.st_size, ret, e);
	if (base >= 0)
		(void)close(base); /* read only, as the others */
	while (n)
		(void)close(deltas[--n]);
	return r;
}

/* --- adding --- */

/* The deltas from `first` on become one. */
static int merge(int fd, unsigned first, struct error *e)
{
	_cleanup_close_ int out = openat(fd, merged, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	char name[IMAGE_DELTA_NAME_BYTES];
	struct disk *d = NULL;
	int r = out < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make a disk's delta")
			: open_disk(fd, first, &d, e);

	if (r == 0)
		r = disk_flatten(d, 0, out, e);
	disk_close(d);
	for (unsigned n = r == 0 ? layers_count(fd) : 0; n-- > first && r == 0;) {
		image_delta_name(n, name);
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
	char name[IMAGE_DELTA_NAME_BYTES];
	unsigned n = layers_count(to_fd);
	struct stat st;
	int r;

	if (fstatat(from_fd, from, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "a step's disk is missing");
	if (st.st_size == 0)
		return 0; /* nothing was written */
	image_delta_name(n, name);
	r = link_file(from_fd, from, to_fd, name, e);
	if (r < 0)
		return r;
	r = sync_file(to_fd, name);
	if (r < 0)
		return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			"cannot write a step's disk");
	return n + 1 == LAYERS_DELTAS_MAX ? merge(to_fd, LAYERS_LOW_MAX, e) : 0;
}

/* --- the journal of ext4 --- */

/* Offsets in the superblock and values, from the kernel's documentation of ext4. */
enum {
	SUPERBLOCK_OFFSET = 1024,
	SUPERBLOCK_BYTES = 1024,
	LOG_BLOCK_OFFSET = 0x18,
	MAGIC_OFFSET = 0x38,
	MAGIC = 0xef53,
	INCOMPAT_OFFSET = 0x60,
	INCOMPAT_RECOVER = 0x4, /* the journal has something */
	BACKUP_TYPE_OFFSET = 0xfd,
	BACKUP_BLOCKS = 1,
	JOURNAL_OFFSET = 0x10c, /* i_block of its inode */
	EXTENT_MAGIC = 0xf30a,
	EXTENT_HEADER_BYTES = 12,
	EXTENT_BYTES = 12,
	JOURNAL_PARTS_MAX = 4,
	EXTENT_LENGTH_MAX = 32768, /* more: it was never written */
};

struct journal {
	struct {
		uint64_t offset, bytes;
	} parts[JOURNAL_PARTS_MAX];
	unsigned count; /* 0: it was not found, or is in use */
};

static bool is_clean(const uint8_t *sb)
{
	return get_le16(sb + MAGIC_OFFSET) == MAGIC &&
	       DISK_BLOCK_BYTES == 1024 << (get_le32(sb + LOG_BLOCK_OFFSET) & 7) &&
	       !(get_le32(sb + INCOMPAT_OFFSET) & INCOMPAT_RECOVER);
}

static void add_extent(const uint8_t *extent, struct journal *ret)
{
	uint64_t logical = get_le32(extent), length = get_le16(extent + 4),
		 start = (uint64_t)get_le16(extent + 6) << 32 | get_le32(extent + 8);

	if (length > EXTENT_LENGTH_MAX)
		return;
	if (logical == 0 && length) {
		start++;
		length--;
	}
	ret->parts[ret->count].offset = start * DISK_BLOCK_BYTES;
	ret->parts[ret->count++].bytes = length * DISK_BLOCK_BYTES;
}

/* All of it but its first block, which says that it is empty. The disk is a guest's, and not
 * trusted: what is found may be any blocks of it. */
static void read_journal(struct disk *d, struct journal *ret)
{
	uint8_t sb[SUPERBLOCK_BYTES];
	const uint8_t *blocks = sb + JOURNAL_OFFSET;
	unsigned count;

	ret->count = 0;
	if (disk_read(d, SUPERBLOCK_OFFSET, sb, sizeof(sb)) < 0 || !is_clean(sb) ||
		sb[BACKUP_TYPE_OFFSET] != BACKUP_BLOCKS)
		return;
	count = get_le16(blocks + 2);
	if (get_le16(blocks) != EXTENT_MAGIC || get_le16(blocks + 6) != 0 ||
		count > JOURNAL_PARTS_MAX)
		return;
	for (unsigned i = 0; i < count; i++)
		add_extent(blocks + EXTENT_HEADER_BYTES + i * EXTENT_BYTES, ret);
}

/* --- images --- */

/* The journal of a disk: by the copy of its inode in the superblock. */
static int find_journal(int fd, struct journal *ret, struct error *e)
{
	struct disk *d = NULL;
	int r = open_disk(fd, 0, &d, e);

	if (r == 0)
		read_journal(d, ret);
	disk_close(d);
	return r;
}

static unsigned kept_low(int fd, unsigned keep)
{
	unsigned count = layers_count(fd), low = keep < LAYERS_LOW_MAX ? keep : LAYERS_LOW_MAX;

	return low < count ? low : count;
}

uint64_t layers_settle_bytes(int fd, unsigned keep)
{
	unsigned count = layers_count(fd);
	char name[IMAGE_DELTA_NAME_BYTES];
	uint64_t sum = 0;

	for (unsigned i = kept_low(fd, keep); i < count; i++) {
		image_delta_name(i, name);
		sum += file_disk_bytes(fd, name);
	}
	return sum;
}

int layers_settle(int from_fd, unsigned keep, int to_fd, struct error *e)
{
	unsigned count = layers_count(from_fd), low = kept_low(from_fd, keep);
	struct journal journal = {.count = 0};
	_cleanup_close_ int out = -1;
	char name[IMAGE_DELTA_NAME_BYTES];
	struct disk *d = NULL;
	int r;

	r = link_lowest(from_fd, low, to_fd, e);
	if (r < 0 || low == count)
		return r;
	image_delta_name(low, name);
	out = openat(to_fd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	r = out < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make the image")
		    : find_journal(from_fd, &journal, e);
	if (r == 0)
		r = open_disk(from_fd, low, &d, e);
	for (unsigned i = 0; i < journal.count && r == 0; i++)
		disk_forget(d, journal.parts[i].offset, journal.parts[i].bytes);
	if (r == 0)
		r = disk_flatten(d, 0, out, e);
	disk_close(d);
	return r;
}
