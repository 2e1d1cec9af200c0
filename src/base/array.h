/* Arrays that grow by one item at a time. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdlib.h>

/* Room for one more item: the array itself, or a larger one in its place. NULL: without memory; the
 * array stays. Only this function may have made it (NULL: an empty one), as it counts on room for
 * every power of two. The caller frees it. */
static inline void *array_grow(void *items, size_t count, size_t item_bytes)
{
	if (count & (count - 1))
		return items;
	return reallocarray(items, count ? 2 * count : 1, item_bytes);
}

#endif
