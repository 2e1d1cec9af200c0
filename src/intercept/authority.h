/* The authority of one sandbox, for the guest's side of intercepted connections: certificates for
 * the names that the guest dials, made as they are needed.
 *
 * A server whose certificate cannot be trusted is shown to the guest with a certificate that has
 * the same fault, so that the program fails as it would without us.
 *
 * All have one key of P-256, which lives as long as this. Keeps AUTHORITY_LEAVES_MAX certificates,
 * those that were used last. */
#ifndef INTERCEPT_AUTHORITY_H
#define INTERCEPT_AUTHORITY_H

#include <stddef.h>

#include <openssl/x509.h>

#include "base/error.h"

enum {
	AUTHORITY_LEAVES_MAX = 64,
	AUTHORITY_LEAF_DAYS = 7, /* that one is valid; it is made anew after a day */
};

enum leaf_fault {
	LEAF_GOOD,
	LEAF_EXPIRED,
	LEAF_NOT_YET,	 /* valid from tomorrow on */
	LEAF_OTHER_NAME, /* for another name */
	LEAF_UNTRUSTED,	 /* of an authority that nobody knows */
};

struct authority;

/* Takes the authority's certificate and its key as PEM, copied. ERROR_USAGE: they cannot be
 * used. */
int authority_new(const void *certificate, size_t certificate_bytes, const void *key,
	size_t key_bytes, struct authority **ret, struct error *e);
void authority_free(struct authority *a); /* NULL is fine; certificates that were given out stay */

/* A new reference to a certificate for a name; NULL: out of memory, or the name cannot be in
 * one. */
X509 *authority_leaf(struct authority *a, const char *name, enum leaf_fault fault);
EVP_PKEY *authority_leaf_key(const struct authority *a); /* borrowed */

#endif
