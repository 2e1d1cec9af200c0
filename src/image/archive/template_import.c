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

enum { PIECE = 64 << 10, SUMS_MAX = 1024 };

#define RESERVE_BYTES (UINT64_C(256) << 20) /* of the disk, which stay free */

struct taken {
	char path[TEMPLATE_ARCHIVE_PATH_MAX];
	uint64_t bytes;
	char sum[TEMPLATE_ARCHIVE_DIGEST_BYTES];
	bool listed; /* in the manifest, with these values */
};

struct taking {
	struct tree_sink sink; /* first member */
	const struct home *home;
	const struct template_import_options *o;
	struct template_archive *sum;
	struct template_build build;
	struct taken *files; /* owned */
	size_t count;
	uint64_t room;	/* bytes that may be written */
	char *manifest; /* owned */
	size_t manifest_bytes;
	uint8_t *piece; /* owned */
};

static int bad(struct error *e, const char *what)
{
	return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
		"it is no template that `mayfly template export` wrote, or damaged: %s", what);
}

static int bad_path(struct error *e, const char *what, const char *path)
{
	return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
		"it is no template that `mayfly template export` wrote, or damaged: %s: %.100s",
		what, path);
}

/* --- which files --- */

static bool is_of_snapshot(const char *path)
{
	static const char *const names[] = {"state", "memory", "hot", "checksums"};
	unsigned cpus, memory_mb;
	char again[TEMPLATE_SNAPSHOT_NAME_MAX + 32];
	int at = 0;

	if (sscanf(path, "snapshots/%4uc-%8um/%n", &cpus, &memory_mb, &at) != 2 || !at)
		return false;
	(void)snprintf(again, sizeof(again), "snapshots/%uc-%um/", cpus, memory_mb); /* fits */
	if (strncmp(path, again, strlen(again)) != 0) /* no other way to write it */
		return false;
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(path + at, names[i]) == 0)
			return true;
	return strlen(path + at) == 5 && str_starts_with(path + at, "disk") &&
	       strchr("0123456789", path[at + 4]);
}

static bool is_delta(const char *path)
{
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < IMAGE_DELTAS_MAX; i++) {
		image_delta_name(i, name);
		if (strcmp(path, name) == 0)
			return true;
	}
	return false;
}

bool template_archive_takes(const char *path)
{
	static const char *const names[] = {"template.json", "rootfs.ext4", "rootfs.erofs",
		"scratch.ext4", "cpu-baseline", "history.json"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(path, names[i]) == 0)
			return true;
	return is_delta(path) || is_of_snapshot(path);
}

/* --- the beginning --- */

static int check_absent(const struct taking *t, const char *name, struct error *e)
{
	int fd = t->o->replace ? -ENOENT : template_open(t->home, name, NULL);

	if (fd < 0)
		return 0;
	(void)close(fd); /* a directory */
	return error_set(e, ERROR_EXISTS, EEXIST,
		"template '%s' exists: --force replaces it, --name gives another name", name);
}

/* The first entry says the name. */
static int begin(struct taking *t, const char *path, struct error *e)
{
	const char *name = t->o->name;
	size_t n = strcspn(path, "/");
	int r;

	if (n >= sizeof(t->sum->name) || path[n] != '/')
		return bad_path(e, "an entry without a folder", path);
	(void)snprintf(t->sum->name, sizeof(t->sum->name), "%.*s", (int)n, path); /* fits */
	if (!str_is_tagged_name(t->sum->name))
		return bad_path(e, "its folder cannot be a template's name", path);
	if (!name)
		name = t->sum->name;
	r = check_absent(t, name, e);
	return r < 0 ? r : template_begin(t->home, name, &t->build, e);
}

/* The path in the template; NULL: it may not be there. */
static const char *path_inside(const struct taking *t, const char *path)
{
	size_t n = strlen(t->sum->name);

	return strncmp(path, t->sum->name, n) == 0 && path[n] == '/' ? path + n + 1 : NULL;
}

/* --- a file --- */

