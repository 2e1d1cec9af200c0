/* `mayfly agents`: hosted agents (docs/agents.md), of the key `local`. */
#include "cli/agents/agents.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/admin/listing.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/client.h"
#include "cli/remote/remote.h"
#include "cli/table.h"
#include "proto/json_tree.h"
#include "proto/uri.h"

enum { PATH_BYTES = 4096 };

struct agents_options {
	struct cli_common common;
	bool remove;
};

/* --- calls --- */

int agents_call(
	const char *method, const char *target, const json_t *body, json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = admin_call(&home, method, target, body, ret, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		r = client_no_daemon(&home, e);
	home_close(&home);
	return r;
}

int agents_path(const char *name, const char *rest, char **ret, struct error *e)
{
	struct buf path = BUF_INIT(PATH_BYTES);
	int r = buf_add_str(&path, "/agents/");

	if (!*name)
		return error_set(e, ERROR_USAGE, EINVAL, "the name of an agent is missing");
	if (r == 0)
		r = uri_encode(&path, name, strlen(name));
	if (r == 0)
		r = buf_add_str(&path, rest);
	if (r == 0)
		r = buf_add_u8(&path, 0);
	*ret = r == 0 ? strdup((const char *)buf_head(&path)) : NULL;
	buf_done(&path);
	return *ret ? 0 : error_set(e, ERROR_LIMIT, E2BIG, "the name is too long");
}

static long long number(const json_t *o, const char *key)
{
	return (long long)json_integer_value(json_object_get(o, key));
}

static int need(int argc, int least, int most, const char *what, struct error *e)
{
	return argc >= least && argc <= most ? 0
					     : error_set(e, ERROR_USAGE, EINVAL, "give %s", what);
}

/* Splits NAME@VERSION. *ret_version: borrowed of text, or NULL. */
static char *split(const char *text, const char **ret_version)
{
	const char *at = strchr(text, '@');

	*ret_version = at ? at + 1 : NULL;
	return at ? strndup(text, (size_t)(at - text)) : strdup(text);
}

/* --- ls --- */

static void print_agent(struct table *t, const json_t *a)
{
	char version[32], latest[64];

	(void)snprintf(version, sizeof(version), "%lld", number(a, "version")); /* these fit */
	(void)snprintf(latest, sizeof(latest), "%lld %.16s", number(a, "latestVersion"),
		json_tree_text(a, "latestState"));
	{
		const char *const cells[] = {json_tree_text(a, "name"),
			json_is_null(json_object_get(a, "version")) ? "-" : version, latest,
			json_tree_text(a, "updatedAt")};

		table_add(t, cells);
	}
}

static void print_version(struct table *t, const json_t *v)
{
	char cells_of[4][32];
	const json_t *why = json_object_get(v, "error");

	(void)snprintf(cells_of[0], 32, "%lld%s", number(v, "version"), /* these fit */
		json_is_true(json_object_get(v, "current")) ? " *" : "");
	(void)snprintf(cells_of[1], 32, "%lld", number(v, "cpuCount"));
	(void)snprintf(cells_of[2], 32, "%lld MB", number(v, "memoryMB"));
	{
		const char *const cells[] = {cells_of[0], json_tree_text(v, "state"),
			json_tree_text(v, "kind"), cells_of[1], cells_of[2],
			json_tree_text(v, "createdAt"),
			why ? json_tree_text(why, "message") : json_tree_text(v, "entry")};

		table_add(t, cells);
	}
}

/* All pages. */
static int list(const char *path, json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = remote_try_pages(&home, path, ret, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		r = client_no_daemon(&home, e);
	home_close(&home);
	return r;
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {"NAME", "VERSION", "LATEST", "CHANGED"};
	static const struct listing l = {
		.heading = heading, .columns = ARRAY_SIZE(heading), .row = print_agent};
	const struct agents_options *o = values;
	json_t *all = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = list("/agents", &all, e);
	return r < 0 ? r : listing_print(&l, all, o->common.json, e);
}

static int versions_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {
		"VERSION", "STATE", "KIND", "CPUS", "MEMORY", "CREATED", "STARTED BY, OR ERROR"};
	static const struct listing l = {
		.heading = heading, .columns = ARRAY_SIZE(heading), .row = print_version};
	const struct agents_options *o = values;
	_cleanup_free_ char *path = NULL;
	json_t *all = NULL;
	int r = need(argc, 1, 1, "the name of one agent", e);

	if (r == 0)
		r = agents_path(argv[0], "/versions", &path, e);
	if (r == 0)
		r = list(path, &all, e);
	return r < 0 ? r : listing_print(&l, all, o->common.json, e);
}

/* --- show, rm --- */

static int show_run(void *values, int argc, char **argv, struct error *e)
{
	_cleanup_free_ char *name = NULL, *rest = NULL, *path = NULL;
	const char *version = NULL;
	json_t *one = NULL;
	int r = need(argc, 1, 1, "the name of one agent, or NAME@VERSION", e);

	if (r < 0)
		return r;
	name = split(argv[0], &version);
	rest = version ? str_printf("/versions/%s", version) : strdup("");
	if (!name || !rest)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (version && strspn(version, "0123456789") != strlen(version))
		return error_set(e, ERROR_USAGE, EINVAL, "a version is a number");
	r = agents_path(name, rest, &path, e);
	if (r == 0)
		r = agents_call("GET", path, NULL, &one, e);
	return r < 0 ? r : json_print(one, e);
}

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	int r = need(argc, 1, argc, "the names of agents: see mayfly agents ls", e);

	for (int i = 0; r == 0 && i < argc; i++) {
		_cleanup_free_ char *path = NULL;

		r = agents_path(argv[i], "", &path, e);
		if (r == 0)
			r = agents_call("DELETE", path, NULL, NULL, e);
	}
	return r;
}

