/* Issues a certificate for a private domain, without a public authority. It makes an authority (CA)
 * and a server certificate that the CA signs. Clients trust the CA's file, so the server's
 * certificate can be renewed without them. There are two because rustls refuses a certificate that
 * is both.
 *
 * The directory holds:
 *
 *	ca.pem    the authority; what clients need
 *	ca.key    its key, mode 0600
 *	cert.pem  the server's certificate for DOMAIN, *.DOMAIN, localhost and the loopback
 *	          addresses, followed by ca.pem
 *	key.pem   its key, mode 0600
 *
 * The authority can only vouch for these names (RFC 5280, name constraints), so it is safe to
 * trust. It is valid for ten years, the certificate for TLS_LEAF_DAYS. Keys are ECDSA P-256. */
#ifndef HTTP_TLS_ISSUE_H
#define HTTP_TLS_ISSUE_H

#include <stdbool.h>
#include <time.h>

#include "base/error.h"

enum {
	TLS_CA_DAYS = 3650,
	TLS_LEAF_DAYS = 397,
	TLS_RENEW_DAYS = 30, /* before it expires */
	TLS_DOMAIN_MAX = 200,
};

#define TLS_CA_FILE   "ca.pem"
#define TLS_CERT_FILE "cert.pem"
#define TLS_KEY_FILE  "key.pem"

/* Fails with ERROR_USAGE unless the domain has two or more labels of a-z, 0-9 and '-'. Clients
 * accept no wildcard below a single label. */
int tls_issue_check_domain(const char *domain, struct error *e);

/* Issues what is missing, malformed, mismatched or about to expire, in an existing directory.
 * *ret_new: the server's certificate is new. Blocks for milliseconds. now is the current time. */
int tls_issue(int dirfd, const char *domain, time_t now, bool *ret_new, struct error *e);

#endif
