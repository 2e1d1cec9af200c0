/* `mayfly diff`: shows what differs between two states of a sandbox. */
#include <errno.h>
#include <stdio.h>

#include "cli/cli.h"
#include "cli/json.h"
#include "cli/sandbox/states.h"
#include "cli/table.h"
#include "proto/json_tree.h"

struct diff_options {
	struct cli_common common;
	const char *path;
};

static const struct option_spec options[] = {
	{"path", 0, OPTION_STRING, "DIR", "compare only what is below this directory",
		offsetof(struct diff_options, path), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* As docker diff has them: A, C, D. */
static char letter_of(const json_t *file)
{
	char c = json_tree_text(file, "change")[0];

	return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : '?';
}

static void print_tasks(const char *word, const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach(list, i, one)
	{
		printf("%s %lld ", word,
			(long long)json_integer_value(json_object_get(one, "pid")));
		table_print_name(json_tree_text(one, "command"));
	}
}

static void print_all(const json_t *answer)
{
	const json_t *files = json_object_get(answer, "files");
	const json_t *processes = json_object_get(answer, "processes"), *one;
	size_t i;

	json_array_foreach(files, i, one)
	{
		printf("%c ", letter_of(one));
		table_print_name(json_tree_text(one, "path"));
	}
	print_tasks("started", json_object_get(processes, "started"));
	print_tasks("ended", json_object_get(processes, "ended"));
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct diff_options *o = values;
	json_t *answer = NULL;
	bool cut;
	int r = states_check_count(argc, 2, 3,
		"give a sandbox and a snapshot, or two: mayfly diff ID SNAPSHOT [SNAPSHOT]", e);

	if (r == 0)
		r = states_post(argv[0], "diff",
			json_pack("{s:s, s:s*, s:s*}", "from", argv[1], "to",
				argc > 2 ? argv[2] : NULL, "path", o->path),
			&answer, e);
	if (r < 0)
		return r;
	cut = json_is_true(json_object_get(answer, "truncated"));
	if (o->common.json)
		return json_print(answer, e);
	print_all(answer);
	json_decref(answer);
	return cut ? error_set(e, ERROR_LIMIT, E2BIG, "there are too many differences: give --path")
		   : 0;
}

const struct cli_verb cli_verb_diff = {
	.name = "diff",
	.arguments = "ID SNAPSHOT [SNAPSHOT]",
	.summary = "Show what changed since a checkpoint, or between two",
	.description =
		"Lists files that were added (A), changed (C) or deleted (D), then processes that "
		"were\n"
		"started and ended. Without a second snapshot, compares with the present state.",
	.options = options,
	.values_bytes = sizeof(struct diff_options),
	.run = run,
};
