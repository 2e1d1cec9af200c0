/* `mayfly keys`: API keys and their limits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/admin/ask.h"
#include "cli/admin/listing.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "proto/route.h"

#define MIB   (UINT64_C(1) << 20)
#define UNSET UINT64_MAX

enum { MASK_BYTES = 32, LIMITS_BYTES = 192, NUMBER_MAX = 1000000 };

struct key_options {
	struct cli_common common;
	const char *name, *team, *tier, *manage, *network;
	uint64_t sandboxes, creates, cpus, memory_bytes, disk_bytes, timeout_ns, kept, kept_bytes;
};

static const struct key_options unset = {
	.sandboxes = UNSET,
	.creates = UNSET,
	.cpus = UNSET,
	.memory_bytes = UNSET,
	.disk_bytes = UNSET,
	.timeout_ns = UNSET,
	.kept = UNSET,
	.kept_bytes = UNSET,
};

#define LIMIT_OPTIONS                                                                              \
	{"max-sandboxes", 0, OPTION_NUMBER, "N", "at the same time; 0: the daemon's limit",        \
		offsetof(struct key_options, sandboxes), 0, NUMBER_MAX, false},                    \
		{"max-creates", 0, OPTION_NUMBER, "N", "in a minute; 0: the daemon's limit",       \
			offsetof(struct key_options, creates), 0, NUMBER_MAX, false},              \
		{"max-cpus", 0, OPTION_NUMBER, "N", "of one sandbox; 0: the daemon's limit",       \
			offsetof(struct key_options, cpus), 0, 64, false},                         \
		{"max-memory", 0, OPTION_BYTES, "SIZE", "of one sandbox; 0: the daemon's limit",   \
			offsetof(struct key_options, memory_bytes), 0, INT64_MAX, false},          \
		{"max-disk", 0, OPTION_BYTES, "SIZE", "of one sandbox; 0: the daemon's limit",     \
			offsetof(struct key_options, disk_bytes), 0, INT64_MAX, false},            \
		{"max-timeout", 0, OPTION_DURATION, "TIME",                                        \
			"longest life of a sandbox; 0: the daemon's limit",                        \
			offsetof(struct key_options, timeout_ns), 0,                               \
			(uint64_t)INT32_MAX * NS_PER_S, false},                                    \
		{"max-kept", 0, OPTION_NUMBER, "N",                                                \
			"paused sandboxes and snapshots; 0: the daemon's limit",                   \
			offsetof(struct key_options, kept), 0, NUMBER_MAX, false},                 \
		{"max-kept-size", 0, OPTION_BYTES, "SIZE",                                         \
			"what they take of the disk; 0: the daemon's limit",                       \
			offsetof(struct key_options, kept_bytes), 0, INT64_MAX, false},            \
		{"tier", 0, OPTION_STRING, "NAME",                                                 \
			"tier with the usage included each month (see mayfly tiers), or none",     \
			offsetof(struct key_options, tier), 0, 0, false},                          \
		{"network", 0, OPTION_STRING, "on|off|HOST,...",                                   \
			"the most that its sandboxes may reach: anything, nothing, or only these " \
			"names and addresses",                                                     \
			offsetof(struct key_options, network), 0, 0, false},                       \
	{                                                                                          \
		"manage-keys", 0, OPTION_STRING, "yes|no",                                         \
			"whether it may make and revoke keys of its team, each with its limits",   \
			offsetof(struct key_options, manage), 0, 0, false                          \
	}

/* --- create and set --- */

static void add_number(json_t *body, const char *name, uint64_t value, uint64_t unit)
{
	if (value != UNSET)
		(void)json_object_set_new(
			body, name, json_integer((json_int_t)(value / unit))); /* seen at once */
}

/* New reference; NULL: e is filled. */
static json_t *body_of(const struct key_options *o, struct error *e)
{
	json_t *body = json_object();
	int r;

	add_number(body, "maxSandboxes", o->sandboxes, 1);
	add_number(body, "createsPerMinute", o->creates, 1);
	add_number(body, "maxCpus", o->cpus, 1);
	add_number(body, "maxMemoryMB", o->memory_bytes, MIB);
	add_number(body, "maxDiskMB", o->disk_bytes, MIB);
	add_number(body, "maxTimeout", o->timeout_ns, NS_PER_S);
	add_number(body, "maxKept", o->kept, 1);
	add_number(body, "maxKeptMB", o->kept_bytes, MIB);
	r = json_add_text(body, "team", o->team, "the team", e);
	if (r == 0 && o->tier && strcmp(o->tier, "none") == 0)
		(void)json_object_set_new(body, "tier", json_null()); /* as the numbers */
	else if (r == 0)
		r = json_add_text(body, "tier", o->tier, "the tier", e);
	r = r ? r : json_add_text(body, "network", o->network, "--network", e);
	r = r ? r : ask_add_choice(body, "managesKeys", "manage-keys", o->manage, e);
	if (r == 0)
		return body;
	json_decref(body);
	return NULL;
}

