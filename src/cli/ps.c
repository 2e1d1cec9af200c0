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
#include "cli/known.h"
#include "cli/remote.h"
#include "cli/table.h"
#include "proto/timestamp.h"
#include "sandbox/launch.h"

#define MIB (UINT64_C(1) << 20)

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

/* One sandbox, of whatever is known about it. */
struct row {
	const char *id;
	const struct sandbox_record *record; /* or NULL */
	const json_t *served;		     /* the daemon's word, or NULL */
};

static struct row row_of(const struct known *k, const char *id)
{
	return (struct row){id, known_record(k, id), known_served(k, id)};
}

static const char *served_text(const struct row *r, const char *name)
{
	return json_string_value(json_object_get(r->served, name));
}

static uint64_t served_time(const struct row *r, const char *name)
{
	const char *text = served_text(r, name);
	uint64_t ns = 0;

	return text && timestamp_parse_ns(text, &ns) == 0 ? ns : 0;
}

static uint64_t served_size(const struct row *r, const char *name)
{
	return (uint64_t)json_integer_value(json_object_get(r->served, name)) * MIB;
}

static const char *template_of(const struct row *r)
{
	const char *name = r->record ? r->record->template : served_text(r, "alias");

	return name ? name : "";
}

/* A run through the daemon notes its command where the daemon keeps it. */
static const char *command_of(const struct row *r)
{
	const json_t *metadata = json_object_get(r->served, "metadata");
	const char *command = json_string_value(json_object_get(metadata, REMOTE_COMMAND_METADATA));

	if (!command && r->record)
		command = r->record->command;
	return command ? command : "";
}

/* "running", "paused" or "ended", as the daemon or the microVM says; "?" when it does not answer.
 */
static const char *status_of(const struct known *k, const struct row *r)
{
	static const char *const words[] = {"running", "paused", "ended"};
	const char *state = served_text(r, "state");
	_cleanup_close_ int fd = state ? -1 : sandbox_open_dir(&k->dirs, r->id, NULL);
	char reply[REPLY_MAX];

	if (state)
		return state;
	if (fd < 0 || vmm_request(fd, "status", reply, sizeof(reply), NULL) < 0)
		return "?";
	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (str_starts_with(reply, words[i]))
			return words[i];
	return "?";
}

static uint64_t created_of(const struct row *r)
{
	return r->served ? served_time(r, "startedAt") : r->record->created_ns;
}

static unsigned cpus_of(const struct row *r)
{
	return r->served ? (unsigned)json_integer_value(json_object_get(r->served, "cpuCount"))
			 : r->record->cpus;
}

static uint64_t memory_of(const struct row *r)
{
	return r->served ? served_size(r, "memoryMB") : r->record->memory_bytes;
}

struct listing {
	const struct known *known;
	json_t *list;
	struct table table;
};

static int add_json(void *arg, const char *id)
{
	struct listing *l = arg;
	const struct row r = row_of(l->known, id);
	uint64_t disk = r.served ? served_size(&r, "diskSizeMB") : r.record->disk_bytes;
	json_t *metadata = r.served ? json_object_get(r.served, "metadata") : r.record->metadata;
	json_t *one = json_pack("{s:s, s:o, s:s, s:o, s:i, s:I, s:I, s:o, s:b, s:O*}", "id", id,
		"template", json_text(template_of(&r)), "status", status_of(l->known, &r),
		"created", json_time(created_of(&r)), "cpus", (int)cpus_of(&r), "memory_bytes",
		(json_int_t)memory_of(&r), "disk_bytes", (json_int_t)disk, "command",
		json_text(command_of(&r)), "daemon", r.served != NULL, "metadata", metadata);

	/* a missing entry shows as a missing entry */
	if (r.served)
		(void)json_object_set_new(one, "ends", json_time(served_time(&r, "endAt")));
	if (r.record) {
		(void)json_object_set_new(one, "owner_pid", json_integer(r.record->owner_pid));
		(void)json_object_set_new(one, "vmm_pid", json_integer(r.record->vmm_pid));
	}
	(void)json_array_append_new(l->list, one);
	return 0;
}

static int add_row(void *arg, const char *id)
{
	struct listing *l = arg;
	const struct row r = row_of(l->known, id);
	char age[TABLE_AGE_BYTES], ends[TABLE_AGE_BYTES] = "-", cpus[16], memory[16],
				   command[COMMAND_COLUMNS + 1];
	const char *const cells[] = {id, *template_of(&r) ? template_of(&r) : "-",
		status_of(l->known, &r), table_age(created_of(&r), age), ends, cpus,
		str_format_bytes(memory_of(&r), memory), command};

	if (r.served)
		(void)table_until(served_time(&r, "endAt"), ends); /* returns it */
	(void)snprintf(cpus, sizeof(cpus), "%u", cpus_of(&r));
	(void)snprintf(command, sizeof(command), "%s", command_of(&r));
	table_add(&l->table, cells);
	return 0;
}

static int add_id(void *arg, const char *id)
{
	return printf("%s\n", id) < 0 ? -EIO : 0;
}

static int print(const struct known *k, const struct ps_options *o, struct error *e)
{
	static const char *const heading[] = {
		"ID", "TEMPLATE", "STATUS", "AGE", "ENDS IN", "CPUS", "MEMORY", "COMMAND"};
	struct listing l = {.known = k, .table = {.columns = ARRAY_SIZE(heading)}};

	if (o->common.json) {
		l.list = json_array();
		(void)known_each(k, add_json, &l); /* goes through all, as the next two */
		return json_print(l.list, e);
	}
	if (o->quiet) {
		(void)known_each(k, add_id, NULL); /* a failing output shows at exit */
		return 0;
	}
	table_add(&l.table, heading);
	(void)known_each(k, add_row, &l);
	return table_print(&l.table) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory")
					 : 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct known k = KNOWN_INIT;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = known_open(&k, e);
	if (r == 0)
		r = print(&k, values, e);
	known_close(&k);
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
