/* Decides where a registry may send us, by a redirect or to its token server.
 *
 * A registry that the user names may have any address. The hosts that it names must be public, or
 * in the same zone as the registry (loopback or private). Closed addresses (link-local, multicast
 * and the like) are always refused.
 *
 * Plain HTTP goes to loopback only, and nothing leads from HTTPS to HTTP. */
#ifndef OCI_DESTINATION_H
#define OCI_DESTINATION_H

#include <stdbool.h>
#include <sys/socket.h>

#include "base/net.h"

enum oci_zone { OCI_ZONE_PUBLIC, OCI_ZONE_PRIVATE, OCI_ZONE_LOOPBACK, OCI_ZONE_CLOSED };

/* Addresses of this host count as loopback. */
enum oci_zone oci_zone_of(const struct sockaddr *a);

enum { OCI_REACH_NETS_MAX = 64 };

/* The addresses of registries that an untrusted client names, and of all hosts that they lead
 * to. */
struct oci_reach {
	bool public_only; /* else anywhere */
	bool stranger;	  /* the registry is asked each time, and blobs of other repositories do not
			   * count (registry.h) */
	unsigned count;
	struct net nets[OCI_REACH_NETS_MAX]; /* also allowed, though not public */
};

/* Whether a resolved address may be dialled. With public_only, this host's own addresses and closed
 * ones are not public, and `nets` cannot allow loopback. */
bool oci_reach_allows(const struct oci_reach *r, const struct sockaddr *a);

/* Whether a registry in `registry` may send us to `to`. */
bool oci_zone_allowed(enum oci_zone registry, enum oci_zone to);

/* Whether a redirect from one absolute URL to another is allowed. *ret_same: both have the same
 * scheme, host and port, so credentials may be sent there, too. */
bool oci_redirect_allowed(const char *from, const char *to, bool *ret_same);

#endif
