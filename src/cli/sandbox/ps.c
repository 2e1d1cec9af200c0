/* `mayfly ps`: lists the sandboxes of this host. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/known.h"
#include "cli/sandbox/filter.h"
#include "cli/sandbox/row.h"
#include "cli/table.h"

enum { COMMAND_COLUMNS = 60 };

struct ps_options {
	struct cli_common common;
	struct filter filter;
	bool quiet;
};

static const struct option_spec options[] = {
	{"all", 'a', OPTION_FLAG, NULL, "paused ones too", offsetof(struct ps_options, filter.all),
		0, 0, false},
	CLI_OPTION_FILTER(struct ps_options),
	{"quiet", 'q', OPTION_FLAG, NULL, "print ids only", offsetof(struct ps_options, quiet), 0,
		0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct listing {
	const struct known *known;
	const struct ps_options *options;
	json_t *list; /* with --json */
	struct table table;
};

static void add_row(struct listing *l, const struct row *r)
{
	const char *template = row_template(r), *key = row_key(r);
	char age[TABLE_AGE_BYTES], ends[TABLE_AGE_BYTES], cpus[16], memory[16],
		command[COMMAND_COLUMNS + 1];
	const char *const cells[] = {r->id, *template ? template : "-", *key ? key : "-",
		row_status(r), table_age(row_created_ns(r), age), table_until(row_ends_ns(r), ends),
		cpus, str_format_bytes(row_memory_bytes(r), memory), command};

	(void)snprintf(cpus, sizeof(cpus), "%u", row_cpus(r));
	(void)snprintf(command, sizeof(command), "%s", row_command(r)); /* may be cut */
	table_add(&l->table, cells);
}

static int add(void *arg, const char *id)
{
	struct listing *l = arg;
	const struct row r = row_of(l->known, id);

	if (!filter_selects(&l->options->filter, &r))
		return 0;
	if (l->list)
		(void)json_array_append_new(l->list, row_json(&r)); /* shows as missing */
	else if (l->options->quiet)
		printf("%s\n", id);
	else
		add_row(l, &r);
	return 0;
}

static int print(const struct known *k, const struct ps_options *o, struct error *e)
{
	static const char *const heading[] = {
		"ID", "TEMPLATE", "KEY", "STATUS", "AGE", "ENDS IN", "CPUS", "MEMORY", "COMMAND"};
	struct listing l = {.known = k, .options = o, .table = {.columns = ARRAY_SIZE(heading)}};

	if (o->common.json)
		l.list = json_array();
	else if (!o->quiet)
		table_add(&l.table, heading);
	(void)known_each(k, add, &l); /* goes through all */
	if (l.list)
		return json_print(l.list, e);
	return table_print(&l.table) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
					 : 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct known k = KNOWN_INIT;
	const struct ps_options *o = values;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = filter_check(&o->filter, e);
	if (r == 0)
		r = known_open(&k, e);
	if (r == 0)
		r = print(&k, o, e);
	known_close(&k);
	return r;
}

const struct cli_verb cli_verb_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "List the running sandboxes",
	.description = "Lists those of all keys, and those of mayfly run. KEY is the name of the "
		       "API key that made\nthe sandbox.",
	.options = options,
	.values_bytes = sizeof(struct ps_options),
	.run = run,
};
