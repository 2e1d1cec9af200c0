/* `mayfly keys`: API keys, through the running daemon or, when there is none, in its store. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/admin.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/table.h"
#include "image/home.h"
#include "proto/route.h"
#include "proto/timestamp.h"
#include "store/keys.h"

enum { MASK_BYTES = 32 };

struct create_options {
	struct cli_common common;
	uint64_t sandboxes, creates, timeout_ns;
};

static int open_store(const struct home *home, struct store **ret, struct error *e)
{
	_cleanup_free_ char *path = str_printf("%s/mayfly.db", home->path);

	return path ? store_open(path, ret, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- create --- */

static int create_directly(const struct home *home, const char *name,
	const struct create_options *o, json_t **ret, struct error *e)
{
	_cleanup_(store_closep) struct store *s = NULL;
	const struct store_limits limits = {
		.max_sandboxes = (uint32_t)o->sandboxes,
		.creates_per_minute = (uint32_t)o->creates,
		.max_timeout_ns = o->timeout_ns,
	};
	char id[STORE_UUID_BYTES], secret[STORE_KEY_SECRET_BYTES];
	int r = open_store(home, &s, e);

	if (r == 0)
		r = store_key_create(s, name, NULL, &limits, clock_realtime_ns(), id, secret, e);
	if (r == 0)
		*ret = json_pack("{s:s, s:s, s:s}", "id", id, "name", name, "key", secret);
	explicit_bzero(secret, sizeof(secret));
	return r;
}

static int create(const struct home *home, const char *name, const struct create_options *o,
	json_t **ret, struct error *e)
{
	json_t *body = json_pack("{s:o, s:I, s:I, s:I}", "name", json_text(name), "maxSandboxes",
		(json_int_t)o->sandboxes, "createsPerMinute", (json_int_t)o->creates, "maxTimeout",
		(json_int_t)(o->timeout_ns / NS_PER_S));
	int r = admin_call(home, "POST", "/api-keys", body, ret, e);

	json_decref(body);
	return r == -ECONNREFUSED ? create_directly(home, name, o, ret, e) : r;
}

static int create_run(void *values, int argc, char **argv, struct error *e)
{
	const struct create_options *o = values;
	struct home home = HOME_INIT;
	json_t *key = NULL;
	int r;

	if (argc > 1)
		return cli_no_arguments(argc - 1, argv + 1, e);
	r = home_open(NULL, &home, e);
	if (r == 0)
		r = create(&home, argc ? argv[0] : "default", o, &key, e);
	home_close(&home);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(key, e);
	printf("%s\n", json_string_value(json_object_get(key, "key")));
	json_decref(key);
	return 0;
}

