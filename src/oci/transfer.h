/* HTTP and HTTPS for registries (libcurl): GET, and POST with a signature of AWS. Follows redirects
 * and waits for busy servers, so a call gives one final answer.
 *
 * It follows at most five redirects, and only to hosts that destination.h allows. Credentials are
 * not sent to another host. If a registry is busy (429, 503), it asks again up to four times, after
 * the time that the registry names, at most a minute each. It gives up a connection that moves less
 * than a kilobyte a second for a minute.
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

/* host: the registry, as references name it. reach: which addresses are allowed, for the registry
 * and for the hosts that it leads to; borrowed. waits: called a few times a second; a negative
 * result ends the transfer. */
int oci_client_new(const char *host, const struct oci_reach *reach, int (*waits)(void *opaque),
	void *opaque, struct oci_client **ret, struct error *e);
void oci_client_free(struct oci_client *c); /* NULL is fine */

/* "https", or "http" if the registry's name means loopback. */
const char *oci_client_scheme(const struct oci_client *c);

/* A POST signed with an access key of AWS (Signature Version 4). It follows no redirect. */
struct oci_signed {
	const char *key; /* secret: "ID:SECRET" */
	const char *region, *service, *target, *body;
};

struct oci_request {
	const char *url;
	const char *accept;	   /* header, or NULL */
	const char *authorization; /* header, or NULL */
	bool elsewhere; /* the registry named this URL, so the rules for redirects apply to
			     * it */
	const struct oci_signed *post; /* NULL: a GET */
	uint64_t bytes_max;	       /* more is ERROR_BAD_IMAGE */
	/* Takes the body of a 200. 0, or -errno with e filled. */
	int (*take)(void *opaque, const void *data, size_t n, struct error *e);
	void *opaque;
};

struct oci_answer {
	long status;
	bool elsewhere;			   /* a redirect led to another host */
	struct oci_challenge challenge;	   /* of a 401 */
	uint64_t bytes;			   /* of the body of a 200 */
	char complaint[OCI_COMPLAINT_MAX]; /* the beginning of the body of any other status, raw */
};

/* Returns 0 when there is an answer of any status. Otherwise -errno: ERROR_HOST if the network
 * fails (-EAGAIN: another try may succeed), ERROR_BAD_IMAGE if the registry misbehaves. */
int oci_get(
	struct oci_client *c, const struct oci_request *q, struct oci_answer *ret, struct error *e);

#endif
