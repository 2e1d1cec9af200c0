/* Tells programs in the sandbox why their flows were denied: GET http://mayfly.internal/why.
 *
 * The name resolves to WHY_ADDRESS in both modes, whatever the policy says. The worker itself
 * answers on port 80: one request per connection, without a body, read strictly (proto/http.h). The
 * answer lists the last denials of this sandbox, as JSON if the client accepts that, else as plain
 * text. This module does no I/O. */
#ifndef EGRESS_WHY_H
#define EGRESS_WHY_H

#include <stdbool.h>
#include <stddef.h>

#include "egress/denials.h"

#define WHY_NAME    "mayfly.internal"
#define WHY_ADDRESS UINT32_C(0xc613fffe) /* 198.19.255.254; stands for no other name */

enum { WHY_PORT = 80, WHY_ANSWER_MAX = DENIALS_TEXT_MAX + 1024 };

struct why;

/* denial: NULL, or why the program's connection is denied (borrowed). Then the request is answered
 * with 403 and this reason. Returns NULL when out of memory. */
struct why *why_new(const char *denial);
void why_free(struct why *w); /* NULL is fine */

/* Takes bytes of the request. Returns true when the answer is complete in `out` (at most
 * WHY_ANSWER_MAX bytes); later bytes are ignored. If memory is out, it returns true with an empty
 * answer. */
bool why_take(struct why *w, const struct denials *d, const void *data, size_t n, struct buf *out);

#endif