static int create_run(void *values, int argc, char **argv, struct error *e)
{
	const struct key_options *o = values;
	json_t *key = NULL, *body;
	int r = argc > 1 ? cli_no_arguments(argc - 1, argv + 1, e) : 0;

	if (r < 0)
		return r;
	body = body_of(o, e);
	if (!body)
		return -EINVAL;
	r = json_add_text(body, "name", argc ? argv[0] : "default", "the key's name", e);
	r = r ? r : ask("POST", "/api-keys", body, &key, e);
	json_decref(body);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(key, e);
	printf("%s\n", ask_text(key, "key"));
	json_decref(key);
	return 0;
}

static int check_id(const char *id, struct error *e)
{
	return route_is_uuid(id) ? 0
				 : error_set(e, ERROR_USAGE, EINVAL,
					   "'%s' is no id of a key: see mayfly keys ls", id);
}

static int set_run(void *values, int argc, char **argv, struct error *e)
{
	const struct key_options *o = values;
	json_t *body;
	int r = argc ? cli_no_arguments(argc - 1, argv + 1, e)
		     : error_set(
			       e, ERROR_USAGE, EINVAL, "give the id of a key: see mayfly keys ls");

	if (r == 0)
		r = check_id(argv[0], e);
	if (r < 0)
		return r;
	body = body_of(o, e);
	if (!body)
		return -EINVAL;
	r = json_add_text(body, "name", o->name, "the key's name", e);
	if (r == 0 && json_object_size(body) == 0)
		r = error_set(e, ERROR_USAGE, EINVAL, "nothing to set: see mayfly keys set -h");
	r = r ? r : ask_one("PATCH", "/api-keys", argv[0], body, e);
	json_decref(body);
	return r;
}

