/* Shows the first bytes of a request to a person, as text without possible secrets.
 *
 * It hides placeholders and secrets of the sandbox, values of members with telling names
 * ("password", "token", "authorization" ...), and words that look like keys. "[32 bytes hidden]"
 * stands in their place. Bytes that are no text become dots.
 *
 * It helps people to decide, but it is no protection: a guest may encode a secret in many ways. */
#ifndef INTERCEPT_PREVIEW_H
#define INTERCEPT_PREVIEW_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "intercept/intercept.h"

enum { PREVIEW_MAX = 2048 /* bytes that are read */ };

/* Appends the text of n bytes (at most PREVIEW_MAX) and a NUL, cut to out's room. cut: more bytes
 * follow, so the last word may be the beginning of a key. i may be NULL. Returns 0 or -ENOMEM. */
int preview_write(const void *data, size_t n, bool cut, const struct intercept *i, struct buf *out);

/* Whether the value of a header is hidden, as its name speaks of a secret. */
bool preview_is_secret_header(const char *name);

#endif
