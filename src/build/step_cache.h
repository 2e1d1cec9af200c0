/* The cache of steps. An entry is what a step made, under the digest of everything that it depends
 * on (step_key.h). It is a directory `steps/<key>/` in the state directory, with a disk (layers.h).
 *
 * An entry appears complete or not at all. It stays while somebody holds it, and may be removed at
 * any other time. Several processes may use the cache at once. */
#ifndef BUILD_STEP_CACHE_H
#define BUILD_STEP_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/home.h"

#define STEP_CACHE_BYTES_MAX (UINT64_C(16) << 30)

enum {
	STEP_CACHE_ENTRIES_MAX = 4096,
	STEP_KEY_BYTES = 65, /* hexadecimal SHA-256, and a NUL */
};

/* Opens and holds an entry, and marks it as used last. Returns a descriptor of its directory, or
 * -ENOENT. Closing it releases the entry. */
int step_cache_find(const struct home *h, const char *key);

/* Moves a complete directory into the cache as an entry. dirfd is its parent, fd is the directory,
 * which holds the entry from then on. If the key has an entry already, `replace` replaces it;
 * otherwise the old one stays, and the directory is not moved. On failure nothing is cached. */
void step_cache_put(
	const struct home *h, const char *key, int dirfd, const char *name, int fd, bool replace);

struct step_cache_usage {
	uint64_t entries, bytes; /* what is left; files that several entries share count once */
	uint64_t removed, freed_bytes;
};

/* Removes the least recently used entries until at most `bytes` and STEP_CACHE_ENTRIES_MAX entries
 * are left. Entries in use stay. Also removes what killed builds left. */
int step_cache_trim(
	const struct home *h, uint64_t bytes, struct step_cache_usage *ret, struct error *e);

#endif
