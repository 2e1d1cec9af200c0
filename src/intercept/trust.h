/* The authorities that verify servers: the system's, from descriptors that the worker was given,
 * and the policy's. OpenSSL's store is filled in steps, so that other work goes on meanwhile: 150
 * certificates take about ten milliseconds and a megabyte. */
#ifndef INTERCEPT_TRUST_H
#define INTERCEPT_TRUST_H

#include <openssl/x509.h>

enum {
	TRUST_FILES = 2,	  /* the system's, the operator's */
	TRUST_FILE_MAX = 4 << 20, /* bytes; the rest is not read */
	TRUST_STEP = 8,		  /* certificates per step */
};

struct trust_loader;

/* fds: PEM files, borrowed and read now; -1: none. roots: further PEM text, copied, or NULL. Skips
 * what is no certificate. Returns NULL when out of memory. */
struct trust_loader *trust_begin(const int fds[TRUST_FILES], const char *roots);

/* Adds TRUST_STEP certificates. Returns 1 when all are added, 0 if there are more, or -ENOMEM. */
int trust_step(struct trust_loader *t);

/* Returns a reference to the store of those added so far, and their number. */
X509_STORE *trust_store(struct trust_loader *t, unsigned *ret_count);

void trust_free(struct trust_loader *t); /* NULL is fine */

#endif
