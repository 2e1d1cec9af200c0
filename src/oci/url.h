/* Files of the network that a Dockerfile's ADD names, fetched by mayfly-pull in its jail: over
 * HTTPS, or plain HTTP from loopback. Redirects go where those of registries may (destination.h).
 * Without credentials. */
#ifndef OCI_URL_H
#define OCI_URL_H

#include <stdint.h>

#include "base/error.h"
#include "image/progress.h"
#include "oci/digest.h"

struct oci_reach;

#define OCI_URL_FILE_MAX (UINT64_C(4) << 30)

/* ERROR_USAGE says what is wrong with it. */
int oci_url_check(const char *url, struct error *e);

/* The name of the file that it means: "" for none; as it is written. malloc'ed, or NULL. */
char *oci_url_name(const char *url);

/* Writes what the URL leads to into a file, from its start, and says its digest. reach: NULL:
 * anywhere. Blocks. */
int oci_url_fetch(const char *url, const struct oci_reach *reach, int fd, uint64_t bytes_max,
	const struct progress *progress, char digest[OCI_DIGEST_MAX], struct error *e);

#endif
