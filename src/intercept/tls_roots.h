/* What is needed to verify TLS servers: a setup whose authorities are read in steps (trust.h). */
#ifndef INTERCEPT_TLS_ROOTS_H
#define INTERCEPT_TLS_ROOTS_H

#include <stdbool.h>

#include "intercept/tls.h"
#include "intercept/trust.h"

/* Zeroed at first. */
struct tls_roots {
	struct trust_loader *loading; /* NULL: all are there, and `setup` */
	struct tls_setup *setup;
	bool has_any; /* else no server is trusted: the host has no bundle, and nobody gave one */
};

/* As trust_begin. 0 or -ENOMEM. */
int tls_roots_begin(struct tls_roots *r, const int fds[TRUST_FILES], const char *roots);

/* Does a millisecond of the work that is left. 1: that was all; 0: there is more; -ENOMEM. */
int tls_roots_step(struct tls_roots *r);

/* All steps. 0 or -ENOMEM. */
int tls_roots_finish(struct tls_roots *r);

void tls_roots_done(struct tls_roots *r); /* sessions go on */

#endif
