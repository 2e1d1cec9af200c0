/* `mayfly inspect`: everything that is known about a sandbox, except its secrets. */
#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/known.h"
#include "cli/sandbox/row.h"
#include "cli/sandbox/states.h"
#include "cli/table.h"
#include "sandbox/cgroup.h"

static const struct option_spec options[] = {
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* Members of the API's answer, with their names here. Its tokens are not among them. */
static const char *const details[][2] = {
	{"templateID", "template_id"},
	{"keyID", "key_id"},
	{"pauseMode", "pause_mode"},
	{"network", "network"},
	{"networkFloors", "network_floors"},
	{"allowInternetAccess", "allow_internet_access"},
	{"envdVersion", "envd_version"},
};

/* Adds what the list does not have. If the sandbox has ended meanwhile, that is left out. */
static void add_details(const struct row *r, json_t *one)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s", r->id);
	const json_t *lifecycle;
	json_t *answer = NULL;

	if (!target || admin_call(&r->known->home, "GET", target, NULL, &answer, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_SIZE(details); i++)
		if (json_object_get(answer, details[i][0]))
			(void)json_object_set(one, details[i][1],
				json_object_get(answer, details[i][0])); /* shows as missing */
	lifecycle = json_object_get(answer, "lifecycle");
	(void)json_object_set(one, "on_timeout", json_object_get(lifecycle, "onTimeout"));
	(void)json_object_set(one, "auto_resume", json_object_get(lifecycle, "autoResume"));
	json_decref(answer);
}

/* What its control group counts, if it has one. */
static void add_usage(const struct row *r, json_t *one)
{
	_cleanup_close_ int dirfd = sandbox_open_dir(&r->known->dirs, r->id, NULL);
	_cleanup_close_ int fd = dirfd < 0 ? -1 : cgroup_open(dirfd, r->id);
	struct cgroup_usage u;

	if (fd < 0)
		return;
	cgroup_read_usage(fd, &u);
	/* missing entries show as missing entries */
	(void)json_object_set_new(
		one, "cgroup_memory_bytes", json_integer((json_int_t)u.memory_bytes));
	(void)json_object_set_new(
		one, "cgroup_throttled_us", json_integer((json_int_t)u.throttled_us));
}

static bool is_size(const char *name)
{
	const char *unit = strrchr(name, '_');

	return unit && strcmp(unit, "_bytes") == 0;
}

/* A line for a member: "memory  512 MB". */
static void add_line(struct table *t, const char *key, const json_t *value)
{
	_cleanup_free_ char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
	_cleanup_free_ char *name = strdup(key);
	const char *text = json_is_string(value) ? json_string_value(value) : dumped;
	const char *const cells[] = {name, text ? text : ""};
	char size[16];

	if (!name || (json_is_string(value) && !*text) || json_is_null(value))
		return;
	if (is_size(name)) {
		*strrchr(name, '_') = '\0';
		(void)str_format_bytes((uint64_t)json_integer_value(value), size);
		table_add(t, (const char *const[]){name, size});
		return;
	}
	for (char *p = name; *p; p++)
		if (*p == '_')
			*p = ' ';
	table_add(t, cells);
}

static int print(json_t *one, bool json, struct error *e)
{
	struct table t = {.columns = 2};
	const char *key;
	json_t *value;

	if (json)
		return json_print(one, e);
	json_object_foreach(one, key, value) add_line(&t, key, value);
	json_decref(one);
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	struct known k = KNOWN_INIT;
	char id[ROUTE_SANDBOX_ID_MAX + 1];
	int r = states_check_count(argc, 1, 1, "give the id of a sandbox: mayfly inspect ID", e);

	if (r < 0)
		return r;
	r = known_open(&k, e);
	if (r == 0)
		r = known_find(&k, argv[0], id, e);
	if (r == 0) {
		const struct row row = row_of(&k, id);
		json_t *one = row_json(&row);

		if (row.served)
			add_details(&row, one);
		add_usage(&row, one);
		r = print(one, o->json, e);
	}
	known_close(&k);
	return r;
}

const struct cli_verb cli_verb_inspect = {
	.name = "inspect",
	.arguments = "ID",
	.summary = "Tell all about a sandbox",
	.description = "Shows its key's name, sizes, times, metadata and what happens at its end, "
		       "but no tokens.",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
