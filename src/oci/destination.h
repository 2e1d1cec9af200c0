/* Where a registry may send us: by redirect, or to its token server.
 *
 * Whoever names a registry trusts its address, private or not. What the registry names must be on the public
 * internet, or in a place as private as the registry's own: one on loopback may send us to loopback, one of a
 * private network to private networks. Never to what is closed (link-local services, multicast and the like).
 *
 * Plain HTTP goes to loopback only, and nothing leads from HTTPS to HTTP. */
#ifndef OCI_DESTINATION_H
#define OCI_DESTINATION_H

#include <stdbool.h>
#include <sys/socket.h>

enum oci_zone { OCI_ZONE_PUBLIC, OCI_ZONE_PRIVATE, OCI_ZONE_LOOPBACK, OCI_ZONE_CLOSED };

/* Addresses of this host count as loopback. */
enum oci_zone oci_zone_of(const struct sockaddr *a);

/* Whether a registry in `registry` may send us to `to`. */
bool oci_zone_allowed(enum oci_zone registry, enum oci_zone to);

/* Whether a registry's host ("host", "host:port", "[address]:port") is loopback by its name. */
bool oci_host_is_loopback(const char *host);

/* Whether one URL may lead to another: both absolute. *ret_same: the same scheme, host and port, so that
 * credentials may follow. */
bool oci_redirect_allowed(const char *from, const char *to, bool *ret_same);

#endif
