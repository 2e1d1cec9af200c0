/* The authorities that vouch for servers: the system's, as descriptors that the worker was
 * given, and those of the policy. OpenSSL's store of them is made in steps, so that other work
 * goes on meanwhile: 150 certificates take some ten milliseconds, and hold about a megabyte. */
#ifndef INTERCEPT_TRUST_H
#define INTERCEPT_TRUST_H

#include <openssl/x509.h>

enum {
	TRUST_FILES = 2,	  /* the system's, the operator's */
	TRUST_FILE_MAX = 4 << 20, /* bytes; what is behind is not read */
	TRUST_STEP = 8,		  /* certificates of a step */
};

struct trust_loader;

/* fds: files in PEM, borrowed, and read now; -1: none. roots: more of them as text, copied, or
 * NULL. What is no certificate is passed over. NULL: out of memory. */
struct trust_loader *trust_begin(const int fds[TRUST_FILES], const char *roots);

/* Takes TRUST_STEP certificates. 1: that was all; 0: there are more; -ENOMEM. */
int trust_step(struct trust_loader *t);

/* All that were taken so far, and how many; a reference. */
X509_STORE *trust_store(struct trust_loader *t, unsigned *ret_count);

void trust_free(struct trust_loader *t); /* NULL is fine */

#endif
