/* Which handler a method and a path have. Paths are taken apart before they are decoded, so that an
 * encoded slash never separates (protocol section 2.1). */
#ifndef DAEMON_ROUTER_H
#define DAEMON_ROUTER_H

#include "http/request.h"

/* Finds out who asks and sets r->key, or answers and returns false. */
typedef bool (*router_authenticate)(struct request *r);

enum router_auth {
	ROUTER_KEY,  /* an API key; r->key is set, on the admin socket to the local one */
	ROUTER_OPEN, /* anybody */
	/* The operator, on the admin socket; r->key is not set. An entry for everybody else may
	 * follow. */
	ROUTER_ADMIN,
};

struct router_entry {
	const char *method;  /* NULL ends a table */
	const char *pattern; /* "{}" stands for one segment: r->params, at most 4 */
	request_handler handler;
	enum router_auth auth;
};

/* Calls the first handler that matches, or answers 404, 405 (other methods match), 401, or a
 * browser's OPTIONS. Literal segments go before "{}": list them first. */
void router_dispatch(
	struct request *r, const struct router_entry *table, router_authenticate authenticate);

#endif