static bool is_zero(const uint8_t *p, size_t n)
{
	return n == 0 || (p[0] == 0 && memcmp(p, p + 1, n - 1) == 0);
}

static ssize_t fill(const struct tree_data *d, uint8_t *to, size_t n)
{
	size_t done = 0;
	ssize_t k = 1;

	while (done < n && k > 0) {
		k = d->read(d->opaque, to + done, n - done);
		done += k > 0 ? (size_t)k : 0;
	}
	return k < 0 ? k : (ssize_t)done;
}

static int write_piece(struct taking *t, int fd, size_t n, uint64_t at, struct error *e)
{
	int r;

	if (is_zero(t->piece, n))
		return 0;
	if (n > t->room)
		return error_set(e, ERROR_NO_SPACE, ENOSPC, "the disk has no room for it");
	t->room -= n;
	r = fd_pwrite_full(fd, t->piece, n, (off_t)at);
	return r < 0 ? error_set_errno(e, r == -ENOSPC ? ERROR_NO_SPACE : ERROR_HOST, -r,
			       "cannot write the template")
		     : 0;
}

static int copy(struct taking *t, int fd, const struct tree_entry *entry,
	const struct tree_data *data, EVP_MD_CTX *hash, struct error *e)
{
	uint64_t at = 0;
	int r = ftruncate(fd, (off_t)entry->size) < 0
			? error_set_errno(e, ERROR_HOST, errno, "cannot write the template")
			: 0;

	while (r == 0 && at < entry->size) {
		ssize_t n = fill(data, t->piece, PIECE);

		if (n <= 0)
			return bad_path(e, "a file is cut off", entry->path);
		if (!EVP_DigestUpdate(hash, t->piece, (size_t)n))
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		r = write_piece(t, fd, (size_t)n, at, e);
		at += (uint64_t)n;
		if (r == 0 && progress_report(t->o->progress, "read the archive",
				      (int)(at * 100 / entry->size), entry->path) < 0)
			r = error_set(e, ERROR_INTERNAL, ECANCELED, "it was ended");
	}
	return r == 0 && fsync(fd) < 0
		       ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the template")
		       : r;
}

static int open_file(const struct taking *t, const char *path, struct error *e)
{
	int top = template_build_fd(&t->build), fd;
	const char *slash = strrchr(path, '/');
	_cleanup_free_ char *folder = slash ? strndup(path, (size_t)(slash - path)) : NULL;

	if (folder && mkdirat(top, folder, 0700) < 0 && errno != EEXIST)
		return error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the template");
	fd = openat(top, path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0 && errno == EEXIST)
		return bad_path(e, "a file comes twice", path);
	return fd < 0 ? error_set_errno(e, ERROR_NO_SPACE, errno, "cannot write the template") : fd;
}

static int take_file(struct taking *t, const char *path, const struct tree_entry *entry,
	const struct tree_data *data, struct error *e)
{
	struct taken *x = &t->files[t->count];
	EVP_MD_CTX *hash = EVP_MD_CTX_new();
	_cleanup_close_ int fd = -1;
	uint8_t sum[32];
	int r = 0;

	if (!template_archive_takes(path) || strlen(path) >= sizeof(x->path))
		r = bad_path(e, "a file that no template has", path);
	else if (t->count == TEMPLATE_ARCHIVE_FILES_MAX || entry->size > TEMPLATE_ARCHIVE_FILE_MAX)
		r = bad_path(e, "more files, or a larger one, than a template has", path);
	if (r == 0)
		r = fd = open_file(t, path, e);
	if (r >= 0 && (!hash || !EVP_DigestInit_ex(hash, EVP_sha256(), NULL)))
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	if (r >= 0)
		r = copy(t, fd, entry, data, hash, e);
	if (r == 0 && !EVP_DigestFinal_ex(hash, sum, NULL))
		r = error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	EVP_MD_CTX_free(hash);
	if (r < 0)
		return r;
	(void)snprintf(x->path, sizeof(x->path), "%s", path); /* fits */
	x->bytes = entry->size;
	str_hex(sum, sizeof(sum), x->sum);
	t->count++;
	return 0;
}

