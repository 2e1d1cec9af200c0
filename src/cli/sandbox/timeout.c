/* `mayfly timeout`: another life for a sandbox that runs. */
#include <errno.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/sandbox/states.h"

static const struct option_spec options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

/* Seconds, rounded up. */
static int parse(const char *text, uint64_t *ret_s, struct error *e)
{
	uint64_t ns;

	if (str_parse_duration_ns(text, &ns) < 0 || ns > INT32_MAX * NS_PER_S)
		return error_set(e, ERROR_USAGE, EINVAL,
			"'%s': expected a duration such as 30s, 5m or 2h", text);
	*ret_s = (ns + NS_PER_S - 1) / NS_PER_S;
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	uint64_t s = 0;
	int r = states_check_count(
		argc, 2, 2, "give the id of a sandbox and a time: mayfly timeout ID TIME", e);

	if (r == 0)
		r = parse(argv[1], &s, e);
	return r < 0 ? r
		     : states_post(argv[0], "timeout", json_pack("{s:I}", "timeout", (json_int_t)s),
			       NULL, e);
}

const struct cli_verb cli_verb_timeout = {
	.name = "timeout",
	.arguments = "ID TIME",
	.summary = "Set how long a sandbox goes on",
	.description = "The time counts from now, and may be longer or shorter than the rest. The "
		       "key's maximum\n"
		       "applies. TIME is a number of seconds, or a duration such as 30s, 5m or 2h.",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
