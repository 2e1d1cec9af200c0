/* The pages that E2B's proxy shows to people whose browser asks for a sandbox that cannot answer.
 * Programs get JSON (envd_reply.h). */
#ifndef ENVD_PAGE_H
#define ENVD_PAGE_H

#include <stdbool.h>

#include "base/buf.h"
#include "http/request.h"

/* Whether a person will see the answer: a browser navigates. Requests of a page's scripts have
 * Sec-Fetch-Mode and -Site, XMLHttpRequest or an Accept of JSON alone; they want JSON. */
bool envd_wants_page(const struct request *r);

/* Appends the page for a message of envd_reply_proxy(), which may be hostile. port: 0 for none.
 * 0 or -errno. */
int envd_page(struct buf *out, const char *sandbox_id, unsigned port, const char *message);

#endif
