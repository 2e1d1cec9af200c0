#include "intercept/http2_block.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"

static void block_add(struct http2_block *b, const char *name, size_t name_bytes, const char *value,
	size_t n, bool secret)
{
	b->full = b->full || b->count == ARRAY_SIZE(b->nv);
	if (b->full)
		return;
	b->nv[b->count++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_bytes, n,
		secret ? NGHTTP2_NV_FLAG_NO_INDEX : NGHTTP2_NV_FLAG_NONE};
}

void http2_block_add_text(struct http2_block *b, const char *name, const char *value)
{
	block_add(b, name, strlen(name), value, strlen(value), false);
}

void http2_block_add_fields(struct http2_block *b, const struct fields *f)
{
	for (unsigned i = 0; i < f->count; i++) {
		char *name = fields_name(f, i);

		for (char *c = name; *c; c++)
			*c = (char)tolower((unsigned char)*c);
		block_add(b, name, f->items[i].name_bytes, fields_value(f, i),
			f->items[i].value_bytes, f->items[i].secret);
	}
}

void http2_read_head(const struct fields *f, struct http2_head *h)
{
	unsigned first = 0;

	h->method = h->path = h->scheme = h->authority = h->status = NULL;
	h->fields = fields_view(f, h->items);
	for (; first < f->count && h->items[first].name[0] == ':'; first++) {
		const char *name = h->items[first].name + 1, *value = h->items[first].value;

		if (strcmp(name, "method") == 0)
			h->method = value;
		else if (strcmp(name, "path") == 0)
			h->path = value;
		else if (strcmp(name, "scheme") == 0)
			h->scheme = value;
		else if (strcmp(name, "authority") == 0)
			h->authority = value;
		else if (strcmp(name, "status") == 0)
			h->status = value;
	}
	h->fields.items += first;
	h->fields.count -= first;
}

void http2_block_add_framing(struct http2_block *b, const struct http_headers *in)
{
	const char *length = http_header_get(in, "content-length"), *te = http_header_get(in, "te");

	if (length)
		http2_block_add_text(b, "content-length", length);
	if (te && strcasecmp(te, "trailers") == 0)
		http2_block_add_text(b, "te", "trailers");
}
