#include "sandbox/stack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fault.h"
#include "base/file.h"
#include "base/str.h"
#include "image/image.h"
#include "image/verify.h"
#include "proto/snapshot.h"

enum { FILES_MAX = 2 * SNAPSHOT_LAYERS_MAX * SNAPSHOT_DISKS_MAX + 2 * SNAPSHOT_LAYERS_MAX + 8 };

#define NEXT_DIR "layers.next"

static const char *const disk_names[SNAPSHOT_DISKS_MAX] = {"disk0", "disk1"};
static const char *const delta_names[SNAPSHOT_DISKS_MAX] = {"disk0", "disk1"};
static const char *const next_delta_names[SNAPSHOT_DISKS_MAX] = {"disk0.next", "disk1.next"};

static int host_error(struct error *e, int r, const char *what)
{
	return error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r, "%s", what);
}

/* --- names --- */

const char *stack_delta_name(unsigned disk)
{
	return delta_names[disk];
}

const char *stack_next_delta_name(unsigned disk)
{
	return next_delta_names[disk];
}

bool stack_disk_is_writable(int sandbox_fd, unsigned disk)
{
	return file_exists(sandbox_fd, delta_names[disk]);
}

/* Formats "memory", "memory.1", ... */
static const char *nth_name(const char *stem, unsigned n, char out[STACK_NAME_BYTES])
{
	if (n)
		(void)snprintf(out, STACK_NAME_BYTES, "%s.%u", stem, n); /* fits */
	else
		(void)snprintf(out, STACK_NAME_BYTES, "%s", stem); /* fits */
	return out;
}

/* Counts the files of the stem, up to the first gap. */
static unsigned count(int fd, const char *stem)
{
	char name[STACK_NAME_BYTES];
	unsigned n = 0;

	while (n <= SNAPSHOT_LAYERS_MAX && file_exists(fd, nth_name(stem, n, name)))
		n++;
	return n;
}

/* Counts the deltas of the template's image. */
static unsigned count_of_image(int fd, unsigned disk)
{
	char name[IMAGE_DELTA_NAME_BYTES];
	unsigned n = 0;

	for (; disk == 0 && n < IMAGE_DELTAS_MAX; n++) {
		image_delta_name(n, name);
		if (!file_exists(fd, name))
			break;
	}
	return n;
}

/* Counts all deltas of a disk. */
static unsigned count_deltas(int fd, unsigned disk)
{
	return count_of_image(fd, disk) + count(fd, disk_names[disk]);
}

bool stack_is_full(int sandbox_fd)
{
	_cleanup_close_ int fd = stack_open(sandbox_fd, STACK_DIR, false, NULL);

	for (unsigned d = 0; fd >= 0 && d < SNAPSHOT_DISKS_MAX; d++)
		if (count_deltas(fd, d) >= SNAPSHOT_LAYERS_MAX)
			return true;
	return false;
}

static const char *image_name(int fd, unsigned disk)
{
	static const char *const first[] = {"rootfs.ext4", "rootfs.erofs"};

	if (disk == 0)
		return file_exists(fd, first[0]) ? first[0] : first[1];
	return "scratch.ext4";
}

static int each_of_disk(int fd, unsigned disk,
	int (*add)(void *arg, enum stack_role role, unsigned disk, const char *name), void *arg)
{
	char name[STACK_NAME_BYTES];
	unsigned of_image = count_of_image(fd, disk), n = count(fd, disk_names[disk]);
	int r = add(arg, STACK_IMAGE, disk, image_name(fd, disk));

	for (unsigned i = 0; r == 0 && i < of_image; i++) {
		image_delta_name(i, name);
		r = add(arg, STACK_DELTA, disk, name);
	}
	for (unsigned i = 0; r == 0 && i < n; i++)
		r = add(arg, STACK_DELTA, disk, nth_name(disk_names[disk], i, name));
	return r;
}

int stack_each(int fd, bool memory,
	int (*add)(void *arg, enum stack_role role, unsigned disk, const char *name), void *arg)
{
	char name[STACK_NAME_BYTES];
	unsigned n = memory ? count(fd, "memory") : 0;
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++)
		r = add(arg, STACK_MEMORY, 0, nth_name("memory", i, name));
	for (unsigned d = 0; r == 0 && d < SNAPSHOT_DISKS_MAX; d++) {
		if (!file_exists(fd, image_name(fd, d)))
			break;
		r = each_of_disk(fd, d, add, arg);
	}
	return r;
}

