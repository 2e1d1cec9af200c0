/* Inside the store: columns that are sealed (vault.h). A sealed text is base64. NULL, "" and "{}"
 * stay as they are: nothing is secret in them. */
#ifndef STORE_SEALED_H
#define STORE_SEALED_H

#include "store/db.h"
#include "store/sealed_columns.h"

/* Binds a value, sealed. owner: what the table of sealed.c names as the row's. If it cannot be
 * sealed, query_step fails and says why. */
void query_sealed(struct query *q, enum sealed kind, const char *owner, const char *text);
void query_sealed_blob(
	struct query *q, enum sealed kind, const char *owner, const void *data, size_t n);

/* The next column, opened. Valid until the next step, then wiped. If it cannot be opened, it is
 * what vault.h says: a token that nobody knows, a network that is closed, or NULL. */
const char *row_sealed(struct query *q, enum sealed kind, const char *owner);
/* Fills n bytes; random ones if it cannot be opened. */
void row_sealed_blob(struct query *q, enum sealed kind, const char *owner, void *out, size_t n);

#endif
