/* One operation of the operator's (operator.h), as those who write operations see it. */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "store/store.h"

struct operation {
	struct store *store;
	const char *id;	    /* what "{}" stood for, or NULL */
	const char *query;  /* still encoded, or NULL */
	const json_t *body; /* an object, or NULL */
	json_t *answer;	    /* stays NULL for an empty one */
};

/* A text of the query: 1, or 0 when it is not there; ERROR_USAGE. */
int operation_query(
	const struct operation *o, const char *name, char *out, size_t cap, struct error *e);

int operation_no_memory(struct error *e);

#endif
