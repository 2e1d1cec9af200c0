/* Why flows were denied, for the programs in the sandbox: GET http://mayfly.internal/why.
 *
 * The name resolves to WHY_ADDRESS in both modes, whatever the policy says. The worker answers on
 * port 80 itself: one request of a connection, read strictly (proto/http.h), without a body. The
 * answer is JSON if the client accepts that, else plain text: the sandbox's last denials, and
 * nothing of others. No I/O. */
#ifndef EGRESS_WHY_H
#define EGRESS_WHY_H

#include <stdbool.h>
#include <stddef.h>

#include "egress/denials.h"

#define WHY_NAME    "mayfly.internal"
#define WHY_ADDRESS UINT32_C(0xc613fffe) /* 198.19.255.254; stands for no other name */

enum { WHY_PORT = 80, WHY_ANSWER_MAX = DENIALS_TEXT_MAX + 1024 };

struct why;

/* denial: NULL, or why the program's connection is denied (borrowed): then each request gets that,
 * with 403. NULL: out of memory. */
struct why *why_new(const char *denial);
void why_free(struct why *w); /* NULL is fine */

/* Takes bytes of the request. Returns whether the answer is complete in `out` (WHY_ANSWER_MAX
 * bytes); what follows is ignored. Out of memory: complete and empty. */
bool why_take(struct why *w, const struct denials *d, const void *data, size_t n, struct buf *out);

#endif
