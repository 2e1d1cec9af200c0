/* Names of images, as docker writes them: [REGISTRY/]REPOSITORY[:TAG][@DIGEST].
 *
 * The first component is a registry when it has a "." or ":" or is "localhost". Without a registry,
 * the name needs one from elsewhere (--registry): none is built in. Docker Hub is called as docker
 * calls it, docker.io or index.docker.io; that is no registry, but stands for registry-1.docker.io.
 * Only there, "library/" is put in front of a repository of one component. Without a tag and a
 * digest, the tag is "latest". With both, the digest counts. */
#ifndef OCI_REFERENCE_H
#define OCI_REFERENCE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"
#include "oci/digest.h"

enum {
	OCI_REGISTRY_MAX = 260,	  /* host and port, with its NUL */
	OCI_REPOSITORY_MAX = 256, /* as the specification has it: 255 characters */
	OCI_TAG_MAX = 129,
	OCI_REFERENCE_MAX = 768,
};

struct oci_reference {
	char registry[OCI_REGISTRY_MAX]; /* "host", "host:port" or "[address]:port" */
	char repository[OCI_REPOSITORY_MAX];
	char tag[OCI_TAG_MAX];	     /* "" when there is only a digest */
	char digest[OCI_DIGEST_MAX]; /* "" when there is none */
};

/* Parses a name. registry: the one for names that have none; NULL: they are an error. ERROR_USAGE
 * says what is wrong with the name. */
int oci_reference_parse(
	const char *text, const char *registry, struct oci_reference *ret, struct error *e);

/* What to ask a registry for: the digest, or else the tag. */
const char *oci_reference_version(const struct oci_reference *r);

/* Whether text can be a registry: a host name or an address, and perhaps a port. */
bool oci_registry_valid(const char *text);

/* Whether these n bytes are one of the names of Docker Hub. */
bool oci_registry_is_hub(const char *text, size_t n);

#endif
