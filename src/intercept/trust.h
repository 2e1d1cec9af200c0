/* The authorities that vouch for servers: the system's, as descriptors that the worker was given,
 * and those of the policy. OpenSSL's store of them is made when it is first needed. */
#ifndef INTERCEPT_TRUST_H
#define INTERCEPT_TRUST_H

#include <openssl/x509.h>

enum {
	TRUST_FILES = 2,	  /* the system's, the operator's */
	TRUST_FILE_MAX = 4 << 20, /* bytes; what is behind is not read */
};

/* fds: files in PEM, borrowed; -1: none. roots: more of them as text, or NULL. ret_count: how many
 * certificates there are. What is no certificate is passed over. NULL: out of memory.
 *
 * Reads 150 certificates in some ten milliseconds, and holds about a megabyte for them. */
X509_STORE *trust_load(const int fds[TRUST_FILES], const char *roots, unsigned *ret_count);

#endif
