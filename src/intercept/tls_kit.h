/* What intercepted connections need of TLS, made of the policy: the sandbox's authority, those
 * that vouch for servers, OpenSSL itself. A worker whose policy intercepts nothing has none of
 * it. */
#ifndef INTERCEPT_TLS_KIT_H
#define INTERCEPT_TLS_KIT_H

#include <stdint.h>

#include "intercept/authority.h"
#include "intercept/intercept.h"
#include "intercept/tls_roots.h"

enum { TLS_KIT_DIGEST = 32 };

struct tls_kit {
	unsigned references;
	struct authority *authority;
	struct tls_roots roots;		 /* has no setup before all steps */
	uint8_t made_of[TLS_KIT_DIGEST]; /* of the policy's texts, as it keeps no secrets */
};

/* *kit: the one that there is, or NULL. It is kept if the policy says the same, else replaced by
 * one that has no setup yet. 0, or what error_set says. */
int tls_kit_begin(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e);

/* Does a millisecond of the work that is left. 1: that was all; 0: there is more; -ENOMEM. */
int tls_kit_step(struct tls_kit *kit);

/* tls_kit_begin, and all steps. */
int tls_kit_get(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e);
struct tls_kit *tls_kit_ref(struct tls_kit *kit);
void tls_kit_unref(struct tls_kit *kit); /* NULL is fine; sessions go on */

#endif
