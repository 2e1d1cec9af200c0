/* Memory of one document: allocated piece by piece, freed as a whole. Never more than a maximum. */
#ifndef BUILD_ARENA_H
#define BUILD_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks; /* owned; the newest first */
	size_t left;		    /* bytes that may still be taken */
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a);

/* Zeroed and aligned for anything; NULL when memory or the maximum is exhausted. */
void *arena_take(struct arena *a, size_t bytes);

/* A terminated copy of n bytes, or NULL. */
char *arena_copy(struct arena *a, const char *s, size_t n);

/* Makes room for one more item at the end of an array of `count`, which grows by doubling. The new
 * array, or NULL. */
void *arena_grow(struct arena *a, void *items, size_t count, size_t item_bytes);

#endif
