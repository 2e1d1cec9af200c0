#include "build/cache_mount.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "build/step_key.h"

static const char directory[] = "caches", locks[] = "lock", tmp_prefix[] = ".tmp-",
		  magic[8] = "MFCACHE1";

enum {
	PIECE = 1 << 20,
	BLOCK = 64 << 10, /* that is not written where it is zeros */
	POLL_MS = 100,
	ENTRIES_MAX = 4096,
	TMP_BYTES = 32,
	TMP_OLD_S = 3600, /* a live build writes to it */
};

/* A file begins with this; the records are at its end. */
struct head {
	char magic[8];
	uint64_t count, records_at;
};

/* Behind it: the path and the target, each with its NUL. */
struct record {
	uint32_t mode, uid, gid, path_bytes, target_bytes, unused;
	int64_t mtime_ns;
	uint64_t size, at;
};

struct item {
	struct files_entry entry; /* borrows from the text */
	uint64_t at;
};

struct cache_mount {
	struct files files; /* first */
	int dirfd, fd, lock_fd;
	char key[STEP_KEY_BYTES];
	bool unkept;
	uint64_t bytes_max;
	char *text; /* owned: the records */
	struct item *items;
	size_t count, last; /* the one that was found last */
};

/* --- reading --- */

static struct cache_mount *of(struct files *f)
{
	return (struct cache_mount *)(void *)f;
}

/* Mostly the one that was asked for last, or the next one. */
static const struct item *find(struct cache_mount *c, const char *path)
{
	for (size_t i = 0; i < c->count; i++) {
		size_t k = (c->last + i) % c->count;

		if (strcmp(c->items[k].entry.path, path) == 0) {
			c->last = k;
			return &c->items[k];
		}
	}
	return NULL;
}

static int cache_stat(struct files *f, const char *path, struct files_entry *ret, struct error *e)
{
	const struct item *x = find(of(f), path);

	if (!*path)
		*ret = (struct files_entry){.path = "", .mode = S_IFDIR | 0755, .target = ""};
	else if (x)
		*ret = x->entry;
	else
		return error_set(e, ERROR_NOT_FOUND, ENOENT, "%.200s in the cache", path);
	return 0;
}

/* Only of the top. */
static int cache_list(
	struct files *f, const char *path, files_fn each, void *opaque, struct error *e)
{
	const struct cache_mount *c = of(f);
	int r = 0;

	for (size_t i = 0; i < c->count && r == 0; i++)
		r = each(opaque, &c->items[i].entry, e);
	return r;
}

static int cache_read(struct files *f, const char *path, uint64_t offset, void *out, size_t n,
	size_t *ret, struct error *e)
{
	struct cache_mount *c = of(f);
	const struct item *x = find(c, path);
	uint64_t left = x && offset < x->entry.size ? x->entry.size - offset : 0;

	n = n < left ? n : (size_t)left;
	*ret = n;
	if (n && fd_pread_full(c->fd, out, n, (off_t)(x->at + offset)) < 0)
		return error_set(e, ERROR_HOST, EIO, "%.200s in the cache", path);
	return 0;
}

/* Only we write this file, but a damaged disk may change it. Then the cache counts as empty. */
static bool take_record(struct cache_mount *c, char **at, char *end, uint64_t data_end)
{
	struct item *x = &c->items[c->count];
	struct record r;
	char *path;

	if ((size_t)(end - *at) < sizeof(r))
		return false;
	memcpy(&r, *at, sizeof(r));
	path = *at + sizeof(r);
	if (r.path_bytes == 0 || r.path_bytes > BUILD_PATH_MAX || r.target_bytes == 0 ||
		r.target_bytes > BUILD_PATH_MAX ||
		(uint64_t)(end - path) < (uint64_t)r.path_bytes + r.target_bytes ||
		path[r.path_bytes - 1] || path[r.path_bytes + r.target_bytes - 1] ||
		r.at > data_end || r.size > data_end - r.at)
		return false;
	x->at = r.at;
	x->entry = (struct files_entry){.path = path,
		.mode = r.mode,
		.uid = r.uid,
		.gid = r.gid,
		.mtime_ns = r.mtime_ns,
		.size = r.size,
		.target = path + r.path_bytes};
	*at = path + r.path_bytes + r.target_bytes;
	c->count++;
	return true;
}

