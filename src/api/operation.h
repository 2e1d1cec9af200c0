/* One operation of the operator (operator.h), as its implementation sees it. */
#ifndef API_OPERATION_H
#define API_OPERATION_H

#include <jansson.h>
#include <stddef.h>

#include "base/error.h"
#include "store/store.h"

struct operation {
	struct store *store;
	const char *id;	    /* the part of the path that matched "{}", or NULL */
	const char *query;  /* still encoded, or NULL */
	const json_t *body; /* an object, or NULL */
	json_t *answer;	    /* NULL: an empty answer */
};

/* Reads a text from the query. Returns 1, or 0 if it is missing, or fails with ERROR_USAGE. */
int operation_query(
	const struct operation *o, const char *name, char *out, size_t cap, struct error *e);

int operation_no_memory(struct error *e);

#endif
