#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "image/template.h"
#include "image/archive/template_archive.h"

enum {
	BLOCK = 512,
	PIECE = 256 << 10,
	GAP = 1 << 20,	   /* smaller holes are written as zeros */
	MAP_MAX = 4 << 20, /* text of a file's data ranges */
	PAX_MAX = 4096,
	DEPTH_MAX = 2,
};

struct writing {
	int fd, dirfd;
	const char *name;
	const struct progress *progress;
	struct template_archive *sum;
	json_t *files; /* of the manifest */
	uint8_t *piece;
	struct error *e;
};

/* --- tar --- */

struct ustar {
	char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100],
		magic[6], version[2], user[32], group[32], major[8], minor[8], prefix[155],
		rest[12];
};

_Static_assert(sizeof(struct ustar) == BLOCK, "a header is a block");

static int put(struct writing *w, const void *data, size_t n)
{
	int r = fd_write_full(w->fd, data, n);

	return r < 0 ? error_set_errno(w->e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write the archive")
		     : 0;
}

static int pad(struct writing *w, uint64_t n)
{
	static const char zeros[BLOCK];

	return n % BLOCK ? put(w, zeros, (size_t)(BLOCK - n % BLOCK)) : 0;
}

/* bytes: below 8 GiB, else a pax header says it, too. */
static int put_header(struct writing *w, const char *path, char type, uint64_t bytes)
{
	struct ustar h = {.mode = "0000644",
		.uid = "0000000",
		.gid = "0000000",
		.type = type,
		.magic = "ustar",
		.version = {'0', '0'},
		.user = "root",
		.group = "root"};
	unsigned sum = 0;

	(void)snprintf(h.name, sizeof(h.name), "%s", path); /* pax has the whole of it */
	(void)snprintf(h.size, sizeof(h.size), "%011llo",
		(unsigned long long)(bytes & 077777777777)); /* fits, as the next two */
	(void)snprintf(h.mtime, sizeof(h.mtime), "%011o", 0);
	memset(h.sum, ' ', sizeof(h.sum));
	for (size_t i = 0; i < sizeof(h); i++)
		sum += ((const uint8_t *)&h)[i];
	(void)snprintf(h.sum, sizeof(h.sum), "%06o", sum & 0777777);
	return put(w, &h, sizeof(h));
}

/* "<length of the record> key=value\n" */
static int add_record(struct buf *b, const char *key, const char *value)
{
	size_t n = strlen(key) + strlen(value) + 3, all = n + 1;
	char digits[24];

	while (all != n + (size_t)snprintf(digits, sizeof(digits), "%zu", all))
		all = n + strlen(digits);
	return buf_printf(b, "%zu %s=%s\n", all, key, value);
}

static int add_number(struct buf *b, const char *key, uint64_t n)
{
	char text[24];

	(void)snprintf(text, sizeof(text), "%llu", (unsigned long long)n); /* fits */
	return add_record(b, key, text);
}

/* stored: what follows the header of the file itself. */
static int put_pax(struct writing *w, const char *path, uint64_t bytes, uint64_t stored)
{
	struct buf b = BUF_INIT(PAX_MAX);
	int r = add_record(&b, "GNU.sparse.major", "1");

	if (r == 0)
		r = add_record(&b, "GNU.sparse.minor", "0");
	if (r == 0)
		r = add_record(&b, "GNU.sparse.name", path);
	if (r == 0)
		r = add_number(&b, "GNU.sparse.realsize", bytes);
	if (r == 0)
		r = add_number(&b, "size", stored);
	if (r < 0)
		r = error_set_errno(w->e, ERROR_INTERNAL, -r, "cannot write the archive");
	if (r == 0)
		r = put_header(w, "pax", 'x', buf_len(&b));
	if (r == 0)
		r = put(w, buf_head(&b), buf_len(&b));
	if (r == 0)
		r = pad(w, buf_len(&b));
	buf_done(&b);
	return r;
}

/* --- the ranges with data --- */

struct map {
	struct buf text; /* offsets and lengths, each in a line */
	size_t count;
	uint64_t bytes;
};

static int add_range(struct map *m, uint64_t from, uint64_t to)
{
	m->count++;
	m->bytes += to - from;
	return buf_printf(&m->text, "%llu\n%llu\n", (unsigned long long)from,
		(unsigned long long)(to - from));
}

/* The next range from *at, with what small holes it has. */
static int next_range(int fd, uint64_t size, uint64_t *at, uint64_t *ret_end)
{
	off_t data = lseek(fd, (off_t)*at, SEEK_DATA), end;

	if (data < 0)
		return errno == ENXIO ? 0 : -errno;
	*at = (uint64_t)data;
	do {
		end = lseek(fd, data, SEEK_HOLE);
		data = end < 0 ? -1 : lseek(fd, end, SEEK_DATA);
	} while (data >= 0 && data - end < GAP);
	if (end < 0)
		return -errno;
	*ret_end = (uint64_t)end < size ? (uint64_t)end : size;
	return 1;
}

static int make_map(int fd, uint64_t size, struct map *m)
{
	uint64_t at = 0, end;
	int r = 0;

	while (r == 0 && at < size) {
		r = next_range(fd, size, &at, &end);
		if (r <= 0)
			break;
		r = add_range(m, at, end);
		at = end;
	}
	return r == 0 ? add_range(m, size, size) : r; /* how long it is */
}

/* --- a file --- */

static int note(struct writing *w, const char *path, uint64_t bytes, EVP_MD_CTX *hash)
{
	uint8_t sum[32];
	char hex[TEMPLATE_ARCHIVE_DIGEST_BYTES];

	if (!EVP_DigestFinal_ex(hash, sum, NULL))
		return -ENOMEM;
	str_hex(sum, sizeof(sum), hex);
	w->sum->files++;
	return json_array_append_new(w->files, json_pack("{s:s, s:I, s:s}", "path", path, "bytes",
						       (json_int_t)bytes, "sha256", hex));
}

static int hash_zeros(EVP_MD_CTX *hash, uint64_t n)
{
	static const uint8_t zeros[64 << 10];

	for (size_t k; n; n -= k) {
		k = n < sizeof(zeros) ? (size_t)n : sizeof(zeros);
		if (!EVP_DigestUpdate(hash, zeros, k))
			return -ENOMEM;
	}
	return 0;
}

static int put_range(
	struct writing *w, int fd, const char *path, uint64_t from, uint64_t to, EVP_MD_CTX *hash)
{
	int r = 0;

	for (size_t n; from < to && r == 0; from += n) {
		n = to - from < PIECE ? (size_t)(to - from) : PIECE;
		r = fd_pread_full(fd, w->piece, n, (off_t)from);
		if (r == 0 && !EVP_DigestUpdate(hash, w->piece, n))
			r = -ENOMEM;
		if (r < 0)
			return error_set_errno(w->e, ERROR_HOST, -r, "cannot read %s", path);
		r = put(w, w->piece, n);
		if (r == 0 && progress_report(w->progress, "write the archive", PROGRESS_NO_PERCENT,
				      path) < 0)
			r = error_set(w->e, ERROR_INTERNAL, ECANCELED, "it was ended");
	}
	return r;
}

/* Its data, as the map says; and the sum of all of it. */
static int put_data(struct writing *w, int fd, const char *path, uint64_t size, EVP_MD_CTX *hash)
{
	uint64_t at = 0, end = 0, done = 0;
	int r = 0;

	while (r == 0 && at < size) {
		r = next_range(fd, size, &at, &end);
		if (r <= 0)
			break;
		r = hash_zeros(hash, at - done);
		if (r == 0)
			r = put_range(w, fd, path, at, end, hash);
		at = done = end;
	}
	return r < 0 ? r : hash_zeros(hash, size - done);
}

static int put_sparse(struct writing *w, int fd, const char *path, const char *shown, uint64_t size)
{
	struct map m = {.text = BUF_INIT(MAP_MAX)};
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	int r = hash && EVP_DigestInit_ex(hash, EVP_sha256(), NULL) ? make_map(fd, size, &m)
								    : -ENOMEM;
	char count[24];
	size_t n = (size_t)snprintf(count, sizeof(count), "%zu\n", m.count);
	uint64_t text = n + buf_len(&m.text), padded = (text + BLOCK - 1) / BLOCK * BLOCK;

	if (r == 0)
		r = put_pax(w, shown, size, padded + m.bytes);
	if (r == 0)
		r = put_header(w, shown, '0', padded + m.bytes);
	if (r == 0)
		r = put(w, count, n);
	if (r == 0)
		r = put(w, buf_head(&m.text), buf_len(&m.text));
	if (r == 0)
		r = pad(w, text);
	if (r == 0)
		r = put_data(w, fd, path, size, hash);
	if (r == 0)
		r = pad(w, m.bytes);
	if (r == 0)
		r = note(w, path, size, hash);
	w->sum->bytes += m.bytes;
	buf_done(&m.text);
	EVP_MD_CTX_free(hash);
	return r < 0 ? error_set_errno(w->e, ERROR_HOST, -r, "cannot read %s", path) : 0;
}

static int put_file(struct writing *w, int dirfd, const char *name, const char *path)
{
	_cleanup_close_ int fd =
		file_open_foreign(dirfd, name, O_RDONLY, TEMPLATE_ARCHIVE_FILE_MAX);
	_cleanup_free_ char *shown = str_printf("%s/%s", w->name, path);
	struct stat st;

	if (fd < 0 || fstat(fd, &st) < 0)
		return error_set_errno(
			w->e, ERROR_HOST, fd < 0 ? -fd : errno, "cannot read %s", path);
	if (!shown)
		return error_set(w->e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return put_sparse(w, fd, path, shown, (uint64_t)st.st_size);
}

/* --- the template --- */

static int put_folder(struct writing *w, int dirfd, const char *above, int depth);

static int put_entry(struct writing *w, int dirfd, const char *name, const char *above, int depth)
{
	_cleanup_free_ char *path = str_printf("%s%s", above, name),
			    *below = str_printf("%s%s/", above, name);
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!path || !below)
		return error_set(w->e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (fstatat(dirfd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return error_set_errno(w->e, ERROR_HOST, errno, "%s", path);
	if (!S_ISDIR(st.st_mode))
		return template_archive_takes(path) ? put_file(w, dirfd, name, path) : 0;
	if (depth == DEPTH_MAX)
		return 0;
	fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? error_set_errno(w->e, ERROR_HOST, errno, "%s", path)
		      : put_folder(w, fd, below, depth + 1);
}

/* In the order of names, so that the same template gives the same archive. */
static int put_folder(struct writing *w, int dirfd, const char *above, int depth)
{
	char **names = NULL;
	int r = workdir_list(dirfd, &names);

	if (r < 0)
		return error_set_errno(w->e, ERROR_HOST, -r, "cannot list %s", above);
	for (char **n = names; *n && r == 0; n++)
		r = put_entry(w, dirfd, *n, above, depth);
	workdir_list_free(names);
	return r;
}

static int put_manifest(struct writing *w)
{
	static const char zeros[2 * BLOCK];
	json_t *o = json_pack("{s:i, s:O}", "format", 1, "files", w->files);
	_cleanup_free_ char *text = o ? json_dumps(o, JSON_INDENT(1) | JSON_SORT_KEYS) : NULL,
			    *path = str_printf("%s/manifest.json", w->name);
	uint8_t sum[32];
	int r = text && path ? 0 : error_set(w->e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	json_decref(o);
	if (r == 0 && !EVP_Digest(text, strlen(text), sum, NULL, EVP_sha256(), NULL))
		r = error_set(w->e, ERROR_INTERNAL, EIO, "cannot compute a digest");
	if (r == 0)
		r = put_header(w, path, '0', strlen(text));
	if (r == 0)
		r = put(w, text, strlen(text));
	if (r == 0)
		r = pad(w, strlen(text));
	if (r == 0)
		r = put(w, zeros, sizeof(zeros));
	if (r == 0)
		str_hex(sum, sizeof(sum), w->sum->digest);
	return r;
}

int template_export(const struct home *h, const char *name, int fd, const struct progress *p,
	struct template_archive *ret, struct error *e)
{
	_cleanup_close_ int dirfd = template_hold(h, name, e);
	_cleanup_free_ uint8_t *piece = malloc(PIECE);
	struct writing w = {.fd = fd,
		.dirfd = dirfd,
		.name = name,
		.progress = p,
		.sum = ret,
		.files = json_array(),
		.piece = piece,
		.e = e};
	struct template t = {0};
	int r = dirfd < 0 ? dirfd : 0;

	*ret = (struct template_archive){.files = 0};
	if (r == 0 && (!piece || !w.files))
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		r = template_load_at(dirfd, name, &t, e);
	if (r == 0) {
		(void)snprintf(ret->name, sizeof(ret->name), "%s", name); /* fits */
		r = put_folder(&w, dirfd, "", 0);
	}
	if (r == 0)
		r = put_manifest(&w);
	template_done(&t);
	json_decref(w.files);
	return r;
}
