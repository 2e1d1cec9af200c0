/* The settings of a hosted agent (docs/agents.md): an object, as in `agent.json`, in a request's
 * query, or in its body.
 *
 *	runtime		"node-20", "python-3.12", "deno" or "base"
 *	entry		command that starts the program
 *	install		command that installs what it needs
 *	protocol	"stdin" or "http"
 *	cpus		number
 *	memory, disk	numbers of MB, or texts as "2G"
 *	timeout		seconds, or a text as "120s"
 *	env		object of texts
 *	secrets		as `secrets` of a sandbox's creation
 *
 * All may be missing. */
#ifndef PROTO_AGENT_SETTINGS_H
#define PROTO_AGENT_SETTINGS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	AGENT_SETTING_COMMAND_MAX = 4096,
	AGENT_SETTING_ENV_MAX = 16 * 1024, /* as JSON */
	AGENT_SETTING_SECRETS_MAX = 8 * 1024,
	AGENT_SETTING_SECRETS = 16,
	AGENT_SETTING_PORT = 8080, /* $PORT of programs that listen */
	AGENT_SETTING_CPUS = 2,	   /* defaults */
	AGENT_SETTING_MEMORY_MB = 2048,
	AGENT_SETTING_DISK_MB = 10240,
	AGENT_SETTING_TIMEOUT_S = 120,
	AGENT_SETTING_TIMEOUT_MAX_S = 86400,
};

/* Whether it can be a command: one line of 1 to AGENT_SETTING_COMMAND_MAX bytes. */
bool agent_settings_is_command(const char *s);

/* ERROR_USAGE names the member. */
int agent_settings_check(const json_t *settings, struct error *e);

/* Members of `from` that are missing in `into`; of env and secrets, each name for itself. -ENOMEM.
 */
int agent_settings_merge(json_t *into, const json_t *from);

struct agent_sizes {
	uint32_t cpus, memory_mb, disk_mb, timeout_s;
};

/* Of settings that were checked, with the defaults. */
struct agent_sizes agent_settings_sizes(const json_t *settings);

#endif
