/* Images in registries (OCI distribution specification 1.1): manifests by tag or digest, blobs by
 * digest. What was fetched stays in the store of blobs; an image that is named by its digest and is
 * there needs no network.
 *
 * For strangers (oci_reach) it does: registries let a client read a repository, not a blob. So the
 * repository is asked for the manifest, with the stranger's credentials, and blobs of the store
 * count only if this repository gave them before. Otherwise a registry of the stranger's could name
 * what others have pulled. */
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
	const struct oci_credentials *credentials; /* empty: none */
	const struct oci_reach *reach;		   /* NULL: anywhere */
	const struct oci_blobs *blobs;
	const struct progress *progress;
	bool digest_only; /* only the manifest's digest is wanted */
};

/* Credentials are sent when the registry asks for them: to it, or to the token server that it
 * names. */
int oci_registry_load(const struct oci_registry_options *o, struct oci_image *ret, struct error *e);

#endif
