#include "intercept/fields.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void fields_init(struct fields *f, size_t text_max, unsigned count_max)
{
	*f = (struct fields){.max = count_max};
	buf_init_secret(&f->text, text_max);
}

void fields_done(struct fields *f)
{
	buf_done(&f->text);
	free(f->items);
	f->items = NULL;
	f->count = f->room = 0;
}

static void fail(struct fields *f, int err)
{
	if (!f->err)
		f->err = err;
}

static struct fields_item *new_item(struct fields *f)
{
	struct fields_item *items;
	unsigned want = f->room ? f->room * 2 : 16;

	if (f->count == f->max)
		fail(f, -EMSGSIZE);
	if (f->err)
		return NULL;
	if (f->count < f->room)
		return &f->items[f->count];
	items = reallocarray(f->items, want, sizeof(items[0]));
	if (!items) {
		fail(f, -ENOMEM);
		return NULL;
	}
	f->items = items;
	f->room = want;
	return &f->items[f->count];
}

void fields_put(struct fields *f, const void *data, size_t n)
{
	if (!f->err)
		fail(f, buf_add(&f->text, data, n));
}

void fields_begin(struct fields *f, const char *name, size_t name_bytes)
{
	struct fields_item *item = new_item(f);

	if (!item)
		return;
	*item = (struct fields_item){
		.name = (uint32_t)buf_len(&f->text), .name_bytes = (uint32_t)name_bytes};
	fields_put(f, name, name_bytes);
	fields_put(f, "", 1);
	item->value = (uint32_t)buf_len(&f->text);
}

void fields_end(struct fields *f, bool secret)
{
	if (f->err)
		return;
	f->items[f->count].value_bytes = (uint32_t)buf_len(&f->text) - f->items[f->count].value;
	f->items[f->count].secret = secret;
	fields_put(f, "", 1);
	if (!f->err)
		f->count++;
}

void fields_add(struct fields *f, const char *name, size_t name_bytes, const char *value,
	size_t value_bytes)
{
	fields_begin(f, name, name_bytes);
	fields_put(f, value, value_bytes);
	fields_end(f, false);
}

void fields_add_text(struct fields *f, const char *name, const char *value)
{
	fields_add(f, name, strlen(name), value, strlen(value));
}

struct http_headers fields_view(const struct fields *f, struct http_header *items)
{
	for (unsigned i = 0; i < f->count; i++)
		items[i] = (struct http_header){.name = fields_name(f, i),
			.value = fields_value(f, i),
			.name_len = f->items[i].name_bytes,
			.value_len = f->items[i].value_bytes};
	return (struct http_headers){items, f->count};
}
