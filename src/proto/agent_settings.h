/* Checks and merges the settings of a hosted agent (docs/agents.md). They are an object, found in
 * `agent.json`, in a request's query, or in its body. All members are optional:
 *
 *	runtime		the template to build on: "node-20", "python-3.12", "deno" or "base"
 *	entry		command that starts the program
 *	install		command that installs the dependencies
 *	protocol	"stdin" or "http"
 *	cpus		a number
 *	memory, disk	a number of MB, or a text such as "2G"
 *	start		"warm" or "cold"
 *	timeout		a number of seconds, or a text such as "120s"
 *	concurrency	a number of invocations that run at the same time
 *	env		object of texts
 *	secrets		as in the creation of a sandbox; or {"secret": NAME, "plain": true}: the
 *			program gets the value
 *	network, policy, allow_internet_access	likewise (agents/reach.h) */
#ifndef PROTO_AGENT_SETTINGS_H
#define PROTO_AGENT_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	AGENT_SETTING_COMMAND_MAX = 4096,
	AGENT_SETTING_NAME_MAX = 256,	   /* of a variable */
	AGENT_SETTING_ENTRY_MAX = 4096,	   /* NAME=VALUE in a snapshot */
	AGENT_SETTING_ENV_MAX = 16 * 1024, /* as JSON */
	AGENT_SETTING_SECRETS_MAX = 8 * 1024,
	AGENT_SETTING_SECRETS = 16,
	AGENT_SETTING_NETWORK_MAX = 32 * 1024, /* network and policy, each */
	AGENT_SETTING_PORT = 8080,	       /* $PORT of programs that listen */
	AGENT_SETTING_CPUS = 2,		       /* defaults */
	AGENT_SETTING_MEMORY_MB = 2048,
	AGENT_SETTING_DISK_MB = 10240,
	AGENT_SETTING_TIMEOUT_S = 120,
	AGENT_SETTING_TIMEOUT_MAX_S = 86400,
	AGENT_SETTING_CONCURRENCY = 64,
	AGENT_SETTING_CONCURRENCY_MAX = 1024,
};

/* Whether s can be a command: one line of 1 to AGENT_SETTING_COMMAND_MAX bytes. */
bool agent_settings_is_command(const char *s);

/* Whether a snapshot can have the variable: at most AGENT_SETTING_ENTRY_MAX bytes, and no control
 * characters but newline and tab. */
bool agent_settings_fits_snapshot(const char *name, const char *value);

/* Whether the program gets the value of this member of `secrets`. */
bool agent_settings_is_plain(const json_t *secret);
/* The members that are not plain, as a new object; NULL: out of memory. */
json_t *agent_settings_hidden(const json_t *secrets);

/* Fails with ERROR_USAGE; the message names the member. */
int agent_settings_check(const json_t *settings, struct error *e);

/* Adds members of `from` that `into` lacks. In env and secrets, single names are added. network,
 * policy and allow_internet_access are one: if `into` has any of them, none is added. Returns 0 or
 * -ENOMEM. */
int agent_settings_merge(json_t *into, const json_t *from);

struct agent_sizes {
	uint32_t cpus, memory_mb, disk_mb, timeout_s, concurrency;
};

/* Returns the sizes of checked settings; missing ones have their defaults. */
struct agent_sizes agent_settings_sizes(const json_t *settings);

#endif
