#include "oci/image.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "oci/document_tree.h"

enum { INDEX_DEPTH_MAX = 4, PLATFORMS_SHOWN = 200 };

static const char system_name[] = "linux", architecture[] = "amd64";

/* --- choosing --- */

/* Whether an entry of an index is an image. Signatures and the like have no platform. */
static bool is_image(const struct oci_descriptor *d)
{
	return (d->media == OCI_MEDIA_MANIFEST || d->media == OCI_MEDIA_INDEX) &&
	       strcmp(d->os, "unknown") != 0;
}

static bool is_ours(const struct oci_descriptor *d)
{
	return strcmp(d->os, system_name) == 0 && strcmp(d->architecture, architecture) == 0;
}

/* Fails, and lists the platforms that the index has. */
static int no_platform(const struct oci_index *x, struct error *e)
{
	struct buf text = BUF_INIT(PLATFORMS_SHOWN);

	for (size_t i = 0; i < x->count; i++)
		if (is_image(&x->items[i]))
			(void)buf_printf(&text, "%s%s/%s", buf_len(&text) ? ", " : "",
				x->items[i].os, x->items[i].architecture); /* a long list is cut */
	(void)error_set(e, ERROR_BAD_IMAGE, ENOENT, "there is no image for %s/%s, only for: %.*s",
		system_name, architecture, (int)buf_len(&text),
		buf_len(&text) ? (const char *)buf_head(&text) : "");
	buf_done(&text);
	return -ENOENT;
}

static int choose_platform(const struct oci_index *x, struct oci_descriptor *ret, struct error *e)
{
	const struct oci_descriptor *only = NULL;
	size_t count = 0;

	for (size_t i = 0; i < x->count; i++) {
		const struct oci_descriptor *d = &x->items[i];

		if (is_image(d) && is_ours(d)) {
			*ret = *d;
			return 0;
		}
		count += is_image(d);
		only = is_image(d) ? d : only;
	}
	if (count != 1 || *only->os)
		return no_platform(x, e);
	*ret = *only; /* its configuration will tell */
	return 0;
}

static int no_name(const struct oci_index *x, const char *name, struct error *e)
{
	struct buf text = BUF_INIT(PLATFORMS_SHOWN);

	for (size_t i = 0; i < x->count; i++)
		if (*x->items[i].name)
			(void)buf_printf(&text, "%s%s", buf_len(&text) ? ", " : "",
				x->items[i].name); /* a long list is cut */
	if (name)
		(void)error_set(e, ERROR_NOT_FOUND, ENOENT, "it has no image '%.80s', only: %.*s",
			name, (int)buf_len(&text),
			buf_len(&text) ? (const char *)buf_head(&text) : "");
	else
		(void)error_set(e, ERROR_USAGE, EINVAL,
			"it has several images: append : and the name of one of these: %.*s",
			(int)buf_len(&text), buf_len(&text) ? (const char *)buf_head(&text) : "");
	buf_done(&text);
	return -ENOENT;
}

int oci_index_choose(
	const struct oci_index *x, const char *name, struct oci_descriptor *ret, struct error *e)
{
	bool named = false;

	for (size_t i = 0; i < x->count; i++) {
		named = named || *x->items[i].name;
		if (name && strcmp(x->items[i].name, name) == 0) {
			*ret = x->items[i];
			return 0;
		}
	}
	if (name || (x->count > 1 && named))
		return no_name(x, name, e);
	return choose_platform(x, ret, e);
}

/* --- loading --- */

static int read_document(struct oci_supply *s, const struct oci_descriptor *d, const char *what,
	json_t **ret, struct error *e)
{
	_cleanup_close_ int fd = -1;
	int r = d->size > OCI_DOCUMENT_MAX
			? error_set(e, ERROR_LIMIT, EFBIG, "the image's %s is larger than %d MiB",
				  what, OCI_DOCUMENT_MAX >> 20)
			: s->open(s, d, &fd, e);

	return r < 0 ? r : oci_document_read(s->unpack, fd, what, ret, e);
}

static int load_config(struct oci_supply *s, const struct oci_manifest *m, struct oci_image *image,
	struct error *e)
{
	_cleanup_(oci_document_done) json_t *o = NULL;
	int r = read_document(s, &m->config, "configuration", &o, e);

	return r < 0 ? r : oci_config_take(o, m->layer_count, &image->config, e);
}

static int load_manifest(
	struct oci_supply *s, const json_t *manifest, struct oci_image *image, struct error *e)
{
	_cleanup_(oci_manifest_done) struct oci_manifest m = {.layers = NULL};
	int r = oci_manifest_take(manifest, &m, e);

	if (r == 0)
		r = load_config(s, &m, image, e);
	for (size_t i = 0; i < m.layer_count && r == 0; i++) {
		r = s->open(s, &m.layers[i], &image->layers[i], e);
		image->layer_count += r == 0;
	}
	return r;
}

/* The error of a document that leads nowhere. */
static int no_image(enum oci_media media, struct error *e)
{
	if (media == OCI_MEDIA_OLD)
		return error_set(e, ERROR_BAD_IMAGE, ENOTSUP,
			"the image has a manifest of docker's first kind: push it again with a "
			"newer docker");
	return error_set(
		e, ERROR_BAD_IMAGE, EINVAL, "what it names is not an image of a container");
}

/* Follows an index to the manifest. The caller releases it. */
static int find_manifest(struct oci_supply *s, const struct oci_descriptor *root, json_t **ret,
	char digest[OCI_DIGEST_MAX], struct error *e)
{
	struct oci_descriptor at = *root;

	for (int depth = 0; depth < INDEX_DEPTH_MAX; depth++) {
		_cleanup_(oci_index_done) struct oci_index x = {0};
		_cleanup_(oci_document_done) json_t *o = NULL;
		int r = read_document(s, &at, "manifest", &o, e);
		enum oci_media media = r == 0 ? oci_document_kind(o) : OCI_MEDIA_OTHER;

		if (r == 0 && media == OCI_MEDIA_MANIFEST) {
			memcpy(digest, at.digest, OCI_DIGEST_MAX);
			*ret = TAKE_PTR(o);
			return 0;
		}
		if (r == 0)
			r = media == OCI_MEDIA_INDEX ? oci_index_take(o, &x, e)
						     : no_image(media, e);
		if (r == 0)
			r = choose_platform(&x, &at, e);
		if (r < 0)
			return r;
	}
	return error_set(e, ERROR_BAD_IMAGE, ELOOP, "the image's indexes lead to more indexes");
}

int oci_image_load(struct oci_supply *s, const struct oci_descriptor *root, struct oci_image *ret,
	struct error *e)
{
	_cleanup_(oci_document_done) json_t *manifest = NULL;
	struct oci_image image = {.layer_count = 0};
	int r = find_manifest(s, root, &manifest, image.digest, e);

	if (r == 0 && !s->digest_only)
		r = load_manifest(s, manifest, &image, e);
	if (r < 0)
		oci_image_done(&image);
	else
		*ret = image;
	return r;
}

void oci_image_done(struct oci_image *image)
{
	for (size_t i = 0; i < image->layer_count; i++)
		(void)close(image->layers[i]); /* read-only */
	image->layer_count = 0;
	oci_config_done(&image->config);
}
