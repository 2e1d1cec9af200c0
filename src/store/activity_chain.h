/* The chain of hashes through a log of activity.
 *
 * A record's text is what clients get of it, without `id` and `hash`: an object whose first members
 * are "n", its number in the log, and "kind", as compact JSON in printable ASCII, as Python's
 * json.dumps(record, separators=(",", ":")) writes it. Its hash is SHA-256 over the 32 bytes of the
 * hash before it and that text. Before the first one stands SHA-256 of "mayfly activity 1\n" and
 * the sandbox's id.
 *
 * A seal is HMAC-SHA-256 over the sandbox's id and both ends of the chain. */
#ifndef STORE_ACTIVITY_CHAIN_H
#define STORE_ACTIVITY_CHAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ACTIVITY_HASH_BYTES = 32, ACTIVITY_KEY_BYTES = 32 };

struct activity_link {
	uint64_t n;
	uint8_t hash[ACTIVITY_HASH_BYTES];
};

/* Of a log. */
struct activity_ends {
	struct activity_link head, anchor; /* the newest, and the last that made room */
	bool sealed;
};

/* What is before the first record, with n 0. */
void activity_chain_begin(const char *sandbox_id, struct activity_link *ret);

/* Goes on to the next record. record: an object with a member at least, without the first two. All
 * of these return false when out of memory. */
bool activity_chain_add(struct activity_link *l, const char *kind, const char *record);
/* The same for the whole text, n bytes. */
bool activity_chain_follow(struct activity_link *l, const char *text, size_t n);

bool activity_chain_seal(const struct activity_ends *ends, const uint8_t key[ACTIVITY_KEY_BYTES],
	const char *sandbox_id, uint8_t ret[ACTIVITY_HASH_BYTES]);
/* A log without records needs none. */
bool activity_chain_is_sealed(const struct activity_ends *ends,
	const uint8_t key[ACTIVITY_KEY_BYTES], const char *sandbox_id,
	const uint8_t seal[ACTIVITY_HASH_BYTES]);

#endif