/* --- what leads to versions --- */

static int print_moved(const struct agents_options *o, json_t *agent, struct error *e)
{
	if (o->common.json)
		return json_print(agent, e);
	printf("%s leads to version %lld\n", json_tree_text(agent, "name"),
		number(agent, "version"));
	json_decref(agent);
	return 0;
}

static int rollback_run(void *values, int argc, char **argv, struct error *e)
{
	const char *version = NULL;
	_cleanup_free_ char *name = NULL, *path = NULL;
	json_t *body = NULL, *agent = NULL;
	uint64_t n = 0;
	int r = need(argc, 1, 1, "NAME, or NAME@VERSION", e);

	if (r < 0)
		return r;
	name = split(argv[0], &version);
	if (version && (str_parse_u64(version, &n) < 0 || n == 0 || n > UINT32_MAX))
		return error_set(e, ERROR_USAGE, EINVAL, "a version is a number from 1 on");
	body = n ? json_pack("{s:I}", "version", (json_int_t)n) : json_object();
	r = name && body ? agents_path(name, "/rollback", &path, e)
			 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	if (r == 0)
		r = agents_call("POST", path, body, &agent, e);
	json_decref(body);
	return r < 0 ? r : print_moved(values, agent, e);
}

/* VERSION[=WEIGHT]... */
static int take_weights(int argc, char **argv, json_t **ret, struct error *e)
{
	json_t *weights = json_object();

	for (int i = 0; i < argc; i++) {
		char *weight = strchr(argv[i], '=');
		uint64_t n = 1;

		if (weight)
			*weight++ = '\0';
		if (!weights || (weight && (str_parse_u64(weight, &n) < 0 || n > INT32_MAX)) ||
			json_object_set_new(weights, argv[i], json_integer((json_int_t)n)) < 0) {
			json_decref(weights);
			return error_set(e, ERROR_USAGE, EINVAL,
				"%.32s: expected VERSION or VERSION=WEIGHT", argv[i]);
		}
	}
	*ret = json_pack("{s:o}", "weights", weights);
	return *ret ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

static int alias_run(void *values, int argc, char **argv, struct error *e)
{
	const struct agents_options *o = values;
	_cleanup_free_ char *rest = NULL, *path = NULL;
	json_t *body = NULL, *agent = NULL;
	int r = need(argc, o->remove ? 2 : 3, o->remove ? 2 : argc,
		o->remove ? "NAME ALIAS" : "NAME ALIAS VERSION[=WEIGHT]...", e);

	if (r < 0)
		return r;
	rest = str_printf("/aliases/%s", argv[1]);
	if (!rest || strspn(argv[1], "abcdefghijklmnopqrstuvwxyz0123456789_-") != strlen(argv[1]))
		return error_set(e, ERROR_USAGE, EINVAL, "an alias has 1 to 64 of a-z 0-9 _ -");
	r = agents_path(argv[0], rest, &path, e);
	if (r == 0 && o->remove)
		return agents_call("DELETE", path, NULL, NULL, e);
	if (r == 0)
		r = take_weights(argc - 2, argv + 2, &body, e);
	if (r == 0)
		r = agents_call("PUT", path, body, &agent, e);
	json_decref(body);
	if (r == 0 && o->common.json)
		return json_print(agent, e);
	json_decref(agent);
	return r;
}

/* --- the group --- */

static const struct option_spec json_options[] = {
	CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};
static const struct option_spec plain_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};
static const struct option_spec alias_options[] = {
	{"remove", 0, OPTION_FLAG, NULL, "remove the alias",
		offsetof(struct agents_options, remove), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

#define VERB(word, words, text, more, table)                                                       \
	{                                                                                          \
		.name = #word, .arguments = words, .summary = text, .description = more,           \
		.options = table, .values_bytes = sizeof(struct agents_options), .run = word##_run \
	}

static const struct cli_verb ls_verb = VERB(ls, "", "List agents", NULL, json_options),
			     show_verb = VERB(show, "NAME[@VERSION]",
				     "Show an agent or a version as JSON", NULL, json_options),
			     versions_verb = VERB(versions, "NAME",
				     "List the versions of an agent, newest first",
				     "A * marks the current version, which the name stands for.",
				     json_options),
			     rollback_verb = VERB(rollback, "NAME[@VERSION]",
				     "Make an older version current: the one before, or VERSION",
				     NULL, json_options),
			     rm_verb = VERB(rm, "NAME...", "Remove agents with all their versions",
				     "Running invocations go on to their end.", plain_options),
			     alias_verb = VERB(alias, "NAME ALIAS VERSION[=WEIGHT]...",
				     "Let NAME:ALIAS stand for a version, or for several by weight",
				     "Versions keep their files while an alias names them.",
				     alias_options);

static const struct cli_verb *const verbs[] = {&agents_verb_deploy, &agents_verb_invoke,
	&agents_verb_logs, &ls_verb, &show_verb, &versions_verb, &rollback_verb, &alias_verb,
	&rm_verb, NULL};

const struct cli_verb cli_verb_agents = {
	.name = "agents",
	.arguments = "COMMAND",
	.summary = "Agents: programs that are deployed once and run fresh each time",
	.verbs = verbs,
};