static bool read_records(struct cache_mount *c, const struct head *h, uint64_t size)
{
	size_t n = (size_t)(size - h->records_at);
	char *at, *end;

	c->text = malloc(n + 1);
	c->items = calloc(h->count + 1, sizeof(*c->items));
	if (!c->text || !c->items || fd_pread_full(c->fd, c->text, n, (off_t)h->records_at) < 0)
		return false;
	at = c->text;
	end = at + n;
	for (uint64_t i = 0; i < h->count; i++)
		if (!take_record(c, &at, end, h->records_at))
			return false;
	return true;
}

static bool read_all(struct cache_mount *c)
{
	struct head h;
	struct stat st;

	c->fd = file_open_foreign(c->dirfd, c->key, O_RDONLY, 2 * CACHE_MOUNT_BYTES_MAX);
	if (c->fd < 0 || fstat(c->fd, &st) < 0 || fd_pread_full(c->fd, &h, sizeof(h), 0) < 0)
		return false;
	if (memcmp(h.magic, magic, sizeof(magic)) != 0 || h.count > FILES_MAX ||
		h.records_at < sizeof(h) || h.records_at > (uint64_t)st.st_size)
		return false;
	(void)futimens(c->fd, NULL); /* when it was used */
	return read_records(c, &h, (uint64_t)st.st_size);
}

struct files *cache_mount_files(struct cache_mount *c)
{
	return c->count ? &c->files : NULL;
}

/* --- writing --- */

struct writing {
	int fd;
	uint64_t at, bytes_max;
	struct files *from;
	size_t skip; /* of paths */
	uint8_t *piece;
	struct disk_budget *budget;
	uint64_t asked; /* bytes since the file system was asked for room */
	struct {
		struct files_entry entry; /* with strings that are owned */
		uint64_t at;
	} * items;
	size_t count;
};

static int note_entry(void *opaque, const struct files_entry *f, struct error *e)
{
	struct writing *w = opaque;
	void *more;

	if (!S_ISREG(f->mode) && !S_ISDIR(f->mode) && !S_ISLNK(f->mode))
		return 0; /* sockets and the like */
	more = array_grow(w->items, w->count, sizeof(*w->items));
	if (!more)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	w->items = more;
	w->items[w->count].entry = *f;
	w->items[w->count].entry.path = strdup(f->path);
	w->items[w->count].entry.target = strdup(f->target);
	w->items[w->count].at = 0;
	w->count++;
	return w->items[w->count - 1].entry.path && w->items[w->count - 1].entry.target
		       ? 0
		       : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static int take_room(struct writing *w, size_t n, struct error *e)
{
	w->asked += n;
	if (w->asked >= PIECE) {
		int r = disk_budget_room(w->budget, PIECE, e);

		if (r < 0)
			return r;
		w->asked = 0;
	}
	return disk_budget_take(w->budget, n, e);
}

static int put(struct writing *w, const void *data, size_t n, struct error *e)
{
	int r = take_room(w, n, e);

	if (r < 0)
		return r;
	r = fd_pwrite_full(w->fd, data, n, (off_t)w->at);
	w->at += n;
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write the cache")
		     : 0;
}

static bool is_zeros(const uint8_t *data, size_t n)
{
	return data[0] == 0 && memcmp(data, data + 1, n - 1) == 0;
}

/* Records follow, so that the file does not end with a hole. */
static int put_piece(struct writing *w, size_t n, struct error *e)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i += BLOCK) {
		size_t part = n - i < BLOCK ? n - i : BLOCK;

		if (is_zeros(w->piece + i, part))
			w->at += part;
		else
			r = put(w, w->piece + i, part, e);
	}
	return r;
}

/* A file may change its size while it is read. The bytes that were read count. */
static int put_content(struct writing *w, struct files_entry *f, struct error *e)
{
	uint64_t size = 0;
	size_t n = PIECE;
	int r = 0;

	while (r == 0 && n == PIECE) {
		r = w->from->read(w->from, f->path, size, w->piece, PIECE, &n, e);
		if (r == 0 && w->at + n > w->bytes_max)
			r = error_set(e, ERROR_LIMIT, EFBIG, "it has more than %llu bytes",
				(unsigned long long)w->bytes_max);
		if (r == 0)
			r = put_piece(w, n, e);
		size += n;
	}
	f->size = size;
	return r;
}

