#include "build/step_cache.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "image/image.h"
#include "image/workdir.h"

enum { OWNER_MAX = STR_UUID_BYTES - 1, ENTRY_NAME_BYTES = OWNER_MAX + 1 + STEP_KEY_BYTES };

static const char made_file[] = "made"; /* empty; says when */

/* --- use --- */

static int entry_name(const struct step_cache *c, const char *key, char ret[ENTRY_NAME_BYTES])
{
	const char *owner = c->owner ? c->owner : "";
	size_t n = strlen(owner);

	if (n > OWNER_MAX || strspn(owner, "0123456789abcdef-") != n)
		return -EINVAL;
	(void)snprintf(ret, ENTRY_NAME_BYTES, "%s%s%s", owner, n ? "." : "", key); /* fits */
	return 0;
}

int step_cache_find(const struct step_cache *c, const char *key)
{
	char name[ENTRY_NAME_BYTES];
	_cleanup_close_ int fd = -1;

	if (entry_name(c, key, name) < 0)
		return -ENOENT;
	fd = openat(c->home->area_fd[HOME_STEPS], name,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || workdir_hold(fd, "step", NULL) < 0)
		return -ENOENT;
	if (!file_exists(fd, image_file_name(IMAGE_EXT4)))
		return -ENOENT;
	(void)futimens(fd, NULL); /* else it only goes earlier */
	return TAKE_FD(fd);
}

uint64_t step_cache_age_ns(int fd)
{
	uint64_t now = clock_realtime_ns(), made;
	struct stat st;

	if (fstatat(fd, made_file, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return UINT64_MAX;
	made = (uint64_t)st.st_mtim.tv_sec * NS_PER_S + (uint64_t)st.st_mtim.tv_nsec;
	return now > made ? now - made : 0;
}

static int note_time(int fd)
{
	int made = openat(fd, made_file, O_WRONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0600);
	int r = made < 0 || futimens(made, NULL) < 0 ? -errno : 0;

	if (made >= 0)
		(void)close(made); /* nothing was written */
	return r;
}

static int move(const struct home *h, const char *entry, int dirfd, const char *name, bool replace)
{
	int area = h->area_fd[HOME_STEPS];

	for (int i = 0; i < 2; i++) {
		if (renameat2(dirfd, name, area, entry, RENAME_NOREPLACE) == 0)
			return fsync(area) < 0 ? -errno : 0;
		if (errno != EEXIST || !replace)
			return errno == EEXIST ? 0 : -errno;
		(void)workdir_remove(area, entry); /* the second rename tells */
	}
	return -EEXIST;
}

void step_cache_put(const struct step_cache *c, const char *key, int dirfd, const char *name,
	int fd, bool replace)
{
	char entry[ENTRY_NAME_BYTES];
	int r = entry_name(c, key, entry);

	if (r == 0)
		r = note_time(fd);
	if (r == 0 && (fsync(fd) < 0 || flock(fd, LOCK_SH) < 0))
		r = -errno;
	if (r == 0)
		r = move(c->home, entry, dirfd, name, replace);
	if (r < 0)
		log_info("a step is not cached: error %d", -r);
}

/* --- bounds --- */

struct file {
	ino_t inode;
	uint64_t bytes;
	unsigned entry;
};

struct entry {
	char *name; /* borrowed */
	struct timespec used;
	uint64_t alone; /* bytes that go with it; valid while it is looked at */
};

struct survey {
	int area_fd;
	struct entry *entries; /* owned, as the next; the one that was used first comes first */
	size_t entry_count;
	struct file *files; /* by inode */
	size_t file_count;
	uint64_t bytes;
};

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct entry *)a)->used,
			      *y = &((const struct entry *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

/* Files of the last entry first: those go last. */
static int by_inode(const void *a, const void *b)
{
	const struct file *x = a, *y = b;

	if (x->inode != y->inode)
		return x->inode < y->inode ? -1 : 1;
	return (x->entry < y->entry) - (x->entry > y->entry);
}

static int add_file(struct survey *s, const struct stat *st, unsigned entry)
{
	struct file *more = array_grow(s->files, s->file_count, sizeof(*more));

	if (!more)
		return -ENOMEM;
	s->files = more;
	s->files[s->file_count++] = (struct file){st->st_ino, (uint64_t)st->st_blocks * 512, entry};
	return 0;
}

static int add_files(struct survey *s, unsigned entry)
{
	DIR *d = file_open_dir(s->area_fd, s->entries[entry].name);
	int r = 0;

	if (!d)
		return 0; /* gone meanwhile */
	for (const struct dirent *x; r == 0 && (x = readdir(d));) {
		struct stat st;

		if (fstatat(dirfd(d), x->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
			S_ISREG(st.st_mode))
			r = add_file(s, &st, entry);
	}
	(void)closedir(d); /* read only */
	return r;
}

static int take_entries(struct survey *s, char **names)
{
	size_t n = 0;
	struct stat st;

	while (names[n])
		n++;
	s->entries = calloc(n + 1, sizeof(*s->entries));
	if (!s->entries)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++)
		if (fstatat(s->area_fd, names[i], &st, AT_SYMLINK_NOFOLLOW) == 0)
			s->entries[s->entry_count++] = (struct entry){names[i], st.st_mtim, 0};
	qsort(s->entries, s->entry_count, sizeof(*s->entries), by_use);
	return 0;
}

/* A file goes with the last entry that has it. */
static void share_out(struct survey *s)
{
	qsort(s->files, s->file_count, sizeof(*s->files), by_inode);
	for (size_t i = 0; i < s->file_count; i++) {
		if (i && s->files[i].inode == s->files[i - 1].inode)
			continue;
		s->bytes += s->files[i].bytes;
		s->entries[s->files[i].entry].alone += s->files[i].bytes;
	}
}

static bool is_used(int area_fd, const char *name)
{
	_cleanup_close_ int fd = openat(area_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) < 0;
}

/* An entry in use stays, and with it files that it shares with removed entries. Then the sum is too
 * low, and the next call counts again. */
static void drop(struct survey *s, uint64_t bytes, struct step_cache_usage *u)
{
	size_t left = s->entry_count;

	for (size_t i = 0;
		i < s->entry_count && (s->bytes > bytes || left > STEP_CACHE_ENTRIES_MAX); i++) {
		const struct entry *x = &s->entries[i];

		if (is_used(s->area_fd, x->name) || workdir_remove(s->area_fd, x->name) < 0)
			continue;
		left--;
		u->removed++;
		u->freed_bytes += x->alone;
		s->bytes -= x->alone;
	}
	u->entries = left;
	u->bytes = s->bytes;
}

int step_cache_trim(
	const struct home *h, uint64_t bytes, struct step_cache_usage *ret, struct error *e)
{
	struct survey s = {.area_fd = h->area_fd[HOME_STEPS]};
	char **names = NULL;
	int r;

	*ret = (struct step_cache_usage){0};
	workdir_sweep(s.area_fd);
	r = workdir_list(s.area_fd, &names);
	if (r == 0)
		r = take_entries(&s, names);
	for (unsigned i = 0; i < s.entry_count && r == 0; i++)
		r = add_files(&s, i);
	if (r == 0) {
		share_out(&s);
		drop(&s, bytes, ret);
	}
	free(s.entries);
	free(s.files);
	workdir_list_free(names);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot read the cache of steps") : 0;
}
