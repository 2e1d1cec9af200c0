/* GET over HTTP and HTTPS for registries (libcurl): one answer, whatever redirects and waits lie
 * before it.
 *
 * Redirects are followed five times, only to where destination.h allows; credentials stay with the
 * host that they were for. A registry that is busy (429, 503) is asked again, up to four times,
 * after the time that it asks for, a minute at most each. A connection that moves less than a
 * kilobyte a second for a minute is over.
 *
 * Only mayfly-pull does this, in its jail. */
#ifndef OCI_TRANSFER_H
#define OCI_TRANSFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "oci/challenge.h"

enum { OCI_URL_MAX = 8192, OCI_COMPLAINT_MAX = 2048 };

struct oci_client;
struct oci_reach;

/* host: the registry, as references name it. reach: of it and all that it leads to; borrowed.
 * waits: called a few times a second; a negative result ends the transfer. */
int oci_client_new(const char *host, const struct oci_reach *reach, int (*waits)(void *opaque),
	void *opaque, struct oci_client **ret, struct error *e);
void oci_client_free(struct oci_client *c); /* NULL is fine */

/* "https", or "http" where the registry is loopback by its name. */
const char *oci_client_scheme(const struct oci_client *c);

struct oci_request {
	const char *url;
	const char *accept;	   /* header, or NULL */
	const char *authorization; /* header, or NULL */
	bool elsewhere;	    /* the registry named this URL: it may lead only where redirects may */
	uint64_t bytes_max; /* more is ERROR_BAD_IMAGE */
	/* Takes the body of a 200. 0, or -errno with e filled. */
	int (*take)(void *opaque, const void *data, size_t n, struct error *e);
	void *opaque;
};

struct oci_answer {
	long status;
	bool elsewhere;			   /* another host answers, by a redirect */
	struct oci_challenge challenge;	   /* of a 401 */
	uint64_t bytes;			   /* of the body of a 200 */
	char complaint[OCI_COMPLAINT_MAX]; /* the beginning of another body, as it came */
};

/* 0 when there is an answer, whatever it says. -errno: ERROR_HOST where the network fails (-EAGAIN:
 * it may work again), ERROR_BAD_IMAGE where the registry misbehaves. */
int oci_get(
	struct oci_client *c, const struct oci_request *q, struct oci_answer *ret, struct error *e);

#endif