static int take_manifest(struct taking *t, const struct tree_entry *entry,
	const struct tree_data *data, struct error *e)
{
	uint8_t sum[32];

	if (entry->size == 0 || entry->size > TEMPLATE_ARCHIVE_MANIFEST_MAX)
		return bad(e, "its manifest is empty or too long");
	t->manifest = calloc(1, (size_t)entry->size + 1);
	if (!t->manifest)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	t->manifest_bytes = (size_t)entry->size;
	if (fill(data, (uint8_t *)t->manifest, t->manifest_bytes) != (ssize_t)t->manifest_bytes)
		return bad(e, "its manifest is cut off");
	if (!EVP_Digest(t->manifest, t->manifest_bytes, sum, NULL, EVP_sha256(), NULL))
		return error_set(e, ERROR_INTERNAL, EIO, "cannot compute a digest");
	str_hex(sum, sizeof(sum), t->sum->digest);
	return 0;
}

static int add(struct tree_sink *s, const struct tree_entry *entry, const struct tree_data *data,
	struct error *e)
{
	struct taking *t = (struct taking *)(void *)s;
	const char *path;
	int r = 0;

	if (S_ISDIR(entry->mode))
		return 0; /* as of an archive that was packed again */
	if (!S_ISREG(entry->mode) || entry->hardlink)
		return bad_path(e, "an entry that is no plain file", entry->path);
	if (t->manifest)
		return bad(e, "something comes after its manifest");
	if (!*t->sum->name)
		r = begin(t, entry->path, e);
	if (r < 0)
		return r;
	path = path_inside(t, entry->path);
	if (!path)
		return bad_path(e, "two folders", entry->path);
	return strcmp(path, "manifest.json") == 0 ? take_manifest(t, entry, data, e)
						  : take_file(t, path, entry, data, e);
}

/* --- the manifest --- */

static struct taken *find(struct taking *t, const char *path)
{
	for (size_t i = 0; i < t->count; i++)
		if (strcmp(t->files[i].path, path) == 0)
			return &t->files[i];
	return NULL;
}

static int check_file(struct taking *t, json_t *file, struct error *e)
{
	const char *path, *sum;
	json_int_t bytes;
	struct taken *x;

	if (json_unpack(file, "{s:s, s:I, s:s !}", "path", &path, "bytes", &bytes, "sha256", &sum) <
		0)
		return bad(e, "its manifest is unusable");
	x = find(t, path);
	if (!x || x->listed)
		return bad_path(e, "a file is missing, or listed twice", path);
	if (bytes < 0 || (uint64_t)bytes != x->bytes || strcmp(sum, x->sum) != 0)
		return bad_path(e, "a file has another SHA-256 than its manifest says", path);
	x->listed = true;
	return 0;
}

static int check_manifest(struct taking *t, struct error *e)
{
	static const char *const keys[] = {"format", "files", NULL};
	json_t *o, *files, *file;
	size_t i;
	int r = 0;

	if (!t->manifest)
		return bad(e, "it has no manifest at its end");
	if (t->o->digest && strcmp(t->o->digest, t->sum->digest) != 0)
		return error_set(
			e, ERROR_BAD_IMAGE, EBADMSG, "its digest is sha256:%s", t->sum->digest);
	o = config_json_parse(t->manifest, t->manifest_bytes, keys, "manifest.json", e);
	if (!o)
		return -EINVAL;
	files = json_object_get(o, "files");
	if (json_integer_value(json_object_get(o, "format")) != 1 || !json_is_array(files))
		r = bad(e, "its manifest has another format");
	json_array_foreach(files, i, file)
	{
		if (r == 0)
			r = check_file(t, file, e);
	}
	for (i = 0; i < t->count && r == 0; i++)
		if (!t->files[i].listed)
			r = bad_path(e, "a file that its manifest does not list", t->files[i].path);
	json_decref(o);
	return r;
}

/* --- the end --- */

