/* Sends POST /invocations to a program that listens in a sandbox, as AgentCore does with its
 * containers. If nothing listens yet, it tries again. */
#ifndef INVOCATION_WEB_H
#define INVOCATION_WEB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "fleet/instance.h"

struct web_order {
	uint16_t port;
	const char *content_type; /* this and the next are borrowed until the end */
	const void *body;
	size_t body_bytes;
	const char *session; /* sent in a header; or NULL */
};

struct web_ops {
	/* The answer's head has come. content_type is "" if there is none. */
	void (*answered)(void *arg, unsigned status, const char *content_type);
	void (*data)(void *arg, const uint8_t *data, size_t n);
	/* One of these is the last call: the answer is complete, or broken. why is static. */
	void (*ended)(void *arg);
	void (*failed)(void *arg, const char *why);
};

struct web;

/* Returns NULL when out of memory. Callbacks come in later turns of the loop only. */
struct web *web_open(struct fleet *f, const char *sandbox_id, const struct web_order *o,
	const struct web_ops *ops, void *arg);
/* Whether something has listened. */
bool web_was_reached(const struct web *w);
void web_pause(struct web *w);
void web_resume(struct web *w);
void web_close(struct web *w); /* NULL is fine */

#endif
