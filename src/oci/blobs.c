#include "oci/blobs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"

static const char place[] = "blobs", temporary[] = ".tmp-", origins[] = "from";

enum { ID_LEN = 12, PIECE = 256 << 10, BLOBS_MAX = 65536, ATTEMPTS = 3 };
enum { MARK_NAME_BYTES = sizeof("from/") + OCI_HEX_MAX };

static int host_error(struct error *e, int r, const char *what)
{
	return error_set_errno(e, r == -ENOSPC || r == -EDQUOT ? ERROR_NO_SPACE : ERROR_HOST, -r,
		"cannot %s the store of blobs", what);
}

/* --- leftovers and the bound --- */

struct kept {
	char name[OCI_HEX_MAX];
	int64_t used_s;
	uint64_t bytes;
};

/* A writer holds a lock on its file. */
static void sweep_one(int dirfd, const char *name)
{
	_cleanup_close_ int fd = openat(dirfd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);

	if (fd >= 0 && flock(fd, LOCK_EX | LOCK_NB) == 0)
		(void)unlinkat(dirfd, name, 0); /* the next one tries again */
}

static void sweep(int dirfd)
{
	DIR *d = file_open_dir(dirfd, ".");

	for (struct dirent *de; d && (de = readdir(d));)
		if (str_starts_with(de->d_name, temporary))
			sweep_one(dirfd, de->d_name);
	if (d)
		(void)closedir(d); /* read-only */
}

static bool is_blob(const char *name)
{
	return strlen(name) == OCI_HEX_MAX - 1 &&
	       strspn(name, "0123456789abcdef") == OCI_HEX_MAX - 1;
}

