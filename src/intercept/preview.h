/* The first bytes of a request as a person is shown them: text, without what may be a secret.
 *
 * Hidden are placeholders and secrets of the sandbox, values of members whose names speak of
 * secrets ("password", "token", "authorization" ...), and words that look like keys. What is hidden
 * is counted, so that nobody takes the rest for all: "[32 bytes hidden]". Bytes that are no text
 * are dots.
 *
 * It helps people to decide, and is no wall: a guest may write a secret in many ways. */
#ifndef INTERCEPT_PREVIEW_H
#define INTERCEPT_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "intercept/intercept.h"

enum { PREVIEW_MAX = 2048 /* bytes that are looked at */ };

/* Appends the text of n bytes, PREVIEW_MAX at most, and a NUL, as far as it fits. cut: more bytes
 * followed, so the last word may be the beginning of a key. i may be NULL. 0 or -ENOMEM. */
int preview_write(const void *data, size_t n, bool cut, const struct intercept *i, struct buf *out);

#endif
