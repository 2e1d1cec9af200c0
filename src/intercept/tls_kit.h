/* What intercepted connections need for TLS, made from the policy: the sandbox's authority, the
 * authorities that verify servers, and OpenSSL. A worker whose policy intercepts nothing loads none
 * of it. */
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
	struct tls_roots roots;		 /* has no setup until all steps are done */
	uint8_t made_of[TLS_KIT_DIGEST]; /* digest of the policy's texts, as secrets are not kept */
};

/* *kit: the present kit or NULL. It stays if the policy's texts are the same. Otherwise a new kit
 * without a setup replaces it. Returns 0 or an error. */
int tls_kit_begin(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e);

/* Does about a millisecond of the remaining work. Returns 1 when all is done, 0 if there is more,
 * or -ENOMEM. */
int tls_kit_step(struct tls_kit *kit);

/* tls_kit_begin() and all steps. */
int tls_kit_get(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e);
struct tls_kit *tls_kit_ref(struct tls_kit *kit);
void tls_kit_unref(struct tls_kit *kit); /* NULL is fine; sessions go on */

#endif