static const struct option_spec create_options[] = {
	{"team", 0, OPTION_STRING, "NAME", "team that owns it; made if missing (default)",
		offsetof(struct key_options, team), 0, 0, false},
	LIMIT_OPTIONS,
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct option_spec set_options[] = {
	{"name", 0, OPTION_STRING, "NAME", "another name", offsetof(struct key_options, name), 0, 0,
		false},
	LIMIT_OPTIONS,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct cli_verb create_verb = {
	.name = "create",
	.arguments = "[NAME]",
	.summary = "Make an API key and print it",
	.description = "The key is kept as a hash only: it cannot be shown again.",
	.options = create_options,
	.defaults = &unset,
	.values_bytes = sizeof(struct key_options),
	.run = create_run,
};

static const struct cli_verb set_verb = {
	.name = "set",
	.arguments = "ID",
	.summary = "Change what an API key may",
	.description = "Limits that are not given stay as they are. Changes apply from the next "
		       "request on. Running sandboxes keep what they have, except connections that "
		       "--network denies.",
	.options = set_options,
	.defaults = &unset,
	.values_bytes = sizeof(struct key_options),
	.run = set_run,
};

/* --- ls --- */

/* Numbers in an answer's "limits", with the names of their options. */
static const struct limit {
	const char *member, *name;
	uint64_t unit; /* bytes; 0: a plain number */
} shown[] = {
	{"maxSandboxes", "sandboxes", 0},
	{"createsPerMinute", "creates", 0},
	{"maxCpus", "cpus", 0},
	{"maxMemoryMB", "memory", MIB},
	{"maxDiskMB", "disk", MIB},
	{"maxKept", "kept", 0},
	{"maxKeptMB", "kept-size", MIB},
};

/* Writes "512 MB" as "512MB", because in this cell spaces separate limits. */
static void add_size(struct buf *to, uint64_t bytes)
{
	char text[16];

	for (const char *p = str_format_bytes(bytes, text); *p; p++)
		if (*p != ' ')
			(void)buf_add_u8(to, (uint8_t)*p); /* what does not fit is cut, as below */
}

/* "sandboxes=5 memory=2GB timeout=3600s", "-" for a key that has the daemon's limits. */
static void format_limits(const json_t *limits, char out[LIMITS_BYTES])
{
	_cleanup_(buf_done) struct buf text = BUF_INIT(LIMITS_BYTES - 1);
	long long timeout_s = json_integer_value(json_object_get(limits, "maxTimeout"));
	const char *network = ask_text(limits, "network");
	size_t n;

	for (size_t i = 0; i < ARRAY_SIZE(shown); i++) {
		json_int_t v = json_integer_value(json_object_get(limits, shown[i].member));

		if (!v)
			continue;
		(void)buf_printf(&text, "%s=", shown[i].name);
		if (shown[i].unit)
			add_size(&text, (uint64_t)v * shown[i].unit);
		else
			(void)buf_printf(&text, "%lld", (long long)v);
		(void)buf_add_u8(&text, ' ');
	}
	if (timeout_s)
		(void)buf_printf(&text, "timeout=%llds ", timeout_s);
	if (*network)
		(void)buf_printf(
			&text, "network=%s ", strcmp(network, "off") == 0 ? "off" : "list");
	n = buf_len(&text);
	(void)snprintf(out, LIMITS_BYTES, "%.*s", n ? (int)n - 1 : 1,
		n ? (const char *)buf_head(&text) : "-");
}

static void print_one(struct table *t, const json_t *k)
{
	const json_t *mask = json_object_get(k, "mask"), *kept = json_object_get(k, "kept");
	const char *used = ask_text(k, "lastUsed");
	const char *tier = ask_text(json_object_get(k, "limits"), "tier");
	char masked[MASK_BYTES], bytes[16], keeps[48], limits[LIMITS_BYTES];
	const char *const row[] = {ask_text(k, "id"), ask_text(k, "name"), masked,
		*tier ? tier : "-", keeps, ask_text(k, "createdAt"), *used ? used : "never",
		limits};

	format_limits(json_object_get(k, "limits"), limits);
	(void)snprintf(keeps, sizeof(keeps), "%lld, %s",
		(long long)json_integer_value(json_object_get(kept, "count")),
		str_format_bytes((uint64_t)json_integer_value(json_object_get(kept, "sizeBytes")),
			bytes)); /* short */
	(void)snprintf(masked, sizeof(masked), "%s%s...%s", ask_text(mask, "prefix"),
		ask_text(mask, "maskedValuePrefix"),
		ask_text(mask, "maskedValueSuffix")); /* all are short */
	table_add(t, row);
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {
		"ID", "NAME", "KEY", "TIER", "KEPT", "CREATED", "LAST USED", "LIMITS"};
	static const struct listing l = {"/api-keys", heading, ARRAY_SIZE(heading), print_one};
	const struct cli_common *o = values;

	return listing_run(&l, argc, argv, o->json, e);
}

static const struct option_spec ls_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List the API keys",
	.description = "LIMITS are those that keys create or keys set gave a key. For all others "
		       "the daemon's apply.",
	.options = ls_options,
	.values_bytes = sizeof(struct cli_common),
	.run = ls_run,
};

/* --- rm --- */

struct rm_options {
	struct cli_common common;
	bool kill;
};

static int revoke_key(const char *id, bool kill, struct error *e)
{
	char target[64];

	(void)snprintf(target, sizeof(target), "/api-keys/%s%s", id,
		kill ? "?kill=true" : ""); /* a UUID: fits */
	return ask("DELETE", target, NULL, NULL, e);
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	const struct rm_options *o = values;
	int r = 0;

	if (argc == 0)
		return error_set(e, ERROR_USAGE, EINVAL, "give ids of keys: see mayfly keys ls");
	for (int i = 0; r == 0 && i < argc; i++) {
		r = check_id(argv[i], e);
		if (r == 0)
			r = revoke_key(argv[i], o->kill, e);
		if (r == 0)
			printf("%s\n", argv[i]);
	}
	return r;
}

static const struct option_spec rm_options[] = {
	{"kill", 0, OPTION_FLAG, NULL, "also end their sandboxes, including paused ones",
		offsetof(struct rm_options, kill), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "KEY...",
	.summary = "Revoke API keys",
	.description = "From now on these keys and the tokens of their sandboxes are refused, and "
		       "their webhooks are disabled. Running sandboxes go on until their "
		       "deadlines. Paused ones stay, but nobody can resume them.",
	.options = rm_options,
	.values_bytes = sizeof(struct rm_options),
	.run = rm_run,
};

/* --- the group --- */

static const struct cli_verb *const verbs[] = {&create_verb, &set_verb, &ls_verb, &rm_verb, NULL};

const struct cli_verb cli_verb_keys = {
	.name = "keys",
	.arguments = "",
	.summary = "Make, list, change and revoke API keys",
	.verbs = verbs,
};
