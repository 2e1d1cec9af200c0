#include "oci/registry.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "oci/pull.h"

enum { ATTEMPTS = 3 };

enum { ORIGIN_MAX = OCI_REGISTRY_MAX + OCI_REPOSITORY_MAX };

struct registry {
	struct oci_supply supply; /* first member */
	const struct oci_registry_options *o;
	struct oci_pull pull;
	char origin[ORIGIN_MAX]; /* registry/repository */
};

static bool is_stranger(const struct registry *g)
{
	return g->o->reach && g->o->reach->stranger;
}

/* --- blobs --- */

static int take_blob(void *opaque, const void *data, size_t n, struct error *e)
{
	return oci_blob_add(opaque, data, n, e);
}

static int fetch_once(struct registry *g, const struct oci_descriptor *d, struct error *e)
{
	_cleanup_(oci_blob_abort) struct oci_blob_writer w = OCI_BLOB_WRITER_INIT;
	const struct oci_pull_request q = {
		.manifest = d->media == OCI_MEDIA_INDEX || d->media == OCI_MEDIA_MANIFEST,
		.version = d->digest,
		.bytes_max = d->size,
		.take = take_blob,
		.opaque = &w};
	char digest[OCI_DIGEST_MAX];
	int r = oci_blob_begin(g->o->blobs, &w, e);

	if (r == 0)
		r = oci_pull_get(&g->pull, &q, e);
	if (r == 0 && w.size != d->size)
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the registry sends %llu bytes of %s instead of %llu",
			(unsigned long long)w.size, d->digest, (unsigned long long)d->size);
	if (r == 0)
		r = oci_blob_end(&w, d->digest, digest, e);
	if (r >= 0)
		oci_blobs_mark(g->o->blobs, g->origin, digest);
	return r;
}

/* Fetches a blob, and tries again if the connection breaks. Returns a descriptor. */
static int fetch(struct registry *g, const struct oci_descriptor *d, struct error *e)
{
	const struct oci_allowance *a = g->o->allowance;
	int r = a ? a->take(a->opaque, d->size, e) : 0;

	if (r < 0)
		return r;
	r = -EAGAIN;
	for (int i = 0; i < ATTEMPTS && r == -EAGAIN; i++) {
		struct error why = {0};

		r = fetch_once(g, d, &why);
		if (r < 0 && (r != -EAGAIN || i + 1 == ATTEMPTS))
			return error_set(e, why.code, -r, "%s", why.message);
	}
	return r;
}

static int open_blob(
	struct oci_supply *s, const struct oci_descriptor *d, int *ret_fd, struct error *e)
{
	struct registry *g = (struct registry *)(void *)s;
	_cleanup_close_ int fd = -1;
	struct stat st;
	bool may = !is_stranger(g) || oci_blobs_marked(g->o->blobs, g->origin, d->digest);
	int r = may ? oci_blobs_find(g->o->blobs, d->digest, &fd) : -ENOENT;

	if (r == -ENOENT) {
		fd = fetch(g, d, e);
		r = fd < 0 ? fd : 0;
	}
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot read the blob %s", d->digest);
	if (fstat(fd, &st) < 0 || (uint64_t)st.st_size != d->size)
		return error_set(e, ERROR_BAD_IMAGE, EBADMSG,
			"the blob %s has %lld bytes, not the %llu that the image says", d->digest,
			(long long)st.st_size, (unsigned long long)d->size);
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- the manifest --- */

static int keep(
	struct registry *g, const struct buf *body, struct oci_descriptor *root, struct error *e)
{
	_cleanup_(oci_blob_abort) struct oci_blob_writer w = OCI_BLOB_WRITER_INIT;
	const char *wanted = g->o->reference->digest;
	int r = oci_blob_begin(g->o->blobs, &w, e);

	if (r == 0)
		r = oci_blob_add(&w, buf_head(body), buf_len(body), e);
	if (r == 0)
		r = oci_blob_end(&w, *wanted ? wanted : NULL, root->digest, e);
	if (r < 0)
		return r;
	(void)close(r); /* read-only */
	oci_blobs_mark(g->o->blobs, g->origin, root->digest);
	root->size = buf_len(body);
	return 0;
}

static int take_into(void *opaque, const void *data, size_t n, struct error *e)
{
	return buf_add(opaque, data, n) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
					    : 0;
}

static int fetch_root(struct registry *g, struct oci_descriptor *root, struct error *e)
{
	struct buf body = BUF_INIT(OCI_DOCUMENT_MAX);
	const struct oci_pull_request q = {.manifest = true,
		.version = oci_reference_version(g->o->reference),
		.bytes_max = OCI_DOCUMENT_MAX,
		.take = take_into,
		.opaque = &body};
	int r = oci_pull_get(&g->pull, &q, e);

	if (r == 0 && buf_len(&body) == 0)
		r = error_set(e, ERROR_BAD_IMAGE, EBADMSG, "the registry sends an empty manifest");
	if (r == 0)
		r = keep(g, &body, root, e);
	buf_done(&body);
	return r;
}

/* A manifest that is named by its digest may be in the store already. */
static bool find_root(const struct registry *g, struct oci_descriptor *root)
{
	const char *digest = g->o->reference->digest;
	_cleanup_close_ int fd = -1;
	struct stat st;

	if (!*digest || is_stranger(g) || oci_blobs_find(g->o->blobs, digest, &fd) < 0 ||
		fstat(fd, &st) < 0)
		return false;
	memcpy(root->digest, digest, OCI_DIGEST_MAX);
	root->size = (uint64_t)st.st_size;
	return true;
}

int oci_registry_load(const struct oci_registry_options *o, struct oci_image *ret, struct error *e)
{
	struct registry g = {.supply = {open_blob, o->unpack, o->digest_only}, .o = o};
	struct oci_descriptor root = {.media = OCI_MEDIA_MANIFEST};
	int r = 0;

	(void)snprintf(g.origin, sizeof(g.origin), "%s/%s", o->reference->registry,
		o->reference->repository); /* fits */
	oci_pull_init(&g.pull, o->at ? o->at : o->reference, o->credentials, o->progress);
	g.pull.reach = o->reach;
	if (!find_root(&g, &root))
		r = fetch_root(&g, &root, e);
	if (r == 0)
		r = oci_image_load(&g.supply, &root, ret, e);
	oci_pull_done(&g.pull);
	return r;
}
