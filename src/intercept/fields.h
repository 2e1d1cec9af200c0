/* A list of header fields. It owns its text, which may hold secrets and is wiped when freed.
 *
 * An error while adding is kept: add everything, then check fields_error(). */
#ifndef INTERCEPT_FIELDS_H
#define INTERCEPT_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "proto/http_headers.h"

struct fields_item {
	uint32_t name, value; /* offsets in the text */
	uint32_t name_bytes, value_bytes;
	bool secret; /* must not enter HPACK's table */
};

struct fields {
	struct buf text;
	struct fields_item *items; /* owned */
	unsigned count, room, max;
	int err; /* 0, -EMSGSIZE, -ENOMEM */
};

/* text_max: limit for all names and values, in bytes, each with its NUL. */
void fields_init(struct fields *f, size_t text_max, unsigned count_max);
void fields_done(struct fields *f);

void fields_add(struct fields *f, const char *name, size_t name_bytes, const char *value,
	size_t value_bytes);
void fields_add_text(struct fields *f, const char *name, const char *value);

/* Add a value in pieces: begin, then put as often as needed, then end. */
void fields_begin(struct fields *f, const char *name, size_t name_bytes);
void fields_put(struct fields *f, const void *data, size_t n);
void fields_end(struct fields *f, bool secret);

/* How many bytes of the value were put; 0 after an error. */
static inline size_t fields_put_bytes(const struct fields *f)
{
	return f->err ? 0 : buf_len(&f->text) - f->items[f->count].value;
}

static inline int fields_error(const struct fields *f)
{
	return f->err;
}

/* Bytes that it takes. */
static inline size_t fields_memory(const struct fields *f)
{
	return f->text.capacity + f->room * sizeof(f->items[0]);
}

/* Valid until something is added. */
static inline char *fields_name(const struct fields *f, unsigned i)
{
	return (char *)f->text.data + f->items[i].name;
}

static inline char *fields_value(const struct fields *f, unsigned i)
{
	return (char *)f->text.data + f->items[i].value;
}

/* Makes a table of the fields. The caller provides `count` entries at `items`. */
struct http_headers fields_view(const struct fields *f, struct http_header *items);

#endif
