/* Compiles rules with headers and bound secrets of a sandbox into the policy's member `intercept`
 * (docs/network.md). */
#ifndef POLICY_INTERCEPT_H
#define POLICY_INTERCEPT_H

#include <jansson.h>

#include "policy/authority.h"

enum {
	INTERCEPT_BINDINGS_MAX = 16,		  /* variables with secrets, of a sandbox */
	INTERCEPT_BOUND_HOSTS_MAX = 54,		  /* of all variables */
	INTERCEPT_SECRETS_BYTES_MAX = 256 * 1024, /* of all secrets and placeholders, as JSON */
};

/* What a sandbox says about it. */
struct intercept_source {
	const json_t *network;	 /* its network object, checked; or NULL */
	const json_t *bindings;	 /* of its row: {"VARIABLE": {"secret", "hosts"}}; or NULL */
	const json_t *inspected; /* an object of the hosts whose requests policies judge; or NULL */
	const json_t *env;	 /* its environment, in which the placeholders are; or NULL */
	const struct authority *authority;
	const char *roots; /* PEM of further authorities of servers, or NULL */
	/* The value of a secret, or of a token (IAM_SECRET_PREFIX before its name), which the
	 * caller wipes; NULL: it is unknown. */
	char *(*value)(void *arg, const char *name);
	void *arg;
};

/* The hosts that are intercepted, sorted; empty if none is. Uses network and bindings. NULL: out of
 * memory. */
json_t *intercept_hosts(const struct intercept_source *s);

/* The member. Wipe it with intercept_wipe() before it is released. Secrets that are unknown, or do
 * not fit any more, are left out: their requests fail. NULL: out of memory. */
json_t *intercept_policy(const struct intercept_source *s);
void intercept_wipe(json_t *intercept);

/* Whether a rule or a variable names this secret, in lower case. */
int intercept_uses(const struct intercept_source *s, const char *name);

#endif
