/* Inside the store: which columns are sealed, and their text form. */
#ifndef STORE_SEALED_COLUMNS_H
#define STORE_SEALED_COLUMNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum sealed {
	SEALED_SANDBOX_ENV,
	SEALED_SANDBOX_NETWORK,
	SEALED_ENVD_TOKEN,
	SEALED_TRAFFIC_TOKEN,
	SEALED_AGENT_ENV,
	SEALED_AGENT_NETWORK,
	SEALED_WEBHOOK,
	SEALED_PAYLOAD,
	SEALED_LINK_KEY, /* a blob */
	SEALED_KINDS_,
};

enum { SEALED_CONTEXT_BYTES = 256 };

struct sealed_column {
	const char *table, *column;
	const char *owner; /* SQL, of the row: what the context ends with */
	bool blob;
	/* SQL of the whole context, for columns that others than the store seal; NULL:
	 * "table.column owner" */
	const char *context;
};

/* The first SEALED_KINDS_ are those of enum sealed. */
extern const struct sealed_column sealed_columns[];
extern const unsigned sealed_column_count;

/* malloc'ed; NULL when out of memory. */
char *sealed_encode(const uint8_t *sealed, size_t n);
/* *ret is malloc'ed. 0 or -errno. */
int sealed_decode(const char *text, uint8_t **ret, size_t *ret_n);

#endif
