/* Images that others made, as the base of a template: of `template build --from` and of FROM. */
#ifndef BUILD_TEMPLATE_FROM_H
#define BUILD_TEMPLATE_FROM_H

#include <stdbool.h>
#include <stdint.h>

#include "image/build.h"
#include "oci/import.h"
#include "oci/source.h"

struct template_from_options {
	const char *from;	       /* NULL: none of this */
	const char *said;	       /* where it stands, for messages: "--from" */
	const char *registry;	       /* for references without, or NULL */
	const char *registry_auth;     /* USER:PASSWORD, @FILE with that, or NULL */
	const struct oci_reach *reach; /* of registries; borrowed; NULL: anywhere */
};

struct template_from {
	struct oci_source source;
	struct oci_credentials credentials;
	const struct oci_reach *reach;
	struct oci_image image;
	struct oci_import import;
	struct image_foreign foreign; /* for image_build */
};

/* Says what is wrong with the options, before any work. */
int template_from_parse(
	const struct template_from_options *o, struct template_from *ret, struct error *e);

/* Says which image it is, for less than template_from_load where the source tells without its
 * layers. */
int template_from_digest(struct template_from *t, const struct home *home, const struct progress *p,
	char digest[OCI_DIGEST_MAX], struct error *e);

/* Finds the image and reads its layers. *ret_disk_mb: what its root disk should have. */
int template_from_load(struct template_from *t, const struct home *home, const struct progress *p,
	uint32_t *ret_disk_mb, struct error *e);

/* What people should know of the image, in lines; "" when there is nothing. */
const char *template_from_notes(struct template_from *t);

void template_from_done(struct template_from *t);

#endif