static int put_record(struct writing *w, size_t i, struct error *e)
{
	const struct files_entry *f = &w->items[i].entry;
	const char *path = f->path + w->skip;
	struct record r = {.mode = f->mode,
		.uid = f->uid,
		.gid = f->gid,
		.path_bytes = (uint32_t)strlen(path) + 1,
		.target_bytes = (uint32_t)strlen(f->target) + 1,
		.mtime_ns = f->mtime_ns,
		.size = S_ISREG(f->mode) ? f->size : 0,
		.at = w->items[i].at};
	int k = put(w, &r, sizeof(r), e);

	if (k == 0)
		k = put(w, path, r.path_bytes, e);
	return k < 0 ? k : put(w, f->target, r.target_bytes, e);
}

static int write_all(struct writing *w, const char *path, struct error *e)
{
	struct head h = {.count = 0};
	int r = w->from->list(w->from, path, note_entry, w, e);

	memcpy(h.magic, magic, sizeof(magic));
	w->at = sizeof(h);
	for (size_t i = 0; i < w->count && r == 0; i++) {
		w->items[i].at = w->at;
		if (S_ISREG(w->items[i].entry.mode))
			r = put_content(w, &w->items[i].entry, e);
	}
	h.count = w->count;
	h.records_at = w->at;
	for (size_t i = 0; i < w->count && r == 0; i++)
		r = put_record(w, i, e);
	w->at = 0;
	return r < 0 ? r : put(w, &h, sizeof(h), e);
}

