/* A table of HTTP header fields, and readers for common values (RFC 9110 5.6). */
#ifndef PROTO_HTTP_HEADERS_H
#define PROTO_HTTP_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

/* All strings are NUL-terminated. They contain no other NUL, and no control character but tab. */
struct http_header {
	const char *name;  /* as sent */
	const char *value; /* without surrounding blanks */
	size_t name_len, value_len;
};

struct http_headers {
	const struct http_header *items;
	unsigned count;
};

/* Names are compared without regard to case. */

/* The first value of a name, or NULL. */
const char *http_header_get(const struct http_headers *h, const char *name);

/* The next header of that name at or after *index, which moves past it; NULL at the end. */
const struct http_header *http_header_each(
	const struct http_headers *h, const char *name, unsigned *index);

unsigned http_header_count(const struct http_headers *h, const char *name);

/* Walks the comma-separated elements of a value; false at the end. Trims blanks and skips empty
 * elements. Commas inside quoted strings do not separate. */
bool http_list_next(const char **cursor, const char **ret_item, size_t *ret_n);

/* Whether any header `name` lists `token`. Case does not matter; parameters are ignored. */
bool http_header_has_token(const struct http_headers *h, const char *name, const char *token);

/* The weight, in thousandths, that Accept-Encoding gives a content coding. `*` stands for codings
 * that are not named. Without it, identity has 1000 and every other coding 0. */
unsigned http_encoding_weight(const struct http_headers *h, const char *coding);

/* Compares the type only: "Application/JSON; charset=utf-8" is "application/json". NULL matches
 * nothing. */
bool http_content_type_is(const char *value, const char *type);

/* Copies a parameter of a value like `multipart/form-data; boundary="x"`, unquoted, into out.
 * Returns its length, -ENOENT, -EINVAL (malformed, or given twice) or -EMSGSIZE (cap includes the
 * NUL). */
int http_parameter(const char *value, const char *name, char *out, size_t cap);

/* Whether a server may take two names for one. Servers that read headers as variables of CGI take
 * an underscore for a hyphen. */
bool http_is_same_name(const char *a, const char *b);

bool http_is_token(const char *s, size_t n); /* RFC 9110 token, not empty */
bool http_is_token_char(unsigned char c);

/* Whether a header is about framing, the connection or the host. Only the code that writes the
 * message may set such a header; nobody may choose it for a client. */
bool http_is_reserved(const char *name);

/* Whether s can be a Host: a name or an address, with or without a port. */
bool http_is_authority(const char *s);
/* Whether a field value may be sent: no control characters but tab. */
bool http_is_field_value(const char *s, size_t n);

#endif