/* --- links --- */

int stack_open(int parent_fd, const char *name, bool make, struct error *e)
{
	int fd;

	if (make && (file_remove_tree(parent_fd, name) < 0 || mkdirat(parent_fd, name, 0700) < 0))
		return host_error(e, -errno, "cannot make a directory for a snapshot");
	fd = openat(parent_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? host_error(e, -errno, "cannot open the files that the sandbox stands on")
		      : fd;
}

/* Checks what was linked. The source may have been replaced at any moment, so checking it is not
 * enough. */
static int check_link(int fd, const char *name, struct error *e)
{
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		(uint64_t)st.st_size <= VMM_FILE_MAX)
		return 0;
	(void)unlinkat(fd, name, 0); /* our own link */
	return error_set(e, ERROR_BAD_SNAPSHOT, EINVAL,
		"%s of the sandbox is no file, or one of an impossible size: its microVM did that; "
		"end the sandbox",
		name);
}

int stack_take(int from_fd, const char *from, int to_fd, const char *to, struct error *e)
{
	if (linkat(from_fd, from, to_fd, to, 0) == 0)
		return check_link(to_fd, to, e);
	if (errno == EXDEV)
		return error_set(e, ERROR_HOST, EXDEV,
			"the sandboxes' directory must be on the file system of the templates: "
			"leave MAYFLY_RUN unset");
	return host_error(e, -errno, "cannot link a file that a sandbox stands on");
}

static int clone(int from_fd, int to_fd, bool with_state, struct error *e)
{
	DIR *d = file_open_dir(from_fd, ".");
	struct dirent *de;
	int r = 0;

	if (!d)
		return host_error(e, -errno, "cannot list the files that a sandbox stands on");
	while (r == 0 && (de = readdir(d)))
		if (*de->d_name != '.' && (with_state || strcmp(de->d_name, "state") != 0))
			r = stack_take(from_fd, de->d_name, to_fd, de->d_name, e);
	(void)closedir(d); /* read-only */
	return r;
}

int stack_clone(int from_fd, int to_fd, struct error *e)
{
	return clone(from_fd, to_fd, false, e);
}

int stack_clone_snapshot(int from_fd, int to_fd, struct error *e)
{
	return clone(from_fd, to_fd, true, e);
}

/* --- stacks --- */

static int link_range(int from_fd, int to_fd, const char *stem, unsigned n, struct error *e)
{
	char name[STACK_NAME_BYTES];
	int r = 0;

	for (unsigned i = 0; r == 0 && i < n; i++) {
		nth_name(stem, i, name);
		r = stack_take(from_fd, name, to_fd, name, e);
	}
	return r;
}

static bool same_file(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat x, y;

	return fstatat(a_fd, a, &x, AT_SYMLINK_NOFOLLOW) == 0 &&
	       fstatat(b_fd, b, &y, AT_SYMLINK_NOFOLLOW) == 0 && x.st_ino == y.st_ino &&
	       x.st_dev == y.st_dev;
}

/* Links the stack `stem` of below. If `merged` exists, only the first `keep` files stay and it
 * replaces the rest. Then links `top`, unless it is the top already: after a crash all of this is
 * repeated. */
static int compose_stack(int below_fd, int raw_fd, int to_fd, const char *stem, unsigned keep,
	const char *merged, const char *top, struct error *e)
{
	bool has_merged = file_exists(raw_fd, merged);
	unsigned n = has_merged ? keep : count(below_fd, stem);
	char name[STACK_NAME_BYTES];
	int r = link_range(below_fd, to_fd, stem, n, e);

	if (r == 0 && has_merged)
		r = stack_take(raw_fd, merged, to_fd, nth_name(stem, n++, name), e);
	if (r < 0 || (n && same_file(below_fd, nth_name(stem, n - 1, name), raw_fd, top)))
		return r;
	if (file_exists(raw_fd, top))
		r = stack_take(raw_fd, top, to_fd, nth_name(stem, n, name), e);
	return r;
}