static size_t collect(int dirfd, struct kept *all, uint64_t *ret_bytes)
{
	DIR *d = file_open_dir(dirfd, ".");
	size_t n = 0;
	struct stat st;

	for (struct dirent *de; d && n < BLOBS_MAX && (de = readdir(d));) {
		if (!is_blob(de->d_name) ||
			fstatat(dirfd, de->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		memcpy(all[n].name, de->d_name, OCI_HEX_MAX);
		all[n].used_s = st.st_mtim.tv_sec;
		all[n].bytes = (uint64_t)st.st_blocks * 512;
		*ret_bytes += all[n++].bytes;
	}
	if (d)
		(void)closedir(d); /* read-only */
	return n;
}

static int oldest_first(const void *a, const void *b)
{
	const struct kept *x = a, *y = b;

	return (x->used_s > y->used_s) - (x->used_s < y->used_s);
}

/* Marks are many when they are as many as are looked at: then the older half goes. */
static void trim_marks(const struct oci_blobs *b, struct kept *all)
{
	_cleanup_close_ int fd =
		openat(b->fd, origins, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t sum = 0;
	size_t n = fd >= 0 ? collect(fd, all, &sum) : 0;

	if (n < BLOBS_MAX)
		return;
	qsort(all, n, sizeof(*all), oldest_first);
	for (size_t i = 0; i < n / 2; i++)
		(void)unlinkat(fd, all[i].name, 0); /* the next one tries again */
}

void oci_blobs_trim(const struct oci_blobs *b, uint64_t bytes)
{
	_cleanup_free_ struct kept *all = calloc(BLOBS_MAX, sizeof(*all));
	uint64_t sum = 0;
	size_t n = all ? collect(b->fd, all, &sum) : 0;

	if (sum > bytes)
		qsort(all, n, sizeof(*all), oldest_first);
	for (size_t i = 0; i < n && sum > bytes; i++)
		if (unlinkat(b->fd, all[i].name, 0) == 0)
			sum -= all[i].bytes;
	if (all)
		trim_marks(b, all);
}

int oci_blobs_open(int home_fd, struct oci_blobs *ret, struct error *e)
{
	if (mkdirat(home_fd, place, 0700) < 0 && errno != EEXIST)
		return host_error(e, -errno, "make");
	ret->fd = openat(home_fd, place, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
	if (ret->fd < 0)
		return host_error(e, -errno, "open");
	sweep(ret->fd);
	return 0;
}

void oci_blobs_close(struct oci_blobs *b)
{
	cleanup_close_p(&b->fd);
	b->fd = -1;
}

/* --- reading --- */

int oci_digest_of_file(int fd, char out[OCI_DIGEST_MAX])
{
	_cleanup_free_ uint8_t *piece = malloc(PIECE);
	struct oci_hash *h = oci_hash_new();
	int r = piece && h && lseek(fd, 0, SEEK_SET) == 0 ? 0 : -ENOMEM;
	ssize_t n = 0;

	do {
		n = r == 0 ? read(fd, piece, PIECE) : 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			r = -errno;
		else if (n > 0)
			r = oci_hash_add(h, piece, (size_t)n);
	} while (r == 0 && n != 0);
	if (r == 0)
		r = oci_hash_end(h, out);
	if (r == 0 && lseek(fd, 0, SEEK_SET) < 0)
		r = -errno;
	oci_hash_free(h);
	return r;
}

int oci_blobs_find(const struct oci_blobs *b, const char *digest, int *ret_fd)
{
	const char *name = oci_digest_hex(digest);
	_cleanup_close_ int fd = file_open_foreign(b->fd, name, O_RDONLY, INT64_MAX);
	char found[OCI_DIGEST_MAX];
	int r = fd < 0 ? fd : oci_digest_of_file(fd, found);

	if (r < 0)
		return r;
	if (strcmp(found, digest) != 0) {
		(void)unlinkat(b->fd, name, 0); /* if this fails, it will be found damaged again */
		return -ENOENT;
	}
	(void)futimens(fd, NULL); /* when it was used: only the order of removal depends on it */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- where they came from --- */

static int mark_name(const char *origin, const char *digest, char ret[MARK_NAME_BYTES])
{
	char sum[OCI_DIGEST_MAX];
	struct oci_hash *h = oci_hash_new();
	int r = h ? oci_hash_add(h, origin, strlen(origin) + 1) : -ENOMEM;

	if (r == 0)
		r = oci_hash_add(h, digest, strlen(digest));
	if (r == 0)
		r = oci_hash_end(h, sum);
	if (r == 0)
		(void)snprintf(
			ret, MARK_NAME_BYTES, "%s/%s", origins, oci_digest_hex(sum)); /* fits */
	oci_hash_free(h);
	return r;
}

void oci_blobs_mark(const struct oci_blobs *b, const char *origin, const char *digest)
{
	char name[MARK_NAME_BYTES];
	int fd = -1;

	if (mark_name(origin, digest, name) == 0 &&
		(mkdirat(b->fd, origins, 0700) == 0 || errno == EEXIST))
		fd = openat(b->fd, name, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return;
	(void)futimens(fd, NULL); /* as of blobs */
	(void)close(fd);	  /* empty */
}

bool oci_blobs_marked(const struct oci_blobs *b, const char *origin, const char *digest)
{
	char name[MARK_NAME_BYTES];

	return mark_name(origin, digest, name) == 0 && faccessat(b->fd, name, F_OK, 0) == 0;
}

/* --- writing --- */

/* Makes a locked file, which the sweep of another process does not remove. */
static int make_file(struct oci_blob_writer *w)
{
	char id[ID_LEN + 1];
	struct stat st;

	for (int i = 0; i < ATTEMPTS; i++) {
		if (str_random_id(id, sizeof(id)) < 0)
			return -EIO;
		(void)snprintf(w->name, sizeof(w->name), "%s%s", temporary, id); /* fits */
		w->fd = openat(w->blobs->fd, w->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
		if (w->fd < 0)
			return -errno;
		if (flock(w->fd, LOCK_EX | LOCK_NB) == 0 && fstat(w->fd, &st) == 0 &&
			st.st_nlink == 1)
			return 0;
		cleanup_close_p(&w->fd); /* a sweep was faster */
		w->fd = -1;
	}
	return -EAGAIN;
}

int oci_blob_begin(const struct oci_blobs *b, struct oci_blob_writer *ret, struct error *e)
{
	struct oci_blob_writer w = {.blobs = b, .fd = -1, .hash = oci_hash_new()};
	int r = w.hash ? make_file(&w) : -ENOMEM;

	if (r < 0) {
		oci_blob_abort(&w);
		return host_error(e, r, "write to");
	}
	*ret = w;
	return 0;
}

int oci_blob_add(struct oci_blob_writer *w, const void *data, size_t n, struct error *e)
{
	int r = oci_hash_add(w->hash, data, n);

	if (r == 0)
		r = fd_write_full(w->fd, data, n);
	w->size += n;
	return r < 0 ? host_error(e, r, "write to") : 0;
}

/* If another writer has put the same content there, that file is replaced. Returns a read-only
 * descriptor, because jailed processes get it. */
static int publish(struct oci_blob_writer *w, const char *digest)
{
	const char *name = oci_digest_hex(digest);
	int fd;

	if (fchmod(w->fd, 0400) < 0 || renameat(w->blobs->fd, w->name, w->blobs->fd, name) < 0)
		return -errno;
	w->name[0] = '\0';
	fd = openat(w->blobs->fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	return fd < 0 ? -errno : fd;
}

int oci_blob_end(
	struct oci_blob_writer *w, const char *wanted, char digest[OCI_DIGEST_MAX], struct error *e)
{
	int r = oci_hash_end(w->hash, digest);

	if (r < 0)
		return host_error(e, r, "write to");
	if (wanted && strcmp(wanted, digest) != 0)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"what came is not what the image says: %s came for %s", digest, wanted);
	r = publish(w, digest);
	return r < 0 ? host_error(e, r, "write to") : r;
}

void oci_blob_abort(struct oci_blob_writer *w)
{
	if (w->name[0])
		(void)unlinkat(w->blobs->fd, w->name, 0); /* a sweep removes it otherwise */
	w->name[0] = '\0';
	cleanup_close_p(&w->fd);
	w->fd = -1;
	oci_hash_free(w->hash);
	w->hash = NULL;
}
