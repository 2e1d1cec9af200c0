/* The authority of one sandbox, for the guest's side of intercepted connections. It makes
 * certificates for the names that the guest dials, when they are needed.
 *
 * If a server's certificate has a fault, the guest gets a certificate with the same fault. So the
 * program fails as it would without us.
 *
 * All certificates share one P-256 key, which lives as long as the authority. The
 * AUTHORITY_LEAVES_MAX most recently used certificates are kept. */
#ifndef INTERCEPT_AUTHORITY_H
#define INTERCEPT_AUTHORITY_H

#include <stddef.h>

#include <openssl/x509.h>

#include "base/error.h"

enum {
	AUTHORITY_LEAVES_MAX = 64,
	AUTHORITY_LEAF_DAYS = 7, /* validity of a certificate; it is renewed after a day */
};

enum leaf_fault {
	LEAF_GOOD,
	LEAF_EXPIRED,
	LEAF_NOT_YET,	 /* valid from tomorrow on */
	LEAF_OTHER_NAME, /* for another name */
	LEAF_UNTRUSTED,	 /* signed by an unknown authority */
};

struct authority;

/* Copies the authority's certificate and key, both PEM. Fails with ERROR_USAGE if they cannot be
 * used. */
int authority_new(const void *certificate, size_t certificate_bytes, const void *key,
	size_t key_bytes, struct authority **ret, struct error *e);
void authority_free(struct authority *a); /* NULL is fine; certificates in use stay valid */

/* Returns a new reference to a certificate for a name, or NULL when out of memory or if a
 * certificate cannot hold the name. */
X509 *authority_leaf(struct authority *a, const char *name, enum leaf_fault fault);
EVP_PKEY *authority_leaf_key(const struct authority *a); /* borrowed */

#endif
