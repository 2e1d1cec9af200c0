/* The options of create, run and network that say what a sandbox may reach. */
#ifndef CLI_NETWORK_OPTIONS_H
#define CLI_NETWORK_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"

#define NETWORK_EVERYTHING "0.0.0.0/0"

struct network_options {
	const char *word; /* "on", "off" or a list of what is allowed; NULL: not given */
	struct option_list allow, deny, allow_in;
	const char *policy;  /* a file; NULL: none */
	const char *waiting; /* how it waits for people (docs/consent.md); NULL: not given */
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

#define CLI_OPTION_WAITING(type)                                                                   \
	{                                                                                          \
		"while-waiting", 0, OPTION_STRING, "run|freeze|pause",                             \
			"what it does while a rule of --policy asks a person (run)",               \
			offsetof(type, network.waiting), 0, 0, false                               \
	}

/* Makes the body of PUT /sandboxes/{id}/network. *ret stays NULL if no option was given. The daemon
 * checks names and addresses. Fails with ERROR_USAGE if options contradict each other. */
int network_options_body(const struct network_options *o, json_t **ret, struct error *e);

/* Adds the result of network_options_body() to the body of POST /v2/sandboxes. */
void network_options_add(const json_t *network, json_t *body);

/* Whether the network object denies everything. */
bool network_options_is_off(const json_t *network);

#endif
