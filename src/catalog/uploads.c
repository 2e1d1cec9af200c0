#include "catalog/uploads.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "proto/route.h"

enum { SECRET_BYTES = 32, TMP_BYTES = 32, HEAD_BYTES = 512, USTAR_AT = 257 };

static const char directory[] = "uploads", tmp_prefix[] = ".tmp-";

struct upload_file {
	struct upload_file *next; /* used longer ago */
	char key_id[STORE_UUID_BYTES], hash[UPLOAD_HASH_BYTES];
	uint64_t bytes;
	unsigned holders; /* builds that need it */
};

struct upload {
	struct uploads *uploads;
	struct upload *next;
	struct upload_file *file; /* owned, not in the list yet */
	char tmp[TMP_BYTES];
	int fd;
	bool refused; /* its key was revoked */
};

struct uploads {
	int fd;
	uint64_t reserve_bytes;
	uint8_t secret[SECRET_BYTES];
	struct upload_file *files; /* that used last first */
	struct upload *open;
};

bool upload_is_hash(const char *s)
{
	return strlen(s) == UPLOAD_HASH_BYTES - 1 &&
	       strspn(s, "0123456789abcdef") == UPLOAD_HASH_BYTES - 1;
}

int upload_once(char ret[UPLOAD_HASH_BYTES])
{
	static const char prefix[] = "once-"; /* no hash, so the next start removes it */

	memcpy(ret, prefix, sizeof(prefix));
	return str_random_id(ret + strlen(prefix), UPLOAD_HASH_BYTES - strlen(prefix)) < 0 ? -EIO
											   : 0;
}

void upload_name(const char *key_id, const char *hash, char ret[UPLOAD_NAME_BYTES])
{
	(void)snprintf(ret, UPLOAD_NAME_BYTES, "%s.%s", key_id, hash); /* fits */
}

int uploads_sign(const struct uploads *u, const char *template_id, const char *hash,
	uint64_t expires_s, char ret[UPLOAD_SIGNATURE_BYTES])
{
	uint8_t sum[32];
	char text[256];
	int n = snprintf(text, sizeof(text), "%s\n%s\n%llu", template_id, hash,
		(unsigned long long)expires_s);

	if (n >= (int)sizeof(text) || !HMAC(EVP_sha256(), u->secret, sizeof(u->secret),
					      (const uint8_t *)text, (size_t)n, sum, NULL))
		return -EIO;
	str_hex(sum, sizeof(sum), ret);
	return 0;
}

/* --- the list --- */

static bool is_file(const struct upload_file *f, const char *key_id, const char *hash)
{
	return strcmp(f->hash, hash) == 0 && strcmp(f->key_id, key_id) == 0;
}

static struct upload_file **place_of(struct uploads *u, const char *key_id, const char *hash)
{
	struct upload_file **p = &u->files;

	while (*p && !is_file(*p, key_id, hash))
		p = &(*p)->next;
	return p;
}

static void forget(struct uploads *u, struct upload_file **p)
{
	struct upload_file *f = *p;
	char name[UPLOAD_NAME_BYTES];

	upload_name(f->key_id, f->hash, name);
	(void)unlinkat(u->fd, name, 0); /* what cannot be removed shows at the next start */
	*p = f->next;
	free(f);
}

void uploads_drop(struct uploads *u, const char *key_id, const char *hash)
{
	struct upload_file **p = place_of(u, key_id, hash);

	if (*p)
		forget(u, p);
}

static void push(struct uploads *u, struct upload_file *f)
{
	f->next = u->files;
	u->files = f;
}

bool uploads_have(struct uploads *u, const char *key_id, const char *hash)
{
	struct upload_file **p = place_of(u, key_id, hash), *f = *p;
	char name[UPLOAD_NAME_BYTES];

	if (!f)
		return false;
	upload_name(key_id, hash, name);
	if (utimensat(u->fd, name, NULL, 0) < 0) { /* now: for the order after a restart */
		forget(u, p);
		return false;
	}
	*p = f->next;
	push(u, f);
	return true;
}

void uploads_hold(struct uploads *u, const char *key_id, const char *hash)
{
	struct upload_file *f = *place_of(u, key_id, hash);

	if (f)
		f->holders++;
}

void uploads_release(struct uploads *u, const char *key_id, const char *hash)
{
	struct upload_file *f = *place_of(u, key_id, hash);

	if (f && f->holders) /* it may have gone with its key */
		f->holders--;
}

void uploads_forget_key(struct uploads *u, const char *key_id)
{
	for (struct upload_file **p = &u->files; *p;)
		if (strcmp((*p)->key_id, key_id) == 0)
			forget(u, p);
		else
			p = &(*p)->next;
	for (struct upload *p = u->open; p; p = p->next)
		p->refused |= strcmp(p->file->key_id, key_id) == 0;
}

void uploads_forget_keys(
	struct uploads *u, bool (*is_gone)(void *opaque, const char *key_id), void *opaque)
{
	for (struct upload_file **p = &u->files; *p;)
		if (is_gone(opaque, (*p)->key_id))
			forget(u, p);
		else
			p = &(*p)->next;
}