/* It has a name, as not all file systems can give one to a file without. */
static int make_file(const struct cache_mount *c, char name[TMP_BYTES])
{
	int fd;

	(void)snprintf(name, TMP_BYTES, "%s", tmp_prefix); /* fits */
	if (str_random_id(name + strlen(tmp_prefix), 21) < 0)
		return -EIO;
	fd = openat(c->dirfd, name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	return fd < 0 ? -errno : fd;
}

/* In place of the old one, or it goes. r: whether it is whole. */
static int publish(const struct cache_mount *c, const char *name, int r, struct error *e)
{
	if (r == 0 && renameat(c->dirfd, name, c->dirfd, c->key) < 0)
		r = error_set_errno(e, ERROR_HOST, errno, "cannot write the cache");
	if (r < 0)
		(void)unlinkat(c->dirfd, name, 0); /* or it is trimmed later */
	return r;
}

int cache_mount_keep(struct cache_mount *c, struct files *from, const char *path,
	struct disk_budget *budget, struct error *e)
{
	char name[TMP_BYTES];
	_cleanup_close_ int fd = c->unkept ? -1 : make_file(c, name);
	_cleanup_free_ uint8_t *piece = malloc(PIECE);
	struct writing w = {.fd = fd,
		.bytes_max = c->bytes_max,
		.from = from,
		.skip = *path ? strlen(path) + 1 : 0,
		.piece = piece,
		.budget = budget,
		.asked = PIECE};
	int r = c->unkept ? 0
		: fd < 0  ? error_set_errno(e, ERROR_NO_SPACE, -fd, "cannot write the cache")
		: !piece  ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory")
			  : write_all(&w, path, e);

	for (size_t i = 0; i < w.count; i++) {
		free((char *)(uintptr_t)w.items[i].entry.path);
		free((char *)(uintptr_t)w.items[i].entry.target);
	}
	free(w.items);
	return fd < 0 ? r : publish(c, name, r, e);
}

/* --- locks --- */

/* Locks are bytes of one file, one for each cache, so that no lock files are left behind. */
static int try_lock(const struct cache_mount *c)
{
	struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
	char part[16];

	(void)snprintf(part, sizeof(part), "%.15s", c->key); /* 60 bits of it */
	l.l_start = (off_t)strtoull(part, NULL, 16);
	return fcntl(c->lock_fd, F_OFD_SETLK, &l) < 0 ? -errno : 0;
}

static int take_lock(struct cache_mount *c, enum mount_sharing sharing, struct error *e)
{
	const struct timespec pause = {.tv_nsec = POLL_MS * 1000000L};
	uint64_t begin = clock_monotonic_ns();
	int r;

	if (sharing == MOUNT_SHARED)
		return 0;
	c->lock_fd = openat(c->dirfd, locks, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (c->lock_fd < 0)
		return error_set_errno(e, ERROR_HOST, errno, "the directory %s", directory);
	while ((r = try_lock(c)) == -EAGAIN || r == -EACCES) {
		c->unkept = sharing == MOUNT_PRIVATE;
		if (c->unkept)
			return 0;
		if (clock_monotonic_ns() - begin > CACHE_MOUNT_WAIT_S * NS_PER_S)
			return error_set(e, ERROR_TIMEOUT, EBUSY,
				"another step has held the cache for %d s: try again later",
				CACHE_MOUNT_WAIT_S);
		(void)nanosleep(&pause, NULL); /* a signal only shortens it */
	}
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot lock the cache") : 0;
}

/* --- open and close --- */

static int open_directory(const struct home *h)
{
	int fd;

	if (mkdirat(h->fd, directory, 0700) < 0 && errno != EEXIST)
		return -errno;
	fd = openat(h->fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static int make_key(struct cache_mount *c, const char *scope, const char *id, struct error *e)
{
	struct step_key k;

	step_key_begin(&k, "cache");
	step_key_text(&k, id);
	if (*scope)
		step_key_text(&k, scope);
	return step_key_end(&k, c->key, e);
}

int cache_mount_open(const struct home *h, const char *scope, const char *id,
	enum mount_sharing sharing, struct cache_mount **ret, struct error *e)
{
	struct cache_mount *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	c->files = (struct files){cache_stat, cache_list, cache_read, NULL};
	c->fd = c->lock_fd = -1;
	c->bytes_max = *scope ? CACHE_MOUNT_CLIENT_BYTES_MAX : CACHE_MOUNT_BYTES_MAX;
	c->dirfd = open_directory(h);
	r = c->dirfd < 0 ? error_set_errno(e, ERROR_HOST, -c->dirfd, "the directory %s", directory)
			 : make_key(c, scope, id, e);
	if (r == 0)
		r = take_lock(c, sharing, e);
	if (r < 0) {
		cache_mount_close(c);
		return r;
	}
	if (c->unkept || !read_all(c))
		c->count = 0;
	*ret = c;
	return 0;
}

void cache_mount_close(struct cache_mount *c)
{
	if (!c)
		return;
	cleanup_close_p(&c->fd);
	cleanup_close_p(&c->lock_fd); /* and the lock */
	cleanup_close_p(&c->dirfd);
	free(c->text);
	free(c->items);
	free(c);
}

/* --- the bound --- */

struct kept {
	char name[STEP_KEY_BYTES];
	struct timespec used;
	uint64_t bytes;
};

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct kept *)a)->used,
			      *y = &((const struct kept *)b)->used;

	if (x->tv_sec != y->tv_sec)
		return x->tv_sec < y->tv_sec ? -1 : 1;
	return (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static void remove_old(int dirfd_, const char *name)
{
	struct stat st;

	if (fstatat(dirfd_, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
		time(NULL) - st.st_mtime > TMP_OLD_S)
		(void)unlinkat(dirfd_, name, 0); /* the next one tries again */
}

/* What a killed build left goes, too. */
static size_t collect(int dirfd_, struct kept *all, uint64_t *ret_bytes)
{
	DIR *d = file_open_dir(dirfd_, ".");
	size_t n = 0;
	struct stat st;

	for (const struct dirent *x; d && n < ENTRIES_MAX && (x = readdir(d));) {
		if (str_starts_with(x->d_name, tmp_prefix))
			remove_old(dirfd_, x->d_name);
		if (strlen(x->d_name) != STEP_KEY_BYTES - 1 ||
			fstatat(dirfd_, x->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(all[n].name, x->d_name, STEP_KEY_BYTES);
		all[n].used = st.st_mtim;
		all[n].bytes = (uint64_t)st.st_blocks * 512;
		*ret_bytes += all[n++].bytes;
	}
	if (d)
		(void)closedir(d); /* read-only */
	return n;
}

uint64_t cache_mounts_trim(const struct home *h, uint64_t bytes)
{
	_cleanup_close_ int fd = open_directory(h);
	_cleanup_free_ struct kept *all = fd < 0 ? NULL : calloc(ENTRIES_MAX, sizeof(*all));
	uint64_t sum = 0, freed = 0;
	size_t n = all ? collect(fd, all, &sum) : 0;

	if (n)
		qsort(all, n, sizeof(*all), by_use);
	for (size_t i = 0; i < n && (sum > bytes || n - i > ENTRIES_MAX / 2); i++)
		if (unlinkat(fd, all[i].name, 0) == 0) {
			sum -= all[i].bytes;
			freed += all[i].bytes;
		}
	return freed;
}
