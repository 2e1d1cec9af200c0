/* Heads and trailers of HTTP/2 in nghttp2's form: lists of fields. Names that begin with a colon
 * stand for the first line. */
#ifndef INTERCEPT_HTTP2_BLOCK_H
#define INTERCEPT_HTTP2_BLOCK_H

#include <nghttp2/nghttp2.h>

#include "intercept/exchange.h"
#include "intercept/fields.h"
#include "rules/rules.h"

enum {
	HTTP2_FIELDS_MAX = 256, /* of a received head */
	/* What rules add. */
	HTTP2_FIELDS_SPARE = INTERCEPT_HEADERS_MAX + EXCHANGE_SETTERS_MAX * RULES_HEADERS_MAX + 8,
	HTTP2_BLOCK_MAX = HTTP2_FIELDS_MAX + HTTP2_FIELDS_SPARE + 8,
};

/* A block to send; zeroed at first. It borrows names and values. No list of fields is longer; if
 * one were, `full` says so, and the block must not be sent. */
struct http2_block {
	nghttp2_nv nv[HTTP2_BLOCK_MAX];
	size_t count;
	bool full;
};

void http2_block_add_text(struct http2_block *b, const char *name, const char *value);

/* Adds fields. Changes their names, in f, to lower case. */
void http2_block_add_fields(struct http2_block *b, const struct fields *f);

/* Adds Content-Length and TE of a head. rewrite.h drops them, because in HTTP/1.1 they are for one
 * connection only. */
void http2_block_add_framing(struct http2_block *b, const struct http_headers *in);

/* A received head. Valid as long as its fields are. */
struct http2_head {
	struct http_header items[HTTP2_FIELDS_MAX + 8];
	struct http_headers fields;
	const char *method, *path, *scheme, *authority, *status; /* NULL: none */
};

void http2_read_head(const struct fields *f, struct http2_head *ret);

#endif
