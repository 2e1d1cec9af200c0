/* OCI images as the base of a template, for `template build --from` and for FROM. */
#ifndef BUILD_TEMPLATE_FROM_H
#define BUILD_TEMPLATE_FROM_H

#include <stdbool.h>
#include <stdint.h>

#include "image/build.h"
#include "oci/import.h"
#include "oci/source.h"

struct template_from_options {
	const char *from;		   /* NULL: no image, the rest is ignored */
	const char *said;		   /* where the name was given, for messages: "--from" */
	const char *registry;		   /* for references without a registry, or NULL */
	const char *registry_auth;	   /* USER:PASSWORD, @FILE with such a line, or NULL */
	const struct oci_reach *reach;	   /* limits the registries; borrowed; NULL: no limit */
	const struct option_list *mirrors; /* as oci/mirror.h has them; NULL: none */
};

struct template_from {
	struct oci_source source;
	struct oci_credentials credentials;
	const struct oci_reach *reach;
	struct oci_mirrors mirrors;
	const struct oci_allowance *allowance; /* for template_from_load; NULL: no limit */
	struct oci_image image;
	struct oci_import import;
	struct image_foreign foreign; /* for image_build */
};

/* Checks the options before any work is done. */
int template_from_parse(
	const struct template_from_options *o, struct template_from *ret, struct error *e);

/* Finds the image's digest. This costs less than template_from_load() if the source tells it
 * without the layers. */
int template_from_digest(struct template_from *t, const struct home *home, const struct progress *p,
	char digest[OCI_DIGEST_MAX], struct error *e);

/* Finds the image and reads its layers. *ret_disk_mb becomes the size for its root disk. */
int template_from_load(struct template_from *t, const struct home *home, const struct progress *p,
	uint32_t *ret_disk_mb, struct error *e);

/* Returns lines about the image for people, or "". */
const char *template_from_notes(struct template_from *t);

void template_from_done(struct template_from *t);

#endif
