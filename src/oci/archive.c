#include "oci/archive.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "oci/document_tree.h"

enum { LINKS_MAX = 8, PIECE = 64 << 10 };

/* A file of the archive, or a link to another name. */
struct member {
	char *name; /* owned, clean */
	char *link; /* owned, clean; or NULL */
	char digest[OCI_DIGEST_MAX];
	uint64_t size;
};

struct members {
	struct tree_sink sink;	  /* first member */
	struct oci_supply supply; /* by digest */
	const struct oci_blobs *blobs;
	struct member *items; /* owned */
	size_t count;
	uint64_t bytes;
};

static void members_done(struct members *m)
{
	for (size_t i = 0; i < m->count; i++) {
		free(m->items[i].name);
		free(m->items[i].link);
	}
	free(m->items);
}

/* --- reading the archive --- */

static int copy_content(
	struct oci_blob_writer *w, const struct tree_data *d, uint64_t size, struct error *e)
{
	_cleanup_free_ uint8_t *piece = malloc(PIECE);
	ssize_t n = 1;
	int r = piece ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");

	while (r == 0 && w->size < size && (n = d->read(d->opaque, piece, PIECE)) > 0)
		r = oci_blob_add(w, piece, (size_t)n, e);
	if (r == 0 && (n < 0 || w->size != size))
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG, "the archive is damaged or cut off");
	return r;
}

static int store(struct members *m, struct member *to, const struct tree_entry *t,
	const struct tree_data *d, struct error *e)
{
	_cleanup_(oci_blob_abort) struct oci_blob_writer w = OCI_BLOB_WRITER_INIT;
	int r = oci_blob_begin(m->blobs, &w, e);

	if (r == 0)
		r = copy_content(&w, d, t->size, e);
	if (r == 0)
		r = oci_blob_end(&w, NULL, to->digest, e);
	if (r < 0)
		return r;
	(void)close(r); /* read-only */
	to->size = t->size;
	return 0;
}

/* The name in the archive that a symbolic link leads to, relative to the link's directory. */
static char *link_target(const struct tree_entry *t)
{
	char joined[2 * TREE_PATH_MAX], clean[TREE_PATH_MAX];
	const char *slash = strrchr(t->path, '/'), *rest = t->symlink;
	size_t n = slash ? (size_t)(slash - t->path) : 0;

	if (t->hardlink)
		return strdup(t->hardlink);
	while (str_starts_with(rest, "../")) {
		while (n > 0 && t->path[n - 1] != '/')
			n--;
		n -= n > 0;
		rest += 3;
	}
	(void)snprintf(joined, sizeof(joined), "%.*s/%s", (int)n, t->path, rest); /* fits */
	return tree_clean_path(joined, clean) ? strdup(clean) : strdup("");
}

static int add_member(
	struct tree_sink *s, const struct tree_entry *t, const struct tree_data *d, struct error *e)
{
	struct members *m = (struct members *)(void *)s;
	bool link = t->hardlink || S_ISLNK(t->mode);
	struct member *to;

	if (!link && !S_ISREG(t->mode))
		return 0;
	if (m->count == OCI_ARCHIVE_FILES_MAX || (!link && t->size > OCI_LAYER_BYTES_MAX) ||
		(m->bytes += link ? 0 : t->size) > 2 * OCI_LAYER_BYTES_MAX)
		return error_set(e, ERROR_LIMIT, EFBIG,
			"the archive is too large at %.200s: at most %d files, %llu GiB each and "
			"twice that in all",
			t->path, OCI_ARCHIVE_FILES_MAX,
			(unsigned long long)OCI_LAYER_BYTES_MAX >> 30);
	to = &m->items[m->count];
	to->name = strdup(t->path);
	to->link = link ? link_target(t) : NULL;
	m->count++;
	if (!to->name || (link && !to->link))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return link ? 0 : store(m, to, t, d, e);
}

/* The last one of that name, as an unpacked archive would have it. */
static const struct member *find(const struct members *m, const char *name)
{
	char clean[TREE_PATH_MAX];

	if (!tree_clean_path(name, clean))
		return NULL;
	for (int hops = 0; hops < LINKS_MAX; hops++) {
		const struct member *found = NULL;

		for (size_t i = m->count; i-- > 0 && !found;)
			if (strcmp(m->items[i].name, clean) == 0)
				found = &m->items[i];
		if (!found || !found->link)
			return found;
		(void)snprintf(clean, sizeof(clean), "%s", found->link); /* fits: it is clean */
	}
	return NULL;
}

static int open_member(
	const struct members *m, const char *name, const struct member **ret, struct error *e)
{
	const struct member *found = find(m, name);
	int fd = -1, r = found ? oci_blobs_find(m->blobs, found->digest, &fd) : -ENOENT;

	if (r < 0)
		return error_set_errno(e, ERROR_BAD_IMAGE, -r, "the archive lacks %.200s", name);
	*ret = found;
	return fd;
}

static int read_member(
	const struct members *m, const char *name, const char *what, json_t **ret, struct error *e)
{
	const struct member *found;
	_cleanup_close_ int fd = open_member(m, name, &found, e);

	return fd < 0 ? fd : oci_document_read(m->supply.unpack, fd, what, ret, e);
}

static int open_blob(
	struct oci_supply *s, const struct oci_descriptor *d, int *ret_fd, struct error *e)
{
	struct members *m =
		(struct members *)(void *)((char *)s - offsetof(struct members, supply));
	const struct member *found;
	char name[OCI_HEX_MAX + 16];
	_cleanup_close_ int fd = -1;

