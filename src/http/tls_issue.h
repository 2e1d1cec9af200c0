/* A certificate for one's own domain, for use without a public authority: an authority (CA) and the
 * server's certificate that it signs. Clients trust the authority's file; the server's certificate
 * can then be renewed without them. (Two certificates, as rustls refuses one that is both.)
 *
 * The directory holds:
 *
 *	ca.pem    the authority; what clients need
 *	ca.key    its key, mode 0600
 *	cert.pem  the server's certificate for DOMAIN, *.DOMAIN, localhost and the loopback
 *	          addresses, and behind it ca.pem
 *	key.pem   its key, mode 0600
 *
 * The authority can vouch for these names and nothing else (RFC 5280, name constraints), so that
 * trusting it costs little. It is valid for ten years, the certificate for TLS_LEAF_DAYS. Keys are
 * ECDSA P-256. */
#ifndef HTTP_TLS_ISSUE_H
#define HTTP_TLS_ISSUE_H

#include <stdbool.h>
#include <time.h>

#include "base/error.h"

enum {
	TLS_CA_DAYS = 3650,
	TLS_LEAF_DAYS = 397,
	TLS_RENEW_DAYS = 30, /* before the end */
	TLS_DOMAIN_MAX = 200,
};

#define TLS_CA_FILE   "ca.pem"
#define TLS_CERT_FILE "cert.pem"
#define TLS_KEY_FILE  "key.pem"

/* ERROR_USAGE unless it is two or more labels of a-z, 0-9 and '-': clients match no wildcard below a
 * single label. */
int tls_issue_check_domain(const char *domain, struct error *e);

/* Makes what is missing, malformed, of another pair or near its end, in an existing directory.
 * *ret_new: the server's certificate is a new one. Blocks for milliseconds. now: the time. */
int tls_issue(int dirfd, const char *domain, time_t now, bool *ret_new, struct error *e);

#endif
