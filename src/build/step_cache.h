/* The cache of steps. An entry is what a step made, under the digest of everything that it depends
 * on (step_key.h). It is a directory `steps/<key>/` in the state directory, with a disk (layers.h).
 * A client's entries have an owner, and are `steps/<owner>.<key>/`. Nobody else's build finds them:
 * what RUN made depends on the network at that time, too, and "CACHED" would tell what others
 * build.
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

struct step_cache {
	const struct home *home; /* borrowed, as the next */
	const char *owner;	 /* a word of [0-9a-f-]; NULL: the operator */
};

/* Opens and holds an entry, and marks it as used last. Returns a descriptor of its directory, or
 * -ENOENT. Closing it releases the entry. */
int step_cache_find(const struct step_cache *c, const char *key);

/* Returns how old the step is that made an entry, in nanoseconds. UINT64_MAX: nobody knows. */
uint64_t step_cache_age_ns(int fd);

/* Moves a complete directory into the cache as an entry. dirfd is its parent, fd is the directory,
 * which holds the entry from then on. If the key has an entry already, `replace` replaces it;
 * otherwise the old one stays, and the directory is not moved. On failure nothing is cached. */
void step_cache_put(const struct step_cache *c, const char *key, int dirfd, const char *name,
	int fd, bool replace);

struct step_cache_usage {
	uint64_t entries, bytes; /* what is left; files that several entries share count once */
	uint64_t removed, freed_bytes;
};

/* Removes the least recently used entries until at most `bytes` and STEP_CACHE_ENTRIES_MAX entries
 * are left. Entries in use stay. Also removes what killed builds left. */
int step_cache_trim(
	const struct home *h, uint64_t bytes, struct step_cache_usage *ret, struct error *e);

#endif
