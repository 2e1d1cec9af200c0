#include "dockerfile/arena.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK_BYTES = 16384 };

struct arena_chunk {
	struct arena_chunk *next;
	size_t used, size;
	alignas(max_align_t) uint8_t data[];
};

void arena_init(struct arena *a, size_t max_bytes)
{
	*a = (struct arena){.left = max_bytes};
}

void arena_done(struct arena *a)
{
	while (a->chunks) {
		struct arena_chunk *c = a->chunks;

		a->chunks = c->next;
		free(c);
	}
}

static struct arena_chunk *add_chunk(struct arena *a, size_t bytes)
{
	size_t size = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
	struct arena_chunk *c = calloc(1, sizeof(*c) + size);

	if (!c)
		return NULL;
	c->size = size;
	c->next = a->chunks;
	a->chunks = c;
	return c;
}

void *arena_take(struct arena *a, size_t bytes)
{
	const size_t unit = alignof(max_align_t);
	struct arena_chunk *c = a->chunks;
	void *p;

	if (bytes > a->left || a->left - bytes < unit)
		return NULL;
	bytes = (bytes + unit - 1) / unit * unit;
	if (!c || c->size - c->used < bytes)
		c = add_chunk(a, bytes);
	if (!c)
		return NULL;
	p = c->data + c->used;
	c->used += bytes;
	a->left -= bytes;
	return p;
}

char *arena_copy(struct arena *a, const char *s, size_t n)
{
	char *p = arena_take(a, n + 1);

	if (p)
		memcpy(p, s, n);
	return p;
}

void *arena_grow(struct arena *a, void *items, size_t count, size_t item_bytes)
{
	void *more;

	if (count & (count - 1)) /* room is there for every power of two */
		return items;
	more = arena_take(a, (count ? 2 * count : 1) * item_bytes);
	if (more && count)
		memcpy(more, items, count * item_bytes);
	return more;
}
