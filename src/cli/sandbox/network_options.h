/* What a sandbox may reach, as options of create, run and network. */
#ifndef CLI_NETWORK_OPTIONS_H
#define CLI_NETWORK_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"

struct network_options {
	const char *word; /* "on", "off" or a list of what is allowed; NULL: not given */
	struct option_list allow, deny, allow_in;
	const char *policy; /* a file; NULL: none */
};

/* The type has a struct network_options `network`. */
#define CLI_OPTION_NETWORK(type)                                                                   \
	{                                                                                          \
		"network", 0, OPTION_STRING, "on|off|HOST,...",                                    \
			"what it may reach: anything, nothing, or only these names and addresses", \
			offsetof(type, network.word), 0, 0, false                                  \
	}
#define CLI_OPTION_ALLOW(type)                                                                     \
	{                                                                                          \
		"allow", 0, OPTION_LIST, "HOST[:PORT]",                                            \
			"it may reach this and nothing else; with --deny, although denied "        \
			"(repeatable)",                                                            \
			offsetof(type, network.allow), 0, 0, false                                 \
	}
#define CLI_OPTION_DENY(type)                                                                      \
	{                                                                                          \
		"deny", 0, OPTION_LIST, "CIDR", "it may not reach this range (repeatable)",        \
			offsetof(type, network.deny), 0, 0, false                                  \
	}

#define CLI_OPTION_ALLOW_IN(type)                                                                  \
	{                                                                                          \
		"allow-in", 0, OPTION_LIST, "SANDBOX[:PORT]",                                      \
			"this sandbox of the same key may connect to it: *, an id or a metadata "  \
			"name (repeatable)",                                                       \
			offsetof(type, network.allow_in), 0, 0, false                              \
	}

#define CLI_OPTION_POLICY(type)                                                                    \
	{                                                                                          \
		"policy", 0, OPTION_STRING, "FILE",                                                \
			"rules for its connections and requests: see mayfly policy --help",        \
			offsetof(type, network.policy), 0, 0, false                                \
	}

/* The body of PUT /sandboxes/{id}/network; *ret stays NULL if no option was given. The daemon
 * checks names and addresses. ERROR_USAGE if options contradict each other. */
int network_options_body(const struct network_options *o, json_t **ret, struct error *e);

/* Adds what that returned to the body of POST /v2/sandboxes. */
void network_options_add(const json_t *network, json_t *body);

/* Whether it denies everything. */
bool network_options_is_off(const json_t *network);

#endif
