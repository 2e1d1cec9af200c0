/* `mayfly checkpoint`, `mayfly rollback`, `mayfly snapshot`: kept states of sandboxes. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/remote.h"
#include "cli/sandbox/states.h"
#include "cli/table.h"
#include "proto/json_tree.h"
#include "proto/timestamp.h"
#include "proto/uri.h"

enum { TARGET_MAX = 4096 };

/* --- checkpoint --- */

static const struct option_spec checkpoint_options[] = {
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int checkpoint_run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	json_t *answer = NULL;
	int r = states_check_count(
		argc, 1, 2, "give the id of a sandbox: mayfly checkpoint ID [NAME[:TAG]]", e);

	if (r == 0)
		r = states_post(argv[0], "snapshots",
			json_pack("{s:s*}", "name", argc > 1 ? argv[1] : NULL), &answer, e);
	if (r < 0)
		return r;
	if (o->json)
		return json_print(answer, e);
	printf("%s\n", json_tree_text(answer, "snapshotID"));
	json_decref(answer);
	return 0;
}

const struct cli_verb cli_verb_checkpoint = {
	.name = "checkpoint",
	.arguments = "ID [NAME[:TAG]]",
	.summary = "Keep the state of a running sandbox",
	.description = "The sandbox goes on after milliseconds. Prints the name of the state, for "
		       "mayfly rollback\n"
		       "or as the template of mayfly create. mayfly snapshot ls lists the states.",
	.options = checkpoint_options,
	.values_bytes = sizeof(struct cli_common),
	.run = checkpoint_run,
};

/* --- rollback --- */

static const struct option_spec plain_options[] = {
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int rollback_run(void *values, int argc, char **argv, struct error *e)
{
	int r = states_check_count(argc, 2, 2,
		"give the id of a sandbox and a snapshot of it: mayfly rollback ID SNAPSHOT", e);

	return r < 0 ? r
		     : states_post(argv[0], "rollback", json_pack("{s:s}", "snapshotID", argv[1]),
			       NULL, e);
}

const struct cli_verb cli_verb_rollback = {
	.name = "rollback",
	.arguments = "ID SNAPSHOT",
	.summary = "Take a sandbox back to a checkpoint of it",
	.description =
		"Memory, processes and disks are as they were then. All later changes are lost.",
	.options = plain_options,
	.values_bytes = sizeof(struct cli_common),
	.run = rollback_run,
};

/* --- snapshot ls, rm --- */

static int print_snapshots(const json_t *list, struct error *e)
{
	static const char *const heading[] = {"SNAPSHOT", "SANDBOX", "AGE", "SIZE"};
	struct table t = {.columns = ARRAY_SIZE(heading)};
	const json_t *one;
	size_t i;

	table_add(&t, heading);
	json_array_foreach(list, i, one)
	{
		char size[16], age[TABLE_AGE_BYTES];
		uint64_t made_ns = 0;
		const char *const cells[] = {json_tree_text(one, "snapshotID"),
			json_tree_text(one, "sandboxID"), age, size};

		(void)timestamp_parse_ns(
			json_tree_text(one, "createdAt"), &made_ns); /* else very old */
		(void)table_age(made_ns, age);
		(void)str_format_bytes(
			(uint64_t)json_integer_value(json_object_get(one, "sizeBytes")), size);
		table_add(&t, cells);
	}
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int list_all(json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = remote_try_pages(&home, "/snapshots", ret, e);
	if (r == -ECONNREFUSED)
		r = client_no_daemon(&home, e);
	home_close(&home);
	return r;
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	json_t *list = NULL;
	int r = states_check_count(argc, 0, 0, "mayfly snapshot ls takes no arguments", e);

	if (r == 0)
		r = list_all(&list, e);
	if (r < 0)
		return r;
	if (o->json)
		return json_print(list, e);
	r = print_snapshots(list, e);
	json_decref(list);
	return r;
}

static int remove_one(const char *name, struct error *e)
{
	_cleanup_(buf_done) struct buf target = BUF_INIT(TARGET_MAX);

	if (buf_add_str(&target, "/templates/") < 0 ||
		uri_encode(&target, name, strlen(name)) < 0 || buf_add_u8(&target, 0) < 0)
		return error_set(e, ERROR_USAGE, EINVAL, "the name is too long");
	return states_ask("DELETE", (const char *)buf_head(&target), NULL, e);
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	int r = argc ? 0 : error_set(e, ERROR_USAGE, EINVAL, "give the names of snapshots");

	for (int i = 0; r == 0 && i < argc; i++)
		r = remove_one(argv[i], e);
	return r;
}

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List them, newest first",
	.description = "SIZE is the least that deleting it would free.",
	.options = checkpoint_options,
	.values_bytes = sizeof(struct cli_common),
	.run = ls_run,
};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "SNAPSHOT...",
	.summary = "Delete some",
	.description = "Sandboxes that were made from them go on.",
	.options = plain_options,
	.values_bytes = sizeof(struct cli_common),
	.run = rm_run,
};

static const struct cli_verb *const snapshot_verbs[] = {&ls_verb, &rm_verb, NULL};

const struct cli_verb cli_verb_snapshot = {
	.name = "snapshot",
	.arguments = "COMMAND",
	.summary = "Manage kept states of sandboxes",
	.options = plain_options,
	.values_bytes = sizeof(struct cli_common),
	.verbs = snapshot_verbs,
};
