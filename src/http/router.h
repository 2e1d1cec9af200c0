/* Finds the handler for a method and a path. It splits paths before it decodes them, so that an
 * encoded slash never separates segments. */
#ifndef HTTP_ROUTER_H
#define HTTP_ROUTER_H

#include "http/request.h"

/* Identifies the client and sets r->key, or answers and returns false. */
typedef bool (*router_authenticate)(struct request *r);

enum router_auth {
	ROUTER_KEY,  /* an API key; r->key is set, to the local key on the admin socket */
	ROUTER_OPEN, /* anybody */
	/* The operator, on the admin socket; r->key is not set. An entry for other clients may
	 * follow. */
	ROUTER_ADMIN,
};

struct router_entry {
	const char *method;  /* NULL ends a table */
	const char *pattern; /* "{}" stands for one segment: r->params */
	request_handler handler;
	enum router_auth auth;
};

/* Calls the first handler that matches. Otherwise answers 404, 405 (other methods match), 401, or a
 * browser's OPTIONS. List literal segments before "{}". */
void router_dispatch(
	struct request *r, const struct router_entry *table, router_authenticate authenticate);

#endif