struct room {
	uint64_t all, own;
	unsigned count; /* of the key */
};

static void count_file(struct room *r, const struct upload_file *f, bool mine)
{
	r->all += f->bytes;
	r->own += mine ? f->bytes : 0;
	r->count += mine;
}

static bool is_too_much(const struct room *r, bool mine)
{
	return r->all > UPLOADS_ALL_BYTES_MAX ||
	       (mine && (r->own > UPLOADS_KEY_BYTES_MAX || r->count > UPLOADS_KEY_MAX));
}

/* Removes the least recently used files until `bytes` more fit. Returns false if files that builds
 * need leave no room. */
static bool make_room(struct uploads *u, const char *key_id, uint64_t bytes)
{
	struct room held = {bytes, bytes, 1}, room;

	for (const struct upload_file *f = u->files; f; f = f->next)
		if (f->holders)
			count_file(&held, f, strcmp(f->key_id, key_id) == 0);
	if (is_too_much(&held, true))
		return false;
	for (struct upload_file **p = &u->files; *p;) {
		bool mine = strcmp((*p)->key_id, key_id) == 0;

		room = held;
		if (!(*p)->holders)
			count_file(&room, *p, mine);
		if (is_too_much(&room, mine)) {
			forget(u, p);
			continue;
		}
		held = room;
		p = &(*p)->next;
	}
	return true;
}

/* --- what is there already --- */

struct seen {
	struct upload_file *file;
	struct timespec used;
};

static struct upload_file *file_new(const char *key_id, const char *hash, uint64_t bytes)
{
	struct upload_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	(void)snprintf(f->key_id, sizeof(f->key_id), "%s", key_id); /* these fit */
	(void)snprintf(f->hash, sizeof(f->hash), "%s", hash);
	f->bytes = bytes;
	return f;
}

/* One of ours, or NULL. */
static struct upload_file *file_of(const char *name, uint64_t bytes)
{
	char key_id[STORE_UUID_BYTES] = "";

	if (strlen(name) != UPLOAD_NAME_BYTES - 1)
		return NULL;
	memcpy(key_id, name, STORE_UUID_BYTES - 1);
	if (!route_is_uuid(key_id) || name[STORE_UUID_BYTES - 1] != '.' ||
		!upload_is_hash(name + STORE_UUID_BYTES))
		return NULL;
	return file_new(key_id, name + STORE_UUID_BYTES, bytes);
}

static int by_use(const void *a, const void *b)
{
	const struct timespec *x = &((const struct seen *)a)->used,
			      *y = &((const struct seen *)b)->used;

	return x->tv_sec != y->tv_sec ? (x->tv_sec > y->tv_sec) - (x->tv_sec < y->tv_sec)
				      : (x->tv_nsec > y->tv_nsec) - (x->tv_nsec < y->tv_nsec);
}

static int see(struct uploads *u, const char *name, struct seen **all, size_t *count)
{
	struct upload_file *f = NULL;
	struct seen *more;
	struct stat st;

	if (file_is_dots(name))
		return 0;
	if (fstatat(u->fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode))
		f = file_of(name, (uint64_t)st.st_size);
	if (!f) {
		(void)unlinkat(u->fd, name, 0); /* of a daemon that was killed */
		return 0;
	}
	more = array_grow(*all, *count, sizeof(*more));
	if (!more) {
		free(f);
		return -ENOMEM;
	}
	*all = more;
	more[(*count)++] = (struct seen){f, st.st_mtim};
	return 0;
}

static int scan(struct uploads *u)
{
	_cleanup_free_ struct seen *all = NULL;
	DIR *d = file_open_dir(u->fd, ".");
	struct dirent *entry;
	size_t count = 0;
	int r = d ? 0 : -errno;

	while (r == 0 && (entry = readdir(d)))
		r = see(u, entry->d_name, &all, &count);
	if (d)
		(void)closedir(d); /* read only */
	if (count)
		qsort(all, count, sizeof(*all), by_use);
	for (size_t i = 0; i < count; i++)
		push(u, all[i].file);
	return r;
}

int uploads_open(int home_fd, uint64_t reserve_bytes, struct uploads **ret, struct error *e)
{
	struct uploads *u = calloc(1, sizeof(*u));
	int r = 0;

	if (!u)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	*ret = u;
	u->reserve_bytes = reserve_bytes;
	(void)mkdirat(home_fd, directory, 0700); /* may exist; openat tells */
	u->fd = openat(home_fd, directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (u->fd < 0)
		return error_set_errno(e, ERROR_HOST, errno, "the directory %s", directory);
	if (getrandom(u->secret, sizeof(u->secret), 0) != sizeof(u->secret))
		return error_set(e, ERROR_INTERNAL, EIO, "no random numbers");
	r = scan(u);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "the directory %s", directory) : 0;
}