/* Adds the sum of an image's file to the text that names the image. */
static int add_sum(struct taking *t, const char *path, struct buf *text, struct error *e)
{
	const struct taken *file = find(t, path);

	if (!file)
		return bad_path(e, "it lacks a file of its root file system", path);
	return buf_add_u8(text, ' ') < 0 || buf_add_str(text, file->sum) < 0
		       ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory")
		       : 0;
}

/* Builds count the deltas that are there. */
static int check_deltas(struct taking *t, unsigned deltas, struct error *e)
{
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = deltas; i < IMAGE_DELTAS_MAX; i++) {
		image_delta_name(i, name);
		if (find(t, name))
			return bad_path(e, "it has more deltas than it says", name);
	}
	return 0;
}

static int add_sums(struct taking *t, const struct template *m, struct buf *text, struct error *e)
{
	int r = add_sum(t, image_file_name(m->kind), text, e);
	char name[IMAGE_DELTA_NAME_BYTES];

	for (unsigned i = 0; i < m->deltas && r == 0; i++) {
		image_delta_name(i, name);
		r = add_sum(t, name, text, e);
	}
	return r == 0 && m->kind == IMAGE_EROFS ? add_sum(t, "scratch.ext4", text, e) : r;
}

/* What the description says of the image is its author's word, and steps of builds are kept by
 * it. */
static int name_image(struct taking *t, struct template *m, struct error *e)
{
	struct buf text = BUF_INIT(SUMS_MAX);
	uint8_t sum[32];
	int r = buf_add_str(&text, "imported");

	r = r < 0 ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory")
		  : add_sums(t, m, &text, e);

	free(m->image_digest);
	m->image_digest = malloc(TEMPLATE_ARCHIVE_DIGEST_BYTES);
	if (r == 0 && !m->image_digest)
		r = error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0 && !EVP_Digest(buf_head(&text), buf_len(&text), sum, NULL, EVP_sha256(), NULL))
		r = error_set(e, ERROR_INTERNAL, EIO, "cannot compute a digest");
	if (r == 0)
		str_hex(sum, sizeof(sum), m->image_digest);
	buf_done(&text);
	return r;
}

static int finish(struct taking *t, struct error *e)
{
	struct template m = {0};
	int r = check_manifest(t, e);

	if (r == 0)
		r = template_load_at(template_build_fd(&t->build), t->sum->name, &m, e);
	if (r < 0)
		return r;
	r = check_deltas(t, m.deltas, e);
	if (r == 0)
		r = name_image(t, &m, e);
	if (r == 0)
		r = template_record_image(template_build_fd(&t->build), m.kind, m.deltas, e);
	if (r == 0)
		r = template_commit(&t->build, &m, e);
	template_done(&m);
	return r;
}

static int prepare(struct taking *t, struct error *e)
{
	uint64_t free_bytes = 0;
	int r = file_free_bytes(t->home->area_fd[HOME_TEMPLATES], &free_bytes);

	t->files = calloc(TEMPLATE_ARCHIVE_FILES_MAX, sizeof(*t->files));
	t->piece = malloc(PIECE);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "the directory of templates");
	t->room = free_bytes > RESERVE_BYTES ? free_bytes - RESERVE_BYTES : 0;
	return t->files && t->piece ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

int template_import(const struct home *h, const struct template_import_options *o,
	struct template_archive *ret, struct error *e)
{
	static const struct tree_sink_ops ops = {.add = add};
	struct taking t = {
		.sink.ops = &ops, .home = h, .o = o, .sum = ret, .build = TEMPLATE_BUILD_INIT};
	const struct parse_options po = {.job = PARSE_TAR, .fd = o->fd};
	int r;

	*ret = (struct template_archive){.files = 0};
	r = prepare(&t, e);
	if (r == 0)
		r = o->unpack(&po, &t.sink, e);
	if (r == 0)
		r = finish(&t, e);
	for (size_t i = 0; i < t.count; i++)
		ret->bytes += t.files[i].bytes;
	ret->files = t.count;
	if (r == 0 && o->name)
		(void)snprintf(ret->name, sizeof(ret->name), "%s", o->name); /* fits: it exists */
	template_abort(&t.build);
	free(t.files);
	free(t.manifest);
	free(t.piece);
	return r;
}
