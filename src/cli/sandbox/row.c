#include "cli/sandbox/row.h"

#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/json.h"
#include "cli/remote/remote.h"
#include "proto/timestamp.h"
#include "sandbox/cgroup.h"
#include "sandbox/vmm_request.h"

#define MIB (UINT64_C(1) << 20)

enum { REPLY_MAX = 256 };

struct row row_of(const struct known *k, const char *id)
{
	return (struct row){k, id, known_record(k, id), known_served(k, id)};
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

const char *row_template(const struct row *r)
{
	const char *name = r->record ? r->record->template : served_text(r, "alias");

	return name ? name : "";
}

json_t *row_metadata(const struct row *r)
{
	return r->served ? json_object_get(r->served, "metadata") : r->record->metadata;
}

/* A run through the daemon notes its command where the daemon keeps it. */
const char *row_command(const struct row *r)
{
	const json_t *metadata = json_object_get(r->served, "metadata");
	const char *command = json_string_value(json_object_get(metadata, REMOTE_COMMAND_METADATA));

	if (!command && r->record)
		command = r->record->command;
	return command ? command : "";
}

const char *row_key(const struct row *r)
{
	const char *name = served_text(r, "keyName");

	return name ? name : "";
}

const char *row_status(const struct row *r)
{
	static const char *const words[] = {"running", "paused", "ended"};
	const char *state = served_text(r, "state");
	_cleanup_close_ int fd = state ? -1 : sandbox_open_dir(&r->known->dirs, r->id, NULL);
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

bool row_is_paused(const struct row *r)
{
	const char *state = served_text(r, "state");

	return state && strcmp(state, "paused") == 0;
}

uint64_t row_created_ns(const struct row *r)
{
	return r->served ? served_time(r, "startedAt") : r->record->created_ns;
}

uint64_t row_ends_ns(const struct row *r)
{
	return r->served ? served_time(r, "endAt") : 0;
}

unsigned row_cpus(const struct row *r)
{
	return r->served ? (unsigned)json_integer_value(json_object_get(r->served, "cpuCount"))
			 : r->record->cpus;
}

uint64_t row_memory_bytes(const struct row *r)
{
	return r->served ? served_size(r, "memoryMB") : r->record->memory_bytes;
}

/* null: it has none, or it has no process. */
static void add_cgroup(const struct row *r, json_t *one)
{
	_cleanup_close_ int fd = sandbox_open_dir(&r->known->dirs, r->id, NULL);
	_cleanup_free_ char *path = fd < 0 ? NULL : cgroup_path(fd, r->id);

	/* a missing entry shows as a missing entry */
	(void)json_object_set_new(one, "cgroup", path ? json_text(path) : json_null());
}

json_t *row_json(const struct row *r)
{
	uint64_t disk = r->served ? served_size(r, "diskSizeMB") : r->record->disk_bytes;
	json_t *one = json_pack("{s:s, s:o, s:s, s:o, s:i, s:I, s:I, s:o, s:b, s:O*}", "id", r->id,
		"template", json_text(row_template(r)), "status", row_status(r), "created",
		json_time(row_created_ns(r)), "cpus", (int)row_cpus(r), "memory_bytes",
		(json_int_t)row_memory_bytes(r), "disk_bytes", (json_int_t)disk, "command",
		json_text(row_command(r)), "daemon", r->served != NULL, "metadata",
		row_metadata(r));

	/* a missing entry shows as a missing entry */
	if (r->served)
		(void)json_object_set_new(one, "ends", json_time(row_ends_ns(r)));
	if (*row_key(r))
		(void)json_object_set_new(one, "key", json_text(row_key(r)));
	if (r->record) {
		(void)json_object_set_new(one, "owner_pid", json_integer(r->record->owner_pid));
		(void)json_object_set_new(one, "vmm_pid", json_integer(r->record->vmm_pid));
		(void)json_object_set_new(
			one, "jail", json_string(jail_kind_name(r->record->jail)));
	}
	add_cgroup(r, one);
	return one;
}
