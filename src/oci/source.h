/* Where an image comes from, as skopeo and docker write it:
 *
 *	oci:DIRECTORY[:NAME]		an OCI layout
 *	oci-archive:FILE[:NAME]		the same in a tar archive
 *	docker-archive:FILE[:TAG]	what `docker save` writes
 *	tar:FILE			a root file system, without settings
 *	[docker://]REFERENCE		a registry's (reference.h)
 *
 * If a file with the whole text as its name exists, a colon in it is part of the path. */
#ifndef OCI_SOURCE_H
#define OCI_SOURCE_H

#include <stdbool.h>

#include "image/home.h"
#include "image/progress.h"
#include "image/unpack.h"
#include "oci/blobs.h"
#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/image.h"
#include "oci/mirror.h"
#include "oci/reference.h"

enum oci_source_kind {
	OCI_SOURCE_LAYOUT,
	OCI_SOURCE_LAYOUT_ARCHIVE,
	OCI_SOURCE_DOCKER_ARCHIVE,
	OCI_SOURCE_TAR,
	OCI_SOURCE_REGISTRY,
};

struct oci_source {
	enum oci_source_kind kind;
	char *path; /* owned, as the next; NULL for a registry */
	char *name; /* or NULL */
	struct oci_reference reference;
};

struct oci_source_options {
	const struct home *home;
	unpack_fn unpack;
	const struct progress *progress;
	const struct oci_credentials *credentials; /* for a registry; may be empty */
	const struct oci_reach *reach;		   /* likewise; NULL: anywhere */
	const struct oci_mirrors *mirrors;	   /* likewise; NULL: none */
	const struct oci_allowance *allowance;	   /* likewise; NULL: no limit */
	bool digest_only; /* find only the manifest's digest; for a layout or registry */
};

/* registry: the one for references that name none; NULL: they are an error. ERROR_USAGE says what
 * is wrong. */
int oci_source_parse(
	const char *text, const char *registry, struct oci_source *ret, struct error *e);
void oci_source_done(struct oci_source *s);

/* Finds the image, and fetches what is missing. Blocks; progress may end it. Not for
 * OCI_SOURCE_TAR. */
int oci_source_load(const struct oci_source *s, const struct oci_source_options *o,
	struct oci_image *ret, struct error *e);

#endif
