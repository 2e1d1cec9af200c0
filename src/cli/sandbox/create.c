/* `mayfly create`: makes a sandbox of the daemon that outlives this command. */
#include "cli/sandbox/create.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/remote/remote.h"
#include "cli/sandbox/identity_options.h"
#include "cli/sandbox/network_options.h"
#include "cli/sandbox/secret_options.h"
#include "sandbox/sandbox.h"

#define MIB UINT64_C(0x100000)

enum { LIFE_DEFAULT_S = 300 };

struct create_options {
	struct cli_common common;
	const char *template;
	uint64_t timeout, cpus, memory, disk;
	struct option_list env, metadata;
	bool auto_pause, auto_resume;
	struct network_options network;
	struct option_list secrets, identities, files_outside;
};

static const struct create_options defaults = {
	.template = "base", .timeout = LIFE_DEFAULT_S * NS_PER_S};

static const struct option_spec options[] = {
	{"template", 'T', OPTION_STRING, "NAME", "template to make it from (default base)",
		offsetof(struct create_options, template), 0, 0, false},
	{"timeout", 0, OPTION_DURATION, "TIME", "its life, from now on (default 5m)",
		offsetof(struct create_options, timeout), NS_PER_S, INT32_MAX *NS_PER_S, false},
	{"cpus", 0, OPTION_NUMBER, "N", "CPUs, 1 to 4 (default: the template's)",
		offsetof(struct create_options, cpus), 1, SANDBOX_CPUS_MAX, false},
	{"memory", 0, OPTION_BYTES, "SIZE", "memory, 128M to 4G (default: the template's)",
		offsetof(struct create_options, memory), SANDBOX_MEMORY_MB_MIN *MIB,
		SANDBOX_MEMORY_MB_MAX *MIB, false},
	{"disk", 0, OPTION_BYTES, "SIZE",
		"size of the root disk, up to 10G (default: the template's)",
		offsetof(struct create_options, disk), MIB, SANDBOX_DISK_MB_MAX *MIB, false},
	{"env", 'e', OPTION_LIST, "NAME[=VALUE]",
		"set a variable for all its commands, or pass this environment's (repeatable)",
		offsetof(struct create_options, env), 0, 0, false},
	{"metadata", 0, OPTION_LIST, "KEY=VALUE", "to be found by (repeatable)",
		offsetof(struct create_options, metadata), 0, 0, false},
	{"auto-pause", 0, OPTION_FLAG, NULL, "pause it when its time is over, instead of ending it",
		offsetof(struct create_options, auto_pause), 0, 0, false},
	{"auto-resume", 0, OPTION_FLAG, NULL, "resume it from a pause when it is used",
		offsetof(struct create_options, auto_resume), 0, 0, false},
	CLI_OPTION_NETWORK(struct create_options),
	CLI_OPTION_ALLOW(struct create_options),
	CLI_OPTION_ALLOW_IN(struct create_options),
	CLI_OPTION_DENY(struct create_options),
	CLI_OPTION_POLICY(struct create_options),
	CLI_OPTION_WAITING(struct create_options),
	CLI_OPTION_SECRET(struct create_options),
	CLI_OPTION_IDENTITY(struct create_options),
	{"record-files-outside", 0, OPTION_LIST, "DIR",
		"mayfly activity shows which files programs write outside DIR (repeatable)",
		offsetof(struct create_options, files_outside), 0, 0, false},
	CLI_OPTION_NO_TTY,
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

json_t *create_body(const struct create_order *o)
{
	json_t *body = json_pack("{s:s, s:I, s:O*, s:O*, s:O*, s:O*, s:O*}", "templateID",
		o->template, "timeout", (json_int_t)((o->timeout_ns + NS_PER_S - 1) / NS_PER_S),
		"envVars", o->env, "metadata", o->metadata, "secrets", o->secrets, "iam", o->iam,
		"recordFilesOutside", o->files_outside);
	const struct {
		const char *name;
		uint64_t value;
	} sizes[] = {{"cpuCount", o->cpus}, {"memoryMB", o->memory / MIB},
		{"diskSizeMB", o->disk / MIB}};

	for (size_t i = 0; body && i < ARRAY_SIZE(sizes); i++)
		if (sizes[i].value)
			(void)json_object_set_new(body, sizes[i].name,
				json_integer((json_int_t)sizes[i].value)); /* else the template's */
	/* what is missing shows in mayfly inspect */
	if (body && o->auto_pause)
		(void)json_object_set_new(body, "autoPause", json_true());
	if (body && o->auto_resume)
		(void)json_object_set_new(body, "autoResume", json_pack("{s:b}", "enabled", true));
	if (body && o->network)
		network_options_add(o->network, body);
	return body;
}

static int create(
	const struct create_order *order, char id[ROUTE_SANDBOX_ID_MAX + 1], struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	int r = client_open_default(&c, e);

	return r < 0 ? r : remote_create(c, order->env ? create_body(order) : NULL, id, e);
}

static json_t *list_of(const struct option_list *list)
{
	json_t *array = list->count ? json_array() : NULL;

	for (unsigned i = 0; array && i < list->count; i++)
		(void)json_array_append_new(array, json_string(list->items[i]));
	return array;
}

/* What is JSON in the order is to be freed in any case. */
static int make_order(const struct create_options *o, const struct environment *env,
	struct create_order *ret, struct error *e)
{
	json_t *network = NULL;
	int r = environment_pairs(&o->metadata, "--metadata", &ret->metadata, e);

	if (r == 0)
		r = network_options_body(&o->network, &network, e);
	if (r == 0)
		r = secret_options_body(&o->secrets, &ret->secrets, e);
	if (r == 0)
		r = identity_options_body(&o->identities, &ret->iam, &network, e);
	ret->network = network;
	ret->files_outside = list_of(&o->files_outside);
	ret->env = environment_json(env);
	return r;
}

static void free_order(struct create_order *o)
{
	json_decref(o->env);
	json_decref(o->metadata);
	json_decref((json_t *)o->network);
	json_decref(o->secrets);
	json_decref(o->iam);
	json_decref(o->files_outside);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct create_options *o = values;
	struct environment env = {.count = 0};
	struct create_order order = {.template = o->template,
		.timeout_ns = o->timeout,
		.cpus = o->cpus,
		.memory = o->memory,
		.disk = o->disk,
		.auto_pause = o->auto_pause,
		.auto_resume = o->auto_resume};
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0 && (o->memory % MIB || o->disk % MIB))
		r = error_set(e, ERROR_USAGE, EINVAL, "--memory and --disk: whole MB only");
	if (r == 0)
		r = environment_read(&o->env, &env, e);
	if (r == 0)
		r = make_order(o, &env, &order, e);
	if (r == 0)
		r = create(&order, id, e);
	environment_done(&env);
	free_order(&order);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(json_pack("{s:s}", "id", id), e);
	printf("%s\n", id);
	return 0;
}

const struct cli_verb cli_verb_create = {
	.name = "create",
	.arguments = "",
	.summary = "Make a sandbox that stays",
	.description = "Prints its id. Needs this host's daemon (mayfly serve). The sandbox runs "
		       "until its time is\n"
		       "over or mayfly kill ends it, even if the daemon ends first. Use it with "
		       "mayfly exec, shell,\n"
		       "cp, ls and port.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct create_options),
	.run = run,
};
