/* The member `intercept` of a policy (docs/network.md), parsed and checked. It says which
 * connections are intercepted, and how their requests are changed.
 *
 * It never changes and counts references. A request keeps the version that it began with when a new
 * policy replaces it. Not thread-safe. */
#ifndef INTERCEPT_INTERCEPT_H
#define INTERCEPT_INTERCEPT_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "intercept/secret.h"

enum {
	INTERCEPT_HOSTS_MAX = 64,
	INTERCEPT_HEADERS_MAX = 20, /* of a host */
	INTERCEPT_HEADER_NAME_MAX = 64,
	INTERCEPT_HEADER_VALUE_MAX = 2048, /* before secrets are put in */
	INTERCEPT_PORTS_MAX = 64,
	INTERCEPT_SECRETS_MAX = 384, /* 32 for each rule, and those of placeholders */
	INTERCEPT_SECRET_NAME_MAX = 128,
	INTERCEPT_SECRET_MAX = 32 << 10,     /* bytes of a value */
	INTERCEPT_SECRETS_BYTES = 256 << 10, /* of all values */
	INTERCEPT_PLACEHOLDERS_MAX = 64,
	INTERCEPT_PLACEHOLDER_MIN = 16,
	INTERCEPT_PLACEHOLDER_MAX = 32 << 10,
	INTERCEPT_PEM_MAX = 64 << 10, /* of the certificate, and of the key */
	INTERCEPT_ROOTS_MAX = 512 << 10,
	/* Shorter values are not searched for in answers, because they would match by chance. */
	INTERCEPT_SCRUB_MIN = 8,
};

/* "api.example.com", or "*.example.com": names below it at any depth, but not the name itself. */
struct intercept_pattern {
	char *text; /* without the asterisk: ".example.com" */
	size_t bytes;
	bool below;
};

struct intercept_header {
	char *name;  /* as written; never one that frames messages or names the host */
	char *value; /* with ${e2b.secrets.NAME} and ${e2b.identity.tokens.NAME} in it */
};

struct intercept_host {
	struct intercept_pattern pattern;
	struct intercept_header *headers;
	unsigned header_count;
};

struct intercept_secret {
	char *name;
	struct secret value;
	enum secret_kind kind; /* of the value */
};

/* A text that the guest has in place of a secret. It is replaced in requests to some hosts only. */
struct intercept_placeholder {
	char *text;
	size_t bytes;
	unsigned secret; /* index */
	struct intercept_pattern *hosts;
	unsigned host_count;
};

struct intercept {
	unsigned references;
	struct secret certificate, key; /* the sandbox's authority, as PEM */
	char *roots;			/* PEM, or NULL */
	uint16_t ports[INTERCEPT_PORTS_MAX];
	unsigned port_count;
	struct intercept_host *hosts;
	unsigned host_count;
	struct intercept_secret *secrets;
	unsigned secret_count;
	struct intercept_placeholder *placeholders;
	unsigned placeholder_count;
};

/* Parses the value of the member `intercept`. The result has one reference. Fails with ERROR_USAGE;
 * the message names the member that is wrong, and shows no values. */
int intercept_make(json_t *value, struct intercept **ret, struct error *e);

struct intercept *intercept_ref(struct intercept *i); /* NULL gives NULL */
void intercept_unref(struct intercept *i); /* NULL is fine; the last one wipes the secrets */

/* Whether a connection to this name and port is intercepted, because a rule or a placeholder is for
 * the name. name is in lower case; i may be NULL. */
bool intercept_applies(const struct intercept *i, const char *name, uint16_t port);

/* Finds the rule for a name: the exact one, else the one with the longest suffix, else NULL. Rules
 * are never merged. */
const struct intercept_host *intercept_find(const struct intercept *i, const char *name);

/* Whether a placeholder may be sent to a name. */
bool intercept_placeholder_is_for(const struct intercept_placeholder *p, const char *name);

/* Returns the index of a secret, or -1. */
int intercept_secret(const struct intercept *i, const char *name, size_t bytes);

/* Returns the index of the secret that a reference in a rule names, or -1. text: the part between
 * "${e2b." and the brace. "secrets.NAME" names the secret NAME; "identity.tokens.NAME" names the
 * secret with that whole name. */
int intercept_reference(const struct intercept *i, const char *text, size_t bytes);

#endif
