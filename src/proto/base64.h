/* Base64 (RFC 4648), one table look-up per character. */
#ifndef PROTO_BASE64_H
#define PROTO_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/* Characters that n bytes take, with padding. n must be below SIZE_MAX / 2. */
static inline size_t base64_encoded_len(size_t n)
{
	return (n + 2) / 3 * 4;
}

/* Upper bound for the bytes that n characters decode to. */
static inline size_t base64_decoded_max(size_t n)
{
	return n / 4 * 3 + 3;
}

/* Standard alphabet with padding; writes base64_encoded_len(n) characters, no NUL. */
void base64_encode(char *out, const void *data, size_t n);

/* The same without padding; returns the number of characters. */
size_t base64_encode_nopad(char *out, const void *data, size_t n);

/* URL-safe alphabet without padding; returns the number of characters. */
size_t base64_encode_url(char *out, const void *data, size_t n);

/* Accepts the standard and the URL-safe alphabet, with and without padding, as proto3 JSON demands.
 * Refuses blanks, bytes after the padding, and unused bits that are set. out holds
 * base64_decoded_max(n) bytes. Returns the number of bytes or -EINVAL. */
ptrdiff_t base64_decode(uint8_t *out, const char *s, size_t n);

/* The same, appended to a buffer: 0, -EINVAL, -EMSGSIZE, -ENOMEM. */
int base64_decode_to(struct buf *out, const char *s, size_t n);

#endif
