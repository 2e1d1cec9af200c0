/* Remembers which sandbox a creation with an Idempotency-Key made (docs/api.md). A row is written
 * in the same commit as the sandbox's own row, so a crash leaves both or neither. The row outlives
 * the sandbox. It goes after STORE_CREATION_LIFE_NS, or when the key has made STORE_CREATIONS_MAX
 * more. */
#ifndef STORE_CREATIONS_H
#define STORE_CREATIONS_H

#include <stdint.h>

#include "base/clock.h"
#include "base/error.h"
#include "store/store.h"

#define STORE_CREATION_LIFE_NS (24 * 3600 * NS_PER_S)

enum {
	STORE_CREATIONS_MAX = 10000,	 /* per key */
	STORE_CREATION_WORD_BYTES = 256, /* including the NUL */
	STORE_CREATION_HASH_BYTES = 32,
};

/* What the client sent: its word for the creation, and a hash of its request. */
struct store_creation {
	char word[STORE_CREATION_WORD_BYTES];
	uint8_t hash[STORE_CREATION_HASH_BYTES];
};

/* Replaces an existing row with the same word, which must have expired. */
int store_creation_add(struct store *s, const char *key_id, const struct store_creation *c,
	const char *sandbox_id, uint64_t now_ns, struct error *e);

/* Finds a row by key and word; fills ret_hash and the sandbox's id. An expired row is -ENOENT
 * too. */
int store_creation_find(struct store *s, const char *key_id, const char *word, uint64_t now_ns,
	uint8_t ret_hash[STORE_CREATION_HASH_BYTES], char ret_sandbox_id[STORE_ID_MAX + 1],
	struct error *e);

#endif
