#include "build/template_from.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/cleanup.h"
#include "image/unpack.h"
#include "oci/blobs.h"

enum { TAR_DISK_MB = 4096 };

int template_from_parse(
	const struct template_from_options *o, struct template_from *ret, struct error *e)
{
	int r;

	*ret = (struct template_from){.source.kind = OCI_SOURCE_TAR, .reach = o->reach};
	if (!o->from)
		return o->registry || o->registry_auth || (o->mirrors && o->mirrors->count)
			       ? error_set(e, ERROR_USAGE, EINVAL,
					 "--registry, --registry-auth and --registry-mirror need "
					 "--from or "
					 "-t")
			       : 0;
	if (o->registry && !oci_registry_valid(o->registry))
		return error_set(e, ERROR_USAGE, EINVAL, "--registry must be HOST or HOST:PORT");
	r = o->mirrors ? oci_mirrors_parse(o->mirrors, &ret->mirrors, e) : 0;
	if (r < 0)
		return r;
	r = oci_source_parse(o->from, o->registry, &ret->source, e);
	if (r < 0)
		error_prefix(e, "%s", o->said);
	else if (o->registry_auth)
		r = oci_credentials_parse(o->registry_auth, &ret->credentials, e);
	else if (ret->source.kind == OCI_SOURCE_REGISTRY)
		oci_credentials_find(ret->source.reference.registry, &ret->credentials);
	return r;
}

/* A root file system as it is, without settings. */
static int fill_tar(void *opaque, struct rootfs *f, struct image_config *config, struct error *e)
{
	const struct template_from *t = opaque;

	return unpack_path(unpack, t->source.path, (struct parse_options){.job = PARSE_TAR},
		rootfs_sink(f), e);
}

static int file_digest(const char *path, char digest[OCI_DIGEST_MAX], struct error *e)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);
	int r = fd < 0 ? -errno : oci_digest_of_file(fd, digest);

	return r < 0 ? error_set_errno(e, ERROR_NOT_FOUND, -r, "cannot read %s", path) : 0;
}

int template_from_digest(struct template_from *t, const struct home *home, const struct progress *p,
	char digest[OCI_DIGEST_MAX], struct error *e)
{
	const struct oci_source_options o = {.home = home,
		.unpack = unpack,
		.progress = p,
		.credentials = &t->credentials,
		.reach = t->reach,
		.mirrors = &t->mirrors,
		.digest_only = true};
	struct oci_image image = {.layer_count = 0};
	int r;

	if (t->source.kind == OCI_SOURCE_TAR)
		return file_digest(t->source.path, digest, e);
	r = oci_source_load(&t->source, &o, &image, e);
	if (r == 0)
		memcpy(digest, image.digest, OCI_DIGEST_MAX);
	oci_image_done(&image);
	return r;
}

int template_from_load(struct template_from *t, const struct home *home, const struct progress *p,
	uint32_t *ret_disk_mb, struct error *e)
{
	const struct oci_source_options o = {.home = home,
		.unpack = unpack,
		.progress = p,
		.credentials = &t->credentials,
		.allowance = t->allowance,
		.reach = t->reach,
		.mirrors = &t->mirrors};
	int r;

	if (t->source.kind == OCI_SOURCE_TAR) {
		t->foreign = (struct image_foreign){"tar", fill_tar, t};
		*ret_disk_mb = TAR_DISK_MB;
		return 0;
	}
	r = oci_source_load(&t->source, &o, &t->image, e);
	if (r == 0)
		r = oci_import_plan(&t->import, &t->image, unpack, p, e);
	if (r < 0)
		return r;
	t->foreign = oci_import_foreign(&t->import);
	*ret_disk_mb = oci_import_disk_mb(&t->import);
	return 0;
}

const char *template_from_notes(struct template_from *t)
{
	struct buf *notes = &t->import.notes;

	if (buf_len(notes) == 0 || buf_reserve(notes, 1) == NULL)
		return "";
	*buf_reserve(notes, 1) = '\0'; /* behind what it has */
	return (const char *)buf_head(notes);
}

void template_from_done(struct template_from *t)
{
	oci_import_done(&t->import);
	oci_image_done(&t->image);
	oci_source_done(&t->source);
	oci_credentials_done(&t->credentials);
}
