/* A TLS setup that verifies servers. Its authorities are read in steps (trust.h). */
#ifndef INTERCEPT_TLS_ROOTS_H
#define INTERCEPT_TLS_ROOTS_H

#include <stdbool.h>

#include "intercept/tls.h"
#include "intercept/trust.h"

/* Zeroed at first. */
struct tls_roots {
	struct trust_loader *loading; /* NULL once all are read and `setup` is made */
	struct tls_setup *setup;
	bool has_any; /* false: no server is trusted, because there are no authorities */
};

/* Takes what trust_begin() takes. Returns 0 or -ENOMEM. */
int tls_roots_begin(struct tls_roots *r, const int fds[TRUST_FILES], const char *roots);

/* Does about a millisecond of the remaining work. Returns 1 when all is done, 0 if there is more,
 * or -ENOMEM. */
int tls_roots_step(struct tls_roots *r);

/* Does all steps. Returns 0 or -ENOMEM. */
int tls_roots_finish(struct tls_roots *r);

void tls_roots_done(struct tls_roots *r); /* sessions go on */

#endif
