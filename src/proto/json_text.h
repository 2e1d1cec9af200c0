/* Writes JSON strings straight into a buffer. */
#ifndef PROTO_JSON_TEXT_H
#define PROTO_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum json_text_mode {
	JSON_TEXT_UTF8,	 /* valid UTF-8 passes as it is */
	JSON_TEXT_ASCII, /* all but printable ASCII is escaped, as Python's json.dumps does */
};

/* Appends s escaped, without quotes. Each byte that is not UTF-8 becomes U+FFFD. 0, -EMSGSIZE,
 * -ENOMEM; when the buffer is too small, what was written stays. */
int json_text_escape(struct buf *out, const char *s, size_t n, enum json_text_mode mode);

/* The same, with quotes. */
int json_text_string(struct buf *out, const char *s, size_t n, enum json_text_mode mode);

/* Writes a character as UTF-8, 4 bytes at most. Returns what is behind it. */
char *json_text_put_utf8(char *to, uint32_t c);

/* Counts ASCII bytes at the front that need no escape in JSON; stops at 0x7f. */
size_t json_text_plain(const char *s, size_t n);

/* The length of the well-formed UTF-8 sequence at the front (n > 0), or 0. */
size_t json_text_sequence(const char *s, size_t n);

/* Whether the bytes are well-formed UTF-8 (no surrogates, no overlong forms). */
bool json_text_is_utf8(const char *s, size_t n);

#endif
