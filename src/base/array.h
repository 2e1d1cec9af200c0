/* Arrays that grow by one item at a time. */
#ifndef BASE_ARRAY_H
#define BASE_ARRAY_H

#include <stdlib.h>

/* Makes room for one more item. Returns the array, which may have moved, or NULL when out of
 * memory; then the old array is unchanged. Start with NULL and count 0, and grow only arrays that
 * this function made: it assumes that their capacity is the next power of two. The caller frees the
 * array. */
static inline void *array_grow(void *items, size_t count, size_t item_bytes)
{
	if (count & (count - 1))
		return items;
	return reallocarray(items, count ? 2 * count : 1, item_bytes);
}

#endif