static int compose_memory(int below_fd, int raw_fd, int to_fd, struct error *e)
{
	if (file_exists(raw_fd, "memory"))
		return stack_take(raw_fd, "memory", to_fd, "memory", e);
	return compose_stack(
		below_fd, raw_fd, to_fd, "memory", 1, "memory.merged", "memory.layer", e);
}

/* Those of the template's image are in a merged delta, too. */
static int link_image(int below_fd, unsigned disk, bool merged, int to_fd, struct error *e)
{
	const char *image = image_name(below_fd, disk);
	int r = stack_take(below_fd, image, to_fd, image, e);
	unsigned n = merged ? 0 : count_of_image(below_fd, disk);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; r == 0 && i < n; i++) {
		image_delta_name(i, name);
		r = stack_take(below_fd, name, to_fd, name, e);
	}
	return r;
}

static int compose_disks(int below_fd, int raw_fd, int to_fd, struct error *e)
{
	char merged[STACK_NAME_BYTES];
	int r = 0;

	for (unsigned d = 0; r == 0 && d < SNAPSHOT_DISKS_MAX; d++) {
		if (!file_exists(below_fd, image_name(below_fd, d)))
			break;
		(void)snprintf(merged, sizeof(merged), "%s.merged", disk_names[d]); /* fits */
		r = link_image(below_fd, d, file_exists(raw_fd, merged), to_fd, e);
		if (r == 0)
			r = compose_stack(below_fd, raw_fd, to_fd, disk_names[d], 0, merged,
				disk_names[d], e);
		if (r == 0 && count_deltas(to_fd, d) > SNAPSHOT_LAYERS_MAX)
			r = error_set(e, ERROR_LIMIT, EMFILE, "too many deltas of disk %u", d);
	}
	return r;
}

struct names {
	char text[FILES_MAX][STACK_NAME_BYTES];
	const char *list[FILES_MAX];
	size_t count;
};

static int note_name(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	struct names *all = arg;

	if (all->count == FILES_MAX)
		return -EMFILE; /* more than stack_each can find */
	(void)snprintf(all->text[all->count], STACK_NAME_BYTES, "%s", name); /* fits */
	all->list[all->count] = all->text[all->count];
	all->count++;
	return 0;
}

static int seal(int to_fd, int below_fd, bool memory, struct error *e)
{
	struct names all = {0};

	int r = stack_each(to_fd, memory, note_name, &all);

	if (r == 0 && file_exists(to_fd, STACK_TEMPLATE))
		r = note_name(&all, STACK_IMAGE, 0, STACK_TEMPLATE);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, EMFILE, "too many files");
	return verify_seal(to_fd, below_fd, all.list, all.count, e);
}

/* True if a snapshot was finished: its state is written last, and damaged until then. */
static bool has_state(int fd)
{
	_cleanup_free_ char *data = NULL;
	struct snapshot_reader reader;
	size_t n;

	return file_read_foreign(fd, "state", SNAPSHOT_STATE_MAX, &data, &n) == 0 &&
	       snapshot_reader_open(&reader, data, n, NULL) == 0;
}

static bool is_of_memory(const char *name)
{
	return strncmp(name, "memory", 6) == 0 || strcmp(name, "state") == 0;
}

static uint64_t occupied(int fd, bool memory)
{
	DIR *d = file_open_dir(fd, ".");
	struct dirent *de;
	uint64_t sum = 0;

	if (!d)
		return 0;
	while ((de = readdir(d)))
		if (*de->d_name != '.' && (memory || !is_of_memory(de->d_name)))
			sum += file_disk_bytes(fd, de->d_name); /* of a link, its own */
	(void)closedir(d);					/* read-only */
	return sum;
}

static int take_if_there(int from_fd, const char *name, int to_fd, struct error *e)
{
	return file_exists(from_fd, name) ? stack_take(from_fd, name, to_fd, name, e) : 0;
}

int stack_compose(
	int below_fd, int raw_fd, int to_fd, bool memory, uint64_t *own_bytes, struct error *e)
{
	int r = take_if_there(below_fd, STACK_TEMPLATE, to_fd, e);

	if (r == 0 && memory)
		r = compose_memory(below_fd, raw_fd, to_fd, e);
	if (r == 0 && memory)
		r = take_if_there(below_fd, "hot", to_fd, e);
	if (r == 0)
		r = compose_disks(below_fd, raw_fd, to_fd, e);
	if (r == 0)
		r = seal(to_fd, below_fd, memory, e);
	if (r == 0 && memory)
		r = take_if_there(raw_fd, "state", to_fd, e);
	if (r == 0 && own_bytes)
		*own_bytes = occupied(raw_fd, true);
	return r;
}

