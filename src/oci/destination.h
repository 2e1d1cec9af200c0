/* Where a registry may send us: by redirect, or to its token server.
 *
 * The user's registry may be anywhere. Hosts it names must be public, or in the registry's own zone
 * (loopback or private). Closed addresses (link-local, multicast and the like) are always refused.
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

/* Where registries may be that a stranger names, and all that they lead to. */
struct oci_reach {
	bool public_only; /* else anywhere */
	bool stranger;	  /* the registry is asked each time, and blobs of other repositories do not
			   * count (registry.h) */
	unsigned count;
	struct net nets[OCI_REACH_NETS_MAX]; /* that are open though not public */
};

/* Judges an address that a name was resolved to. What is this host's own or closed is not public,
 * and loopback is never open. */
bool oci_reach_allows(const struct oci_reach *r, const struct sockaddr *a);

/* Whether a registry in `registry` may send us to `to`. */
bool oci_zone_allowed(enum oci_zone registry, enum oci_zone to);

/* Whether one URL may lead to another: both absolute. *ret_same: the same scheme, host and port, so
 * that credentials may follow. */
bool oci_redirect_allowed(const char *from, const char *to, bool *ret_same);

#endif
