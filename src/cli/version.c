/* `mayfly version`. */
#include <errno.h>
#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/components.h"
#include "cli/json.h"
#include "cli/table.h"
#include "config.h"
#include "proto/agent_wire.h"
#include "proto/snapshot.h"

#ifndef MAYFLY_COMMIT
#define MAYFLY_COMMIT "" /* not built from a repository */
#endif

struct version_options {
	struct cli_common common;
	bool all;
};

static json_t *components_to_json(void)
{
	json_t *list = json_array();

	for (size_t i = 0; i < component_count; i++)
		/* a missing entry shows as a missing one */
		(void)json_array_append_new(list,
			json_pack("{s:s, s:s, s:s, s:s}", "program", components[i].program,
				"library", components[i].library, "version", components[i].version,
				"link", components[i].is_static ? "static" : "dynamic"));
	return list;
}

static int print_components(struct error *e)
{
	struct table t = {.columns = 4};

	table_add(&t, (const char *[]){"PROGRAM", "LIBRARY", "VERSION", "LINKED"});
	for (size_t i = 0; i < component_count; i++)
		table_add(&t, (const char *[]){components[i].program, components[i].library,
				      components[i].version,
				      components[i].is_static ? "static" : "dynamic"});
	printf("\n");
	return table_print(&t) < 0 ? error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory") : 0;
}

static int print_json(bool all, struct error *e)
{
	json_t *out = json_pack("{s:s, s:s, s:i, s:i}", "version", MAYFLY_VERSION, "commit",
		MAYFLY_COMMIT, "agent_protocol", AGENT_PROTOCOL_VERSION, "snapshot_format",
		SNAPSHOT_VERSION);

	if (all && out && json_object_set_new(out, "libraries", components_to_json()) < 0) {
		json_decref(out);
		out = NULL;
	}
	return json_print(out, e);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct version_options *o = values;
	int r = cli_no_arguments(argc, argv, e);

	if (r < 0)
		return r;
	if (o->common.json)
		return print_json(o->all, e);
	printf("mayfly %s%s%s%s\n", MAYFLY_VERSION, *MAYFLY_COMMIT ? " (" : "", MAYFLY_COMMIT,
		*MAYFLY_COMMIT ? ")" : "");
	printf("agent protocol %d\n", AGENT_PROTOCOL_VERSION);
	printf("snapshot format %d\n", SNAPSHOT_VERSION);
	return o->all ? print_components(e) : 0;
}

static const struct option_spec options[] = {
	{"all", 'a', OPTION_FLAG, NULL, "also the libraries in each program, and their versions",
		offsetof(struct version_options, all), 0, 0, false},
	CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_version = {
	.name = "version",
	.arguments = "",
	.summary = "Print the versions of the program, the agent protocol and the snapshot format",
	.options = options,
	.values_bytes = sizeof(struct version_options),
	.run = run,
};
