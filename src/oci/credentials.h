/* A user and a password for a registry. They are secrets: they stand in no message. */
#ifndef OCI_CREDENTIALS_H
#define OCI_CREDENTIALS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

enum { OCI_CREDENTIALS_MAX = 4096, OCI_DOCKER_CONFIG_MAX = 1 << 20 };

struct oci_credentials {
	char text[OCI_CREDENTIALS_MAX]; /* "USER:PASSWORD"; "" when there are none */
	bool helper; /* docker's configuration names a program for them, which is not run */
};

/* From USER:PASSWORD, or @FILE with that in its first line. ERROR_USAGE. */
int oci_credentials_parse(const char *option, struct oci_credentials *ret, struct error *e);

/* From the text of docker's config.json, for a registry as references name it. What is damaged or
 * not there gives none. */
void oci_credentials_of_docker(
	const char *text, size_t n, const char *registry, struct oci_credentials *ret);

/* The same from $DOCKER_CONFIG or ~/.docker. */
void oci_credentials_find(const char *registry, struct oci_credentials *ret);

/* Overwrites them. */
void oci_credentials_done(struct oci_credentials *c);

#endif
