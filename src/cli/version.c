/* `mayfly version`. */
#include <jansson.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "config.h"
#include "proto/agent_wire.h"
#include "proto/snapshot.h"

#ifndef MAYFLY_COMMIT
#define MAYFLY_COMMIT "" /* not built from a repository */
#endif

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	int r = cli_no_arguments(argc, argv, e);

	if (r < 0)
		return r;
	if (o->json)
		return json_print(
			json_pack("{s:s, s:s, s:i, s:i}", "version", MAYFLY_VERSION, "commit",
				MAYFLY_COMMIT, "agent_protocol", AGENT_PROTOCOL_VERSION,
				"snapshot_format", SNAPSHOT_VERSION),
			e);
	printf("mayfly %s%s%s%s\n", MAYFLY_VERSION, *MAYFLY_COMMIT ? " (" : "", MAYFLY_COMMIT,
		*MAYFLY_COMMIT ? ")" : "");
	printf("agent protocol %d\n", AGENT_PROTOCOL_VERSION);
	printf("snapshot format %d\n", SNAPSHOT_VERSION);
	return 0;
}

static const struct option_spec options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_version = {
	.name = "version",
	.arguments = "",
	.summary = "Print the versions of the program, the agent protocol and the snapshot format",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
