/* How the owner of a store seals and opens (store/vault.h). */
#ifndef STORE_VAULT_FUNCTIONS_H
#define STORE_VAULT_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { STORE_VAULT_NAME = 8 }; /* bytes that tell one key from another */

/* As sealer_seal and sealer_open: what they return is malloc'ed, opened data has a NUL behind it.
 * context: what the data is and whose; only the same context opens it. */
struct store_vault {
	void *arg;
	int (*seal)(void *arg, const char *context, const void *data, size_t n, uint8_t **ret,
		size_t *ret_n, struct error *e);
	int (*open)(void *arg, const char *context, const void *sealed, size_t n, char **ret,
		size_t *ret_n, struct error *e);
};

#endif
