/* Images in registries (OCI distribution specification 1.1): manifests by tag or digest, blobs by
 * digest. What was fetched stays in the store of blobs. If all of an image is there and the
 * reference has its digest, no network is needed.
 *
 * That does not hold for strangers (oci_reach), because registries give access to repositories, not
 * to blobs. For a stranger, the repository is always asked for the manifest, with the stranger's
 * credentials, and blobs of the store count only if this repository gave them before. Otherwise a
 * stranger's own registry could name blobs that others have pulled. */
#ifndef OCI_REGISTRY_H
#define OCI_REGISTRY_H

#include "image/progress.h"
#include "oci/blobs.h"
#include "oci/credentials.h"
#include "oci/destination.h"
#include "oci/image.h"
#include "oci/reference.h"

struct oci_registry_options {
	const struct oci_reference *reference;
	const struct oci_reference *at;		   /* a mirror's to be asked instead; NULL: none */
	const struct oci_credentials *credentials; /* empty: none */
	const struct oci_reach *reach;		   /* NULL: anywhere */
	const struct oci_blobs *blobs;
	const struct oci_allowance *allowance; /* NULL: no limit */
	unpack_fn unpack;		       /* reads documents */
	const struct progress *progress;
	bool digest_only; /* only the manifest's digest is wanted */
};

/* Credentials are sent when the registry asks for them: to it, or to the token server that it
 * names. */
int oci_registry_load(const struct oci_registry_options *o, struct oci_image *ret, struct error *e);

#endif