/* --- continuing on a snapshot --- */

static int rename_deltas(int sandbox_fd)
{
	for (unsigned d = 0; d < SNAPSHOT_DISKS_MAX; d++)
		if (file_exists(sandbox_fd, next_delta_names[d]) &&
			renameat(sandbox_fd, next_delta_names[d], sandbox_fd, delta_names[d]) < 0)
			return -errno;
	return 0;
}

/* Composes the next `layers`. A snapshot that failed after its disks switched has only frozen
 * deltas. */
static int compose_next(int sandbox_fd, int raw_fd, struct error *e)
{
	_cleanup_close_ int below = stack_open(sandbox_fd, STACK_DIR, false, e);
	_cleanup_close_ int next = below < 0 ? -1 : stack_open(sandbox_fd, NEXT_DIR, true, e);
	int r;

	if (below < 0 || next < 0)
		return below < 0 ? below : next;
	if (has_state(raw_fd)) {
		r = stack_compose(below, raw_fd, next, true, NULL, e);
	} else {
		r = stack_compose(below, raw_fd, next, false, NULL, e);
		if (r == 0)
			r = link_range(below, next, "memory", count(below, "memory"), e);
		if (r == 0)
			r = take_if_there(below, "hot", next, e);
		if (r == 0)
			r = seal(next, below, true, e);
	}
	if (r == 0 && unlinkat(next, "state", 0) < 0 && errno != ENOENT)
		r = host_error(e, -errno, "cannot finish a snapshot");
	return r;
}

static int go_on(int sandbox_fd, struct error *e)
{
	int r = 0;

	if (renameat2(sandbox_fd, NEXT_DIR, sandbox_fd, STACK_DIR, RENAME_EXCHANGE) < 0)
		return host_error(e, -errno, "cannot exchange the files a sandbox stands on");
	r = rename_deltas(sandbox_fd);
	return r < 0 ? host_error(e, r, "cannot rename a disk's delta") : 0;
}

struct disks {
	int from_fd, to_fd;
	struct error *e;
};

static int link_disk(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	struct disks *d = arg;

	return stack_take(d->from_fd, name, d->to_fd, name, d->e);
}

/* Links what a microVM boots from. */
static int clone_disks(int from_fd, int to_fd, struct error *e)
{
	struct disks d = {from_fd, to_fd, e};
	int r = take_if_there(from_fd, STACK_TEMPLATE, to_fd, e);

	if (r == 0)
		r = stack_each(from_fd, false, link_disk, &d);
	return r == 0 ? seal(to_fd, from_fd, false, e) : r;
}

static int give(int now_fd, int raw_fd, int to_fd, bool memory, struct error *e)
{
	int r = memory ? stack_clone(now_fd, to_fd, e) : clone_disks(now_fd, to_fd, e);

	return r == 0 && memory ? stack_take(raw_fd, "state", to_fd, "state", e) : r;
}

int stack_advance(int sandbox_fd, int to_fd, bool memory, uint64_t *own_bytes, struct error *e)
{
	_cleanup_close_ int raw = stack_open(sandbox_fd, STACK_SNAPSHOT_DIR, false, e);
	_cleanup_close_ int now = -1;
	int r = raw < 0 ? raw : compose_next(sandbox_fd, raw, e);

	if (r == 0)
		r = fault_disk("snapshot-composed", e);
	if (r == 0)
		r = go_on(sandbox_fd, e);
	if (r < 0)
		return r;
	if (to_fd >= 0) {
		now = stack_open(sandbox_fd, STACK_DIR, false, e);
		r = now < 0 ? now : give(now, raw, to_fd, memory, e);
	}
	if (own_bytes)
		*own_bytes = occupied(raw, memory);
	(void)file_remove_tree(sandbox_fd, STACK_SNAPSHOT_DIR); /* else it goes with the sandbox */
	(void)file_remove_tree(sandbox_fd, NEXT_DIR);		/* as above */
	return r;
}
