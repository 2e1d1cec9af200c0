/* What a person is asked about by a rule that reads calls (docs/consent.md): the names to show, and
 * the digest of what a decision for longer covers.
 *
 * Of a model the digest covers its name, all server tools, and the tools that the rule's `tools`
 * match. Of MCP it covers the tools whose calls the rule matches; if the rule has `arguments`, with
 * the values that these look at. Of a batch it covers the other tools and methods as well. */
#ifndef RULES_CALL_ASKED_H
#define RULES_CALL_ASKED_H

#include <stdbool.h>

#include "rules/rules.h"

enum { CALL_ASKED_MAX = 16, CALL_ASKED_DIGEST = 2 * 32 + 1 };

/* The first names of a kind. They borrow from the call. */
struct call_asked_names {
	const char *names[CALL_ASKED_MAX];
	unsigned count;
	bool more; /* there are others */
};

struct call_asked {
	unsigned api;	   /* 0: the rule reads no calls, and the rest is not valid */
	const char *model; /* "" if it is none; borrowed */
	/* Tools that a model is offered, or that are called; those that the rule is about come
	 * first. Methods of MCP that call no tool. */
	struct call_asked_names tools, server_tools, methods;
	char digest[CALL_ASKED_DIGEST]; /* SHA-256 as hexadecimal digits */
};

/* rule: the one that asks, or NULL. call: what it matched, or NULL. Returns 0 or -ENOMEM. */
int call_asked_make(const struct rules_rule *rule, const struct call *call, struct call_asked *ret);

#endif
