/* Memory of one document. It is allocated piece by piece, up to a maximum, and freed as a whole. */
#ifndef DOCKERFILE_ARENA_H
#define DOCKERFILE_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
	struct arena_chunk *chunks; /* owned; the newest first */
	size_t left;		    /* bytes that may still be taken */
};

void arena_init(struct arena *a, size_t max_bytes);
void arena_done(struct arena *a);

/* Returns zeroed memory, aligned for any type, or NULL when memory or the maximum is exhausted. */
void *arena_take(struct arena *a, size_t bytes);

/* Returns a copy of n bytes with a NUL behind them, or NULL. */
char *arena_copy(struct arena *a, const char *s, size_t n);

/* Makes room for one more item at the end of an array of `count`. The array grows by doubling.
 * Returns the new array, or NULL. */
void *arena_grow(struct arena *a, void *items, size_t count, size_t item_bytes);

#endif
