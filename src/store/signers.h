/* The key pairs that sign sandboxes' identity tokens (network/identity.h). The store keeps the
 * private key as sealed bytes, and the public key in the clear. */
#ifndef STORE_SIGNERS_H
#define STORE_SIGNERS_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_SIGNER_ID_MAX = 64,
	STORE_SIGNER_SEALED_MAX = 4096,
};

struct store_signer {
	const char *id; /* 1 to STORE_SIGNER_ID_MAX bytes */
	uint64_t created_ns;
	const char *public_json; /* object */
	const void *sealed;
	size_t sealed_bytes;
};

/* Adds a signer, and removes those that were made before forget_ns. Synced. */
int store_signer_add(
	struct store *s, const struct store_signer *signer, uint64_t forget_ns, struct error *e);

/* Calls `each` with all, the newest first, until it returns other than 0, which this returns. */
int store_signer_list(struct store *s, int (*each)(void *arg, const struct store_signer *signer),
	void *arg, struct error *e);

/* How many there are. */
int store_signer_count(struct store *s, uint64_t *ret, struct error *e);

#endif