static const struct option_spec create_options[] = {
	{"max-sandboxes", 0, OPTION_NUMBER, "N", "at the same time; 0: the daemon's limit",
		offsetof(struct create_options, sandboxes), 0, 1000000, false},
	{"max-creates", 0, OPTION_NUMBER, "N", "in a minute; 0: the daemon's limit",
		offsetof(struct create_options, creates), 0, 1000000, false},
	{"max-timeout", 0, OPTION_DURATION, "TIME",
		"longest life of a sandbox; 0: the daemon's limit",
		offsetof(struct create_options, timeout_ns), 0, UINT64_MAX, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct cli_verb create_verb = {
	.name = "create",
	.arguments = "[NAME]",
	.summary = "Make an API key and print it",
	.description = "The key is kept as a hash only: it cannot be shown again.",
	.options = create_options,
	.values_bytes = sizeof(struct create_options),
	.run = create_run,
};

/* --- ls --- */

static int add_key(void *arg, const struct store_key *k)
{
	char created[TIMESTAMP_BYTES], used[TIMESTAMP_BYTES];
	json_t *one;

	if (k->revoked_ns)
		return 0;
	one = json_pack("{s:s, s:s, s:s, s:s?, s:{s:s, s:s, s:s}}", "id", k->id, "name", k->name,
		"createdAt", timestamp_format_ns(k->created_ns, created), "lastUsed",
		k->last_used_ns ? timestamp_format_ns(k->last_used_ns, used) : NULL, "mask",
		"prefix", k->mask_prefix, "maskedValuePrefix", k->mask_first, "maskedValueSuffix",
		k->mask_last);
	return json_array_append_new(arg, one) < 0 ? -ENOMEM : 0;
}

static int list_directly(const struct home *home, json_t **ret, struct error *e)
{
	_cleanup_(store_closep) struct store *s = NULL;
	int r = open_store(home, &s, e);

	if (r == 0) {
		*ret = json_array();
		r = store_key_list(s, NULL, add_key, *ret, e);
	}
	return r;
}

static const char *text_of(const json_t *o, const char *key)
{
	const char *s = json_string_value(json_object_get(o, key));

	return s ? s : "";
}

static int print_keys(const json_t *list, struct error *e)
{
	static const char *const heading[] = {"ID", "NAME", "KEY", "CREATED", "LAST USED"};
	struct table t = {.columns = ARRAY_SIZE(heading)};
	json_t *k;
	size_t i;

	table_add(&t, heading);
	json_array_foreach(list, i, k)
	{
		const json_t *mask = json_object_get(k, "mask");
		const char *used = text_of(k, "lastUsed");
		char masked[MASK_BYTES];
		const char *const row[] = {text_of(k, "id"), text_of(k, "name"), masked,
			text_of(k, "createdAt"), *used ? used : "never"};

		(void)snprintf(masked, sizeof(masked), "%s%s...%s", text_of(mask, "prefix"),
			text_of(mask, "maskedValuePrefix"),
			text_of(mask, "maskedValueSuffix")); /* all are short */
		table_add(&t, row);
	}
	return table_print(&t) < 0 ? error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory") : 0;
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	const struct cli_common *o = values;
	struct home home = HOME_INIT;
	json_t *list = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = home_open(NULL, &home, e);
	if (r == 0)
		r = admin_call(&home, "GET", "/api-keys", NULL, &list, e);
	if (r == -ECONNREFUSED)
		r = list_directly(&home, &list, e);
	home_close(&home);
	if (r == 0 && o->json)
		return json_print(list, e);
	if (r == 0)
		r = print_keys(list, e);
	json_decref(list);
	return r;
}

static const struct option_spec ls_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List the API keys",
	.options = ls_options,
	.values_bytes = sizeof(struct cli_common),
	.run = ls_run,
};

/* --- rm --- */

static int rm_directly(const struct home *home, const char *id, struct error *e)
{
	_cleanup_(store_closep) struct store *s = NULL;
	int r = open_store(home, &s, e);

	return r < 0 ? r : store_key_revoke(s, id, clock_realtime_ns(), e);
}

static int rm_one(const struct home *home, const char *id, struct error *e)
{
	_cleanup_free_ char *path = str_printf("/api-keys/%s", id);
	int r;

	if (!route_is_uuid(id))
		return error_set(
			e, ERROR_USAGE, EINVAL, "'%s' is no id of a key: see mayfly keys ls", id);
	r = path ? admin_call(home, "DELETE", path, NULL, NULL, e)
		 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	return r == -ECONNREFUSED ? rm_directly(home, id, e) : r;
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	struct home home = HOME_INIT;
	int r;

	if (argc == 0)
		return error_set(e, ERROR_USAGE, EINVAL, "give ids of keys: see mayfly keys ls");
	r = home_open(NULL, &home, e);
	for (int i = 0; r == 0 && i < argc; i++) {
		r = rm_one(&home, argv[i], e);
		if (r == 0)
			printf("%s\n", argv[i]);
	}
	home_close(&home);
	return r;
}

static const struct option_spec rm_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "ID...",
	.summary = "Revoke API keys",
	.description = "From now on they are refused; their sandboxes run until their deadlines.",
	.options = rm_options,
	.values_bytes = sizeof(struct cli_common),
	.run = rm_run,
};

/* --- the group --- */

static const struct cli_verb *const verbs[] = {&create_verb, &ls_verb, &rm_verb, NULL};

const struct cli_verb cli_verb_keys = {
	.name = "keys",
	.arguments = "",
	.summary = "Make, list and revoke API keys",
	.verbs = verbs,
};
