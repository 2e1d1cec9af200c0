/* A user and a password for a registry. They are secrets and appear in no message. */
#ifndef OCI_CREDENTIALS_H
#define OCI_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { OCI_CREDENTIALS_MAX = 4096, OCI_REGION_MAX = 32, OCI_DOCKER_CONFIG_MAX = 1 << 20 };

struct oci_credentials {
	char text[OCI_CREDENTIALS_MAX]; /* "USER:PASSWORD"; "" when there are none */
	char region[OCI_REGION_MAX];	/* of AWS: `text` is "ID:SECRET" of an access key, for which
					 * its API gives the password (ecr.h); "": no such key */
	bool helper; /* docker's configuration names a helper program for them; Mayfly does not run
		      * it */
};

/* Parses USER:PASSWORD, aws://REGION/ID:SECRET, or @FILE whose first line has such a form.
 * ERROR_USAGE if malformed. */
int oci_credentials_parse(const char *option, struct oci_credentials *ret, struct error *e);

/* Takes the credentials for a registry (named as in references) from the text of docker's
 * config.json. If the text is damaged or has none, the result is empty. */
void oci_credentials_of_docker(
	const char *text, size_t n, const char *registry, struct oci_credentials *ret);

/* The same from $DOCKER_CONFIG or ~/.docker. */
void oci_credentials_find(const char *registry, struct oci_credentials *ret);

/* Overwrites them. */
void oci_credentials_done(struct oci_credentials *c);

#endif
