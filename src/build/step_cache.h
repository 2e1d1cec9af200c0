/* What steps made, by the digest of everything that it depends on (step_key.h): `steps/<key>/` in
 * the state directory, a disk as layers.h has it.
 *
 * An entry appears as a whole or not at all, and stays while somebody holds it. It may be removed
 * at any other time: it is a cache. Several processes may use it at once. */
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

/* Opens and holds the entry, which then counts as used last: a directory's descriptor, or
 * -ENOENT. Close it. */
int step_cache_find(const struct home *h, const char *key);

/* Makes an entry of a complete directory, which moves there. dirfd is its parent, fd itself: it is
 * held from then on. replace: in place of one that is there; otherwise that stays, and the
 * directory where it is. Failures mean that nothing is cached. */
void step_cache_put(
	const struct home *h, const char *key, int dirfd, const char *name, int fd, bool replace);

struct step_cache_usage {
	uint64_t entries, bytes; /* that are left; files that several entries share count once */
	uint64_t removed, freed_bytes;
};

/* Removes what was used least recently until at most `bytes` and STEP_CACHE_ENTRIES_MAX entries are
 * left, and what killed builds left. Entries in use stay. */
int step_cache_trim(
	const struct home *h, uint64_t bytes, struct step_cache_usage *ret, struct error *e);

#endif
