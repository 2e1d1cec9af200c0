/* POST /invocations of a program that listens, in a sandbox: the contract of AgentCore's
 * containers. While nothing listens yet, it is tried again. */
#ifndef INVOCATION_WEB_H
#define INVOCATION_WEB_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/instance.h"

struct web_order {
	uint16_t port;
	const char *content_type; /* borrowed until the end, as the next */
	const void *body;
	size_t body_bytes;
	const char *session; /* or NULL: the header that tells it */
};

struct web_ops {
	/* The answer's head came. content_type: "" if it has none. */
	void (*answered)(void *arg, unsigned status, const char *content_type);
	void (*data)(void *arg, const uint8_t *data, size_t n);
	/* The last, one of these: the answer is complete, or broken: why (static). */
	void (*ended)(void *arg);
	void (*failed)(void *arg, const char *why);
};

struct web;

/* NULL: out of memory. Calls back later. */
struct web *web_open(struct fleet *f, const char *sandbox_id, const struct web_order *o,
	const struct web_ops *ops, void *arg);
void web_pause(struct web *w);
void web_resume(struct web *w);
void web_close(struct web *w); /* NULL is fine */

#endif
