#include "oci/source.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "oci/archive.h"
#include "oci/blobs.h"
#include "oci/layout.h"
#include "oci/registry.h"

static const struct {
	const char *prefix;
	enum oci_source_kind kind;
} kinds[] = {
	{"oci:", OCI_SOURCE_LAYOUT},
	{"oci-archive:", OCI_SOURCE_LAYOUT_ARCHIVE},
	{"docker-archive:", OCI_SOURCE_DOCKER_ARCHIVE},
	{"tar:", OCI_SOURCE_TAR},
};

static int split(const char *text, struct oci_source *s, struct error *e)
{
	const char *colon = s->kind == OCI_SOURCE_TAR ? NULL : strchr(text, ':');

	if (!*text)
		return error_set(e, ERROR_USAGE, EINVAL, "a path is missing after the colon");
	if (colon && access(text, F_OK) == 0)
		colon = NULL;
	s->path = colon ? strndup(text, (size_t)(colon - text)) : strdup(text);
	s->name = colon && colon[1] ? strdup(colon + 1) : NULL;
	if (!s->path || (colon && colon[1] && !s->name))
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return 0;
}

int oci_source_parse(
	const char *text, const char *registry, struct oci_source *ret, struct error *e)
{
	static const char docker[] = "docker://";
	struct oci_source s = {.kind = OCI_SOURCE_REGISTRY};
	int r;

	for (size_t i = 0; i < ARRAY_SIZE(kinds) && s.kind == OCI_SOURCE_REGISTRY; i++)
		if (str_starts_with(text, kinds[i].prefix)) {
			s.kind = kinds[i].kind;
			text += strlen(kinds[i].prefix);
		}
	if (s.kind == OCI_SOURCE_REGISTRY)
		r = oci_reference_parse(text + (str_starts_with(text, docker) ? strlen(docker) : 0),
			registry, &s.reference, e);
	else
		r = split(text, &s, e);
	if (r < 0)
		oci_source_done(&s);
	else
		*ret = s;
	return r;
}

void oci_source_done(struct oci_source *s)
{
	free(s->path);
	free(s->name);
	s->path = s->name = NULL;
}

static int load_registry(const struct oci_source *s, const struct oci_source_options *o,
	const struct oci_blobs *b, struct oci_image *ret, struct error *e)
{
	static const struct oci_credentials none;
	const struct oci_registry_options r = {.reference = &s->reference,
		.credentials = o->credentials ? o->credentials : &none,
		.reach = o->reach,
		.blobs = b,
		.allowance = o->allowance,
		.unpack = o->unpack,
		.progress = o->progress,
		.digest_only = o->digest_only};

	return oci_registry_load(&r, ret, e);
}

/* A mirror is the operator's, so it may have any address. It gets none of the registry's
 * credentials. */
static int load_mirror(const struct oci_source *s, const struct oci_reference *at,
	const struct oci_source_options *o, const struct oci_blobs *b, struct oci_image *ret,
	struct error *e)
{
	const struct oci_reach reach = {.stranger = o->reach && o->reach->stranger};
	struct oci_credentials credentials;
	const struct oci_registry_options r = {.reference = &s->reference,
		.at = at,
		.credentials = &credentials,
		.reach = &reach,
		.blobs = b,
		.allowance = o->allowance,
		.unpack = o->unpack,
		.progress = o->progress,
		.digest_only = o->digest_only};
	int v;

	oci_credentials_find(at->registry, &credentials);
	v = oci_registry_load(&r, ret, e);
	oci_credentials_done(&credentials);
	return v;
}

/* A client who shows credentials wants what the registry gives for them. */
static bool asks_mirrors(const struct oci_source_options *o)
{
	bool stranger = o->reach && o->reach->stranger;

	return o->mirrors && !(stranger && o->credentials && *o->credentials->text);
}

/* If everything fails, the error is the registry's, with the last mirror's behind it. */
static int load_mirrored(const struct oci_source *s, const struct oci_source_options *o,
	const struct oci_blobs *b, struct oci_image *ret, struct error *e)
{
	char said[ERROR_MESSAGE_MAX] = "";
	struct oci_reference at;
	struct error why = {0};
	int r;

	for (unsigned i = 0;
		asks_mirrors(o) && oci_mirrors_next(o->mirrors, &i, &s->reference, &at);) {
		why = (struct error){0};
		if (load_mirror(s, &at, o, b, ret, &why) == 0)
			return 0;
		(void)snprintf(
			said, sizeof(said), "the mirror %.100s: %.300s", at.registry, why.message);
		r = progress_report(o->progress, "find the image", PROGRESS_NO_PERCENT, said);
		if (r < 0)
			return error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
	}
	why = (struct error){0};
	r = load_registry(s, o, b, ret, &why);
	if (r == 0 || !*said)
		return r == 0 ? 0 : error_set(e, why.code, -r, "%s", why.message);
	return error_set(e, why.code, -r, "%.250s (before, %.200s)", why.message, said);
}

static int load_stored(const struct oci_source *s, const struct oci_source_options *o,
	const struct oci_blobs *b, struct oci_image *ret, struct error *e)
{
	switch (s->kind) {
	case OCI_SOURCE_LAYOUT_ARCHIVE:
		return oci_archive_load_layout(s->path, s->name, b, o->unpack, ret, e);
	case OCI_SOURCE_DOCKER_ARCHIVE:
		return oci_archive_load_docker(s->path, s->name, b, o->unpack, ret, e);
	case OCI_SOURCE_REGISTRY:
		return load_mirrored(s, o, b, ret, e);
	default:
		return error_set(e, ERROR_USAGE, EINVAL, "this source has no image");
	}
}

int oci_source_load(const struct oci_source *s, const struct oci_source_options *o,
	struct oci_image *ret, struct error *e)
{
	_cleanup_(oci_blobs_close) struct oci_blobs b = OCI_BLOBS_INIT;
	int r = progress_report(o->progress, "find the image", PROGRESS_NO_PERCENT, NULL);

	if (r < 0)
		return error_set_errno(e, ERROR_INTERNAL, -r, "the build was ended");
	if (s->kind == OCI_SOURCE_LAYOUT) {
		r = oci_layout_load(s->path, s->name, o->unpack, o->digest_only, ret, e);
	} else {
		r = oci_blobs_open(o->home->fd, &b, e);
		if (r == 0)
			r = load_stored(s, o, &b, ret, e);
	}
	if (b.fd >= 0) /* what was opened stays readable */
		oci_blobs_trim(&b, OCI_BLOBS_BYTES_MAX);
	if (r < 0 && s->path && e && !str_starts_with(e->message, s->path))
		error_prefix(e, "%s", s->path);
	return r;
}
