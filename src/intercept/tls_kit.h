/* What intercepted connections need of TLS, made of the policy when the first of them comes: the
 * sandbox's authority, those that vouch for servers, OpenSSL itself. A worker that intercepts
 * nothing has none of it. */
#ifndef INTERCEPT_TLS_KIT_H
#define INTERCEPT_TLS_KIT_H

#include <stdbool.h>

#include "intercept/authority.h"
#include "intercept/intercept.h"
#include "intercept/tls.h"
#include "intercept/trust.h"

enum { TLS_KIT_DIGEST = 32 };

struct tls_kit {
	unsigned references;
	struct tls_setup *setup;
	struct authority *authority;
	bool has_roots; /* else no server is trusted: the host has no bundle, and nobody gave one */
	uint8_t made_of[TLS_KIT_DIGEST]; /* of the policy's texts, as it keeps no secrets */
};

/* *kit: the one that there is, or NULL. It is kept if the policy says the same, else replaced.
 * 0, or what error_set says. */
int tls_kit_get(struct tls_kit **kit, const struct intercept *i, const int root_fds[TRUST_FILES],
	struct error *e);
struct tls_kit *tls_kit_ref(struct tls_kit *kit);
void tls_kit_unref(struct tls_kit *kit); /* NULL is fine; sessions go on */

#endif