void uploads_close(struct uploads *u)
{
	if (!u)
		return;
	for (struct upload_file *f = u->files, *next; f; f = next) {
		next = f->next;
		free(f);
	}
	if (u->fd >= 0)
		(void)close(u->fd); /* a directory */
	explicit_bzero(u->secret, sizeof(u->secret));
	free(u);
}

/* --- one that comes in --- */

/* What comes in at the same time may not be on the disk yet. */
static int check_room(const struct uploads *u, const char *key_id, uint64_t bytes, struct error *e)
{
	uint64_t coming = bytes;
	unsigned all = 0, own = 0;
	uint64_t free_bytes;
	int r;

	for (const struct upload *p = u->open; p; p = p->next) {
		coming += p->file->bytes;
		all++;
		own += strcmp(p->file->key_id, key_id) == 0;
	}
	if (all >= UPLOADS_OPEN || own >= UPLOADS_KEY_OPEN)
		return error_set(e, ERROR_TOO_MANY, EBUSY,
			"%u files are being uploaded at the moment: try again when they are there",
			all);
	r = file_free_bytes(u->fd, &free_bytes);
	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "the directory %s", directory);
	if (free_bytes < u->reserve_bytes + coming)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"the host's disk has no room for the file: try again later");
	return 0;
}

int upload_begin(struct uploads *u, const char *key_id, const char *hash, uint64_t bytes,
	struct upload **ret, struct error *e)
{
	struct upload *p;
	int r = 0;

	if (bytes > UPLOAD_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, EFBIG,
			"the file has more than %llu bytes: copy less, or in several steps",
			(unsigned long long)UPLOAD_BYTES_MAX);
	r = check_room(u, key_id, bytes, e);
	if (r < 0)
		return r;
	p = calloc(1, sizeof(*p));
	if (!p)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	p->uploads = u;
	p->fd = -1;
	p->next = u->open;
	u->open = p;
	p->file = file_new(key_id, hash, bytes);
	(void)snprintf(p->tmp, sizeof(p->tmp), "%s", tmp_prefix); /* fits */
	if (!p->file || str_random_id(p->tmp + strlen(tmp_prefix), 21) < 0)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		p->fd = openat(u->fd, p->tmp, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (r == 0 && p->fd < 0)
		r = error_set_errno(e, ERROR_NO_SPACE, errno, "cannot make the file");
	if (r < 0)
		upload_abort(p);
	else
		*ret = p;
	return r;
}

int upload_fd(const struct upload *p)
{
	return p->fd;
}

/* An archive without entries is nothing but zeros. */
static bool is_tar(const uint8_t *head, ssize_t n)
{
	static const uint8_t zeros[HEAD_BYTES];

	return n == HEAD_BYTES &&
	       (memcmp(head + USTAR_AT, "ustar", 5) == 0 || memcmp(head, zeros, HEAD_BYTES) == 0);
}

int upload_check(const struct upload *p, struct error *e)
{
	uint8_t head[HEAD_BYTES];
	ssize_t n = pread(p->fd, head, sizeof(head), 0);

	if (n < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "cannot read the file");
	if (!(n > 2 && memcmp(head, "\x1f\x8b", 2) == 0) && !is_tar(head, n))
		return error_set(e, ERROR_USAGE, EINVAL,
			"the file is no tar archive, plain or compressed with gzip");
	/* else a name could lead to nothing after the host lost power */
	return fdatasync(p->fd) < 0
		       ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the file")
		       : 0;
}

static void leave(struct upload *p)
{
	struct upload **at = &p->uploads->open;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	cleanup_close_p(&p->fd);
	free(p->file);
	free(p);
}

/* Makes room. A file that will be replaced counts, too, because both exist for a moment. */
static int find_place(struct upload *p, struct error *e)
{
	struct uploads *u = p->uploads;

	if (p->refused)
		return error_set(e, ERROR_FORBIDDEN, EACCES, "the API key was revoked");
	if (make_room(u, p->file->key_id, p->file->bytes))
		return 0;
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"the files of builds that wait leave no room: try again when they are complete");
}

/* Builds that hold the old file go on with the new one. */
static void replace(struct upload *p)
{
	struct uploads *u = p->uploads;
	struct upload_file **old = place_of(u, p->file->key_id, p->file->hash), *f = *old;

	if (f) {
		p->file->holders = f->holders;
		*old = f->next;
		free(f);
	}
	push(u, TAKE_PTR(p->file));
}

int upload_commit(struct upload *p, struct error *e)
{
	struct uploads *u = p->uploads;
	char name[UPLOAD_NAME_BYTES];
	int r = find_place(p, e);

	if (r < 0) {
		upload_abort(p);
		return r;
	}
	upload_name(p->file->key_id, p->file->hash, name);
	if (renameat(u->fd, p->tmp, u->fd, name) < 0) {
		int err = errno;

		upload_abort(p);
		return error_set_errno(e, ERROR_NO_SPACE, err, "cannot keep the file");
	}
	replace(p);
	leave(p);
	return 0;
}

void upload_abort(struct upload *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		(void)unlinkat(p->uploads->fd, p->tmp, 0); /* or at the next start */
	leave(p);
}
