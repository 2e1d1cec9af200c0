/* `mayfly ps`: the running sandboxes. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "daemon/sandbox_dir.h"
#include "image/home.h"
#include "vmm/launch.h"

enum { COMMAND_COLUMNS = 60, REPLY_MAX = 256 };

struct ps_options {
	struct cli_common common;
	bool quiet;
};

static const struct option_spec options[] = {
	{"quiet", 'q', OPTION_FLAG, NULL, "print ids only", offsetof(struct ps_options, quiet), 0,
		0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct listing {
	struct sandbox_dirs dirs;
	struct sandbox_record *records;
	size_t count;
};

/* "running", "paused" or "ended", as its microVM says; "?" when it does not answer. */
static const char *status_of(const struct listing *l, const char *id)
{
	static const char *const words[] = {"running", "paused", "ended"};
	_cleanup_close_ int fd = sandbox_open_dir(&l->dirs, id, NULL);
	char reply[REPLY_MAX];

	if (fd < 0 || vmm_request(fd, "status", reply, sizeof(reply), NULL) < 0)
		return "?";
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_starts_with(reply, words[i]))
			return words[i];
	return "?";
}

static json_t *to_json(const struct listing *l)
{
	json_t *list = json_array();

	for (size_t i = 0; i < l->count; i++) {
		const struct sandbox_record *r = &l->records[i];

		/* a missing entry shows as a missing entry */
		(void)json_array_append_new(list,
			json_pack("{s:s, s:o, s:s, s:o, s:i, s:I, s:I, s:o, s:i, s:i, s:O*}", "id",
				r->id, "template", json_text(r->template ? r->template : ""),
				"status", status_of(l, r->id), "created", json_time(r->created_ns),
				"cpus", (int)r->cpus, "memory_bytes", (json_int_t)r->memory_bytes,
				"disk_bytes", (json_int_t)r->disk_bytes, "command",
				json_text(r->command ? r->command : ""), "owner_pid",
				(int)r->owner_pid, "vmm_pid", (int)r->vmm_pid, "metadata",
				r->metadata));
	}
	return list;
}

static int print_table(const struct listing *l, struct error *e)
{
	static const char *const heading[] = {
		"ID", "TEMPLATE", "STATUS", "AGE", "CPUS", "MEMORY", "COMMAND"};
	struct table t = {.columns = ARRAY_SIZE(heading)};

	table_add(&t, heading);
	for (size_t i = 0; i < l->count; i++) {
		const struct sandbox_record *r = &l->records[i];
		char age[TABLE_AGE_BYTES], cpus[16], memory[16], command[COMMAND_COLUMNS + 1];
		const char *const row[] = {r->id, r->template ? r->template : "-",
			status_of(l, r->id), table_age(r->created_ns, age), cpus,
			str_format_bytes(r->memory_bytes, memory), command};

		(void)snprintf(cpus, sizeof(cpus), "%u", r->cpus);
		(void)snprintf(command, sizeof(command), "%s", r->command ? r->command : "");
		table_add(&t, row);
	}
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int print(const struct listing *l, const struct ps_options *o, struct error *e)
{
	if (o->common.json)
		return json_print(to_json(l), e);
	if (!o->quiet)
		return print_table(l, e);
	for (size_t i = 0; i < l->count; i++)
		printf("%s\n", l->records[i].id);
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct ps_options *o = values;
	struct listing l = {.dirs = SANDBOX_DIRS_INIT};
	struct home home = HOME_INIT;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r == 0)
		r = sandbox_dirs_open(home.path, &l.dirs, e);
	if (r == 0) {
		sandbox_dirs_collect(&l.dirs);
		r = sandbox_list(&l.dirs, &l.records, &l.count, e);
	}
	if (r == 0)
		r = print(&l, o, e);
	sandbox_list_free(l.records, l.count);
	sandbox_dirs_close(&l.dirs);
	home_close(&home);
	return r;
}

const struct cli_verb cli_verb_ps = {
	.name = "ps",
	.arguments = "",
	.summary = "List the running sandboxes",
	.options = options,
	.values_bytes = sizeof(struct ps_options),
	.run = run,
};
