/* `mayfly fork`: makes sandboxes that continue from another one's current state. */
#include <errno.h>
#include <stdio.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/sandbox/states.h"

enum { COUNT_MAX = 100, LIFE_DEFAULT_S = 300 };

struct fork_options {
	struct cli_common common;
	uint64_t count, timeout;
};

static const struct fork_options defaults = {.count = 1, .timeout = LIFE_DEFAULT_S * NS_PER_S};

static const struct option_spec options[] = {
	{"count", 'n', OPTION_NUMBER, "N", "how many, 1 to 100 (default 1)",
		offsetof(struct fork_options, count), 1, COUNT_MAX, false},
	{"timeout", 0, OPTION_DURATION, "TIME", "their life from now on (default 5m)",
		offsetof(struct fork_options, timeout), NS_PER_S, INT32_MAX *NS_PER_S, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int print_ids(const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one) printf("%s\n",
		json_string_value(json_object_get(json_object_get(one, "sandbox"), "sandboxID")));
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct fork_options *o = values;
	json_t *list = NULL;
	int r = states_check_count(argc, 1, 1, "give the id of a sandbox: mayfly fork ID", e);

	if (r == 0)
		r = states_post(argv[0], "fork",
			json_pack("{s:I, s:I}", "count", (json_int_t)o->count, "timeout",
				(json_int_t)((o->timeout + NS_PER_S - 1) / NS_PER_S)),
			&list, e);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(list, e);
	r = print_ids(list);
	json_decref(list);
	return r;
}

const struct cli_verb cli_verb_fork = {
	.name = "fork",
	.arguments = "ID",
	.summary = "Make sandboxes that continue from another one's state",
	.description =
		"Makes all of them or none. Each has its own id, host name, entropy and tokens. "
		"The\n"
		"processes of the first one go on in all of them. It stops for milliseconds only.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct fork_options),
	.run = run,
};
