/* Compiles rules with headers and bound secrets of a sandbox into the policy's member `intercept`
 * (docs/network.md). */
#ifndef POLICY_INTERCEPT_H
#define POLICY_INTERCEPT_H

#include <jansson.h>

#include "policy/authority.h"

enum {
	INTERCEPT_BINDINGS_MAX = 16,		  /* variables with secrets, per sandbox */
	INTERCEPT_BOUND_HOSTS_MAX = 54,		  /* of all variables */
	INTERCEPT_SECRETS_BYTES_MAX = 256 * 1024, /* of all secrets and placeholders, as JSON */
};

/* What the member is made from. */
struct intercept_source {
	const json_t *network;	 /* its network object, checked; or NULL */
	const json_t *bindings;	 /* of its row: {"VARIABLE": {"secret", "hosts"}}; or NULL */
	const json_t *inspected; /* an object of hosts whose requests policies judge; or NULL */
	const json_t *env;	 /* its environment, which has the placeholders; or NULL */
	const struct authority *authority;
	const char *roots; /* PEM of further authorities of servers, or NULL */
	/* Returns the value of a secret, or of a token (with IAM_SECRET_PREFIX before its name), or
	 * NULL if it is unknown. The caller of the callback wipes it. */
	char *(*value)(void *arg, const char *name);
	void *arg;
};

/* Returns a sorted array of the intercepted hosts, which may be empty. Returns NULL when out of
 * memory. */
json_t *intercept_hosts(const struct intercept_source *s);

/* Makes the member. Wipe it with intercept_wipe() before it is released. Leaves out secrets that
 * are unknown or exceed INTERCEPT_SECRETS_BYTES_MAX; requests that need them fail. Returns NULL
 * when out of memory. */
json_t *intercept_policy(const struct intercept_source *s);
void intercept_wipe(json_t *intercept);

/* Returns the next name of a secret (in lower case), or of a token (with IAM_SECRET_PREFIX), that a
 * header's value refers to. It is malloc'ed, or NULL: there is none. Moves *s behind it. */
char *intercept_next_name(const char **s);

/* Whether a rule or a variable uses the secret. name: in lower case. */
int intercept_uses(const struct intercept_source *s, const char *name);

#endif
