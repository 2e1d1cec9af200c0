/* JSON strings straight into a buffer. */
#ifndef PROTO_JSON_TEXT_H
#define PROTO_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

enum json_text_mode {
	JSON_TEXT_UTF8,	 /* valid UTF-8 passes as it is */
	JSON_TEXT_ASCII, /* everything beyond ASCII as \uXXXX (section 4.3) */
};

/* Appends s escaped, without quotes. Bytes that are not UTF-8 become U+FFFD, one per byte. 0,
 * -EMSGSIZE, -ENOMEM; a buffer that is too small keeps the part that was written. */
int json_text_escape(struct buf *out, const char *s, size_t n, enum json_text_mode mode);

/* The same in quotes. */
int json_text_string(struct buf *out, const char *s, size_t n, enum json_text_mode mode);

/* Bytes at the front that stand for themselves in a JSON text, as far as they are ASCII; 0x7f is not
 * counted. */
size_t json_text_plain(const char *s, size_t n);

/* The length of the well-formed UTF-8 sequence at the front (n > 0), or 0. */
size_t json_text_sequence(const char *s, size_t n);

/* Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms). */
bool json_text_is_utf8(const char *s, size_t n);

#endif