	(void)snprintf(name, sizeof(name), "blobs/sha256/%s", oci_digest_hex(d->digest)); /* fits */
	fd = open_member(m, name, &found, e);
	if (fd < 0)
		return fd;
	if (strcmp(found->digest, d->digest) != 0 || found->size != d->size)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the blob %s is damaged: its digest is %s", d->digest, found->digest);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

static int read_archive(struct members *m, const char *file, const struct oci_blobs *b,
	unpack_fn fn, struct error *e)
{
	static const struct tree_sink_ops ops = {.add = add_member};
	struct parse_options o = {.job = PARSE_TAR};

	m->sink.ops = &ops;
	m->supply.open = open_blob;
	m->supply.unpack = fn;
	m->blobs = b;
	m->items = calloc(OCI_ARCHIVE_FILES_MAX, sizeof(*m->items));
	if (!m->items)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return unpack_path(fn, file, o, &m->sink, e);
}

/* --- an OCI layout --- */

int oci_archive_load_layout(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e)
{
	_cleanup_(members_done) struct members m = {.count = 0};
	_cleanup_(oci_index_done) struct oci_index x = {0};
	_cleanup_(oci_document_done) json_t *o = NULL;
	struct oci_descriptor root;
	int r = read_archive(&m, file, b, fn, e);

	if (r == 0)
		r = read_member(&m, "index.json", "index", &o, e);
	if (r == 0)
		r = oci_index_take(o, &x, e);
	if (r == 0)
		r = oci_index_choose(&x, name, &root, e);
	return r < 0 ? r : oci_image_load(&m.supply, &root, ret, e);
}

/* --- docker save --- */

static bool has_tag(const struct oci_saved *s, const char *name)
{
	bool tagged = strchr(strrchr(name, '/') ? strrchr(name, '/') : name, ':') != NULL;
	size_t n = strlen(name);

	for (size_t i = 0; i < s->tags.count; i++) {
		const char *tag = s->tags.items[i];

		if (strncmp(tag, name, n) == 0 && strcmp(tag + n, tagged ? "" : ":latest") == 0)
			return true;
	}
	return false;
}

static int choose(const struct oci_saved_list *l, const char *name, const struct oci_saved **ret,
	struct error *e)
{
	if (!name && l->count > 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"it has %zu images: append : and REPOSITORY:TAG of one", l->count);
	for (size_t i = 0; i < l->count; i++)
		if (!name || has_tag(&l->items[i], name)) {
			*ret = &l->items[i];
			return 0;
		}
	return error_set(e, ERROR_NOT_FOUND, ENOENT, "it has no image '%.200s'", name);
}

/* Whether a file begins as gzip or zstd do. */
static bool is_compressed(int fd)
{
	static const uint8_t gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	uint8_t head[4] = {0};

	if (fd_pread_full(fd, head, sizeof(head), 0) < 0)
		return false;
	return memcmp(head, gzip, sizeof(gzip)) == 0 || memcmp(head, zstd, sizeof(zstd)) == 0;
}

static int open_layer(const struct members *m, const struct oci_saved *s, size_t i,
	struct oci_image *image, struct error *e)
{
	const struct member *found;
	int fd = open_member(m, s->layers.items[i], &found, e);

	if (fd < 0)
		return fd;
	image->layers[image->layer_count++] = fd;
	if (strcmp(found->digest, image->config.diff_ids.items[i]) != 0 && !is_compressed(fd))
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"%.200s is not layer %zu: its digest is %s, not %s", s->layers.items[i],
			i + 1, found->digest, image->config.diff_ids.items[i]);
	return 0;
}

/* Every version of docker names the file of the configuration by its digest. */
static int check_config_name(const struct members *m, const struct oci_saved *s,
	char digest[OCI_DIGEST_MAX], struct error *e)
{
	const struct member *found = find(m, s->config);
	const char *base = strrchr(s->config, '/');

	if (!found)
		return error_set(e, ERROR_BAD_IMAGE, ENOENT, "the archive lacks %.200s", s->config);
	base = base ? base + 1 : s->config;
	memcpy(digest, found->digest, OCI_DIGEST_MAX);
	if (strncmp(base, oci_digest_hex(digest), OCI_HEX_MAX - 1) == 0)
		return 0;
	return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
		"the configuration %.200s is damaged: its digest is %s", s->config, digest);
}

static int load_saved(const struct members *m, const struct oci_saved *s, struct oci_image *image,
	struct error *e)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	int r = check_config_name(m, s, image->digest, e);

	if (r == 0)
		r = read_member(m, s->config, "configuration", &o, e);
	if (r == 0)
		r = oci_config_take(o, s->layers.count, &image->config, e);
	for (size_t i = 0; i < s->layers.count && r == 0; i++)
		r = open_layer(m, s, i, image, e);
	return r;
}

int oci_archive_load_docker(const char *file, const char *name, const struct oci_blobs *b,
	unpack_fn fn, struct oci_image *ret, struct error *e)
{
	_cleanup_(members_done) struct members m = {.count = 0};
	_cleanup_(oci_saved_list_done) struct oci_saved_list l = {0};
	_cleanup_(oci_document_done) json_t *o = NULL;
	const struct oci_saved *s = NULL;
	struct oci_image image = {.layer_count = 0};
	int r = read_archive(&m, file, b, fn, e);

	if (r == 0)
		r = read_member(&m, "manifest.json", "manifest.json", &o, e);
	if (r == 0)
		r = oci_saved_take(o, &l, e);
	if (r == 0)
		r = choose(&l, name, &s, e);
	if (r == 0)
		r = load_saved(&m, s, &image, e);
	if (r < 0)
		oci_image_done(&image);
	else
		*ret = image;
	return r;
}
