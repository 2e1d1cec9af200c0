/* Heads and trailers of HTTP/2 as nghttp2 takes and gives them: lists of fields, of which those
 * with a colon before their name are the first line. */
#ifndef INTERCEPT_HTTP2_BLOCK_H
#define INTERCEPT_HTTP2_BLOCK_H

#include <nghttp2/nghttp2.h>

#include "intercept/fields.h"
#include "intercept/intercept.h"

enum {
	HTTP2_FIELDS_MAX = 256, /* of a head that comes in */
	HTTP2_BLOCK_MAX = HTTP2_FIELDS_MAX + INTERCEPT_HEADERS_MAX + 16,
};

/* To be sent; zeroed at first. Names and values are borrowed. What is beyond the maximum is left
 * out: no list of fields is so long. */
struct http2_block {
	nghttp2_nv nv[HTTP2_BLOCK_MAX];
	size_t count;
};

void http2_block_add_text(struct http2_block *b, const char *name, const char *value);

/* Names become lower case, in f. */
void http2_block_add_fields(struct http2_block *b, const struct fields *f);

/* Content-Length and TE of a head: HTTP/1.1 has them for one connection only, and HTTP/2 for a
 * stream. */
void http2_block_add_framing(struct http2_block *b, const struct http_headers *in);

/* That came in. Valid while its fields are. */
struct http2_head {
	struct http_header items[HTTP2_FIELDS_MAX + 8];
	struct http_headers fields;
	const char *method, *path, *scheme, *authority, *status; /* NULL: none */
};

void http2_read_head(const struct fields *f, struct http2_head *ret);

#endif
