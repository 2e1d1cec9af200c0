/* `mayfly agents deploy`: packs a directory, sends it, and shows the build's output until it has
 * ended. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/agents/agents.h"
#include "cli/agents/pack.h"
#include "cli/agents/secrets.h"
#include "cli/clean.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/remote/client.h"
#include "cli/sandbox/network_options.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"
#include "proto/uri.h"

#define ARCHIVE_BYTES_MAX (UINT64_C(256) << 20) /* as the daemon has it */
#define MIB		  (UINT64_C(1) << 20)

enum { POLL_MS = 300, CHUNK = 64 * 1024, UPLOAD_S = 600, SETTINGS_URI_MAX = 64 * 1024 };

struct deploy_options {
	struct cli_common common;
	const char *name, *template, *entry, *install, *runtime, *protocol, *start;
	struct option_list env, secrets, plain_secrets;
	uint64_t cpus, memory_bytes, disk_bytes, timeout_ns, concurrency;
	struct network_options network;
};

static int no_memory(struct error *e)
{
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* --- settings --- */

/* The directory's name, with letters that names have. */
static char *name_of(const char *given, const char *dir)
{
	char path[PATH_MAX];
	const char *last = given;
	char *name;

	if (!given) {
		if (!realpath(dir, path))
			return NULL;
		last = strrchr(path, '/') + 1;
	}
	name = strdup(last);
	for (char *p = name; p && *p; p++) {
		*p = (char)tolower((unsigned char)*p);
		if (!given && !isalnum((unsigned char)*p) && *p != '_')
			*p = '-';
	}
	return name;
}

static int set(json_t *settings, const char *key, const char *value)
{
	return value ? json_object_set_new(settings, key, json_text(value)) : 0;
}

static int set_number(json_t *settings, const char *key, uint64_t n)
{
	return n ? json_object_set_new(settings, key, json_integer((json_int_t)n)) : 0;
}

static int add_env(json_t *settings, const struct option_list *list, struct error *e)
{
	struct environment env = {.count = 0};
	json_t *object = NULL;
	int r = list->count ? environment_read(list, &env, e) : 0;

	if (r == 0 && list->count) {
		object = environment_json(&env);
		if (!object || json_object_set(settings, "env", object) < 0)
			r = error_set(e, ERROR_USAGE, EINVAL, "--env must be valid UTF-8");
	}
	json_decref(object);
	environment_done(&env);
	return r;
}

static int add_network(json_t *settings, const struct network_options *o, struct error *e)
{
	json_t *network = NULL;
	int r = network_options_body(o, &network, e);

	if (r == 0 && network)
		network_options_add(network, settings);
	json_decref(network);
	return r;
}

/* Sizes in agent.json apply to the template, too. The daemon reports errors in that file. */
static void add_sizes(json_t *settings, const char *dir)
{
	static const char *const keys[] = {"cpus", "memory", "disk", "timeout", "concurrency"};
	_cleanup_free_ char *path = str_printf("%s/agent.json", dir);
	json_t *file = path ? json_load_file(path, 0, NULL) : NULL;

	for (size_t i = 0; i < ARRAY_SIZE(keys); i++)
		if (json_object_get(file, keys[i]) && !json_object_get(settings, keys[i]))
			(void)json_object_set(settings, keys[i], json_object_get(file, keys[i]));
	json_decref(file);
}

static int make_settings(const struct deploy_options *o, const char *name, const char *dir,
	json_t **ret, struct error *e)
{
	json_t *settings = json_object(), *secrets = NULL;
	int r = settings && set(settings, "entry", o->entry) == 0 &&
				set(settings, "install", o->install) == 0 &&
				set(settings, "runtime", o->runtime) == 0 &&
				set(settings, "protocol", o->protocol) == 0 &&
				set(settings, "start", o->start) == 0 &&
				set(settings, "template", o->template) == 0 &&
				set_number(settings, "cpus", o->cpus) == 0 &&
				set_number(settings, "memory", o->memory_bytes / MIB) == 0 &&
				set_number(settings, "disk", o->disk_bytes / MIB) == 0 &&
				set_number(settings, "timeout", o->timeout_ns / NS_PER_S) == 0 &&
				set_number(settings, "concurrency", o->concurrency) == 0
			? 0
			: no_memory(e);

	if (r == 0 && o->timeout_ns % NS_PER_S)
		r = error_set(e, ERROR_USAGE, EINVAL, "--timeout must be whole seconds");
	if (r == 0)
		r = add_env(settings, &o->env, e);
	if (r == 0)
		r = add_network(settings, &o->network, e);
	if (r == 0)
		r = agent_secrets_read(name, &o->secrets, &o->plain_secrets, &secrets, e);
	if (r == 0 && secrets && json_object_set_new(settings, "secrets", secrets) < 0)
		r = no_memory(e);
	if (r < 0) {
		json_decref(settings);
		return r;
	}
	if (dir)
		add_sizes(settings, dir);
	*ret = settings;
	return 0;
}

/* --- sending --- */

static int target_of(const char *name, const json_t *settings, char **ret, struct error *e)
{
	struct buf text = BUF_INIT(SETTINGS_URI_MAX);
	_cleanup_free_ char *json = json_dumps(settings, JSON_COMPACT), *path = NULL;
	int r = agents_path(name, "?settings=", &path, e);

	if (r == 0 &&
		(!json || buf_add_str(&text, path) < 0 ||
			uri_encode(&text, json, strlen(json)) < 0 || buf_add_u8(&text, 0) < 0))
		r = error_set(e, ERROR_LIMIT, E2BIG,
			"the settings are too long: put env or policy into agent.json");
	if (r == 0)
		*ret = strdup((const char *)buf_head(&text));
	buf_done(&text);
	return r == 0 && !*ret ? no_memory(e) : r;
}

static int send_file(struct client *c, const struct packed *p, struct error *e)
{
	_cleanup_free_ char *chunk = malloc(CHUNK);
	uint64_t at = 0;
	int r = chunk ? 0 : no_memory(e);

	while (r == 0 && at < p->bytes) {
		ssize_t n = pread(p->fd, chunk, CHUNK, (off_t)at);

		if (n <= 0)
			return error_set_errno(
				e, ERROR_HOST, n < 0 ? errno : EIO, "cannot read the archive");
		while (r == 0 && client_room(c) == 0)
			r = client_wait(c, UPLOAD_S, e);
		if (r == 0)
			r = client_send(c, chunk, (size_t)n, e);
		if (r == 0)
			r = client_flush(c, e);
		at += (uint64_t)n;
	}
	return r;
}

static int send_archive(const char *target, const struct packed *p, json_t **ret, struct error *e)
{
	const struct client_request request = {.method = "PUT",
		.target = target,
		.content_type = "application/x-tar",
		.length = (int64_t)p->bytes};
	_cleanup_(client_closep) struct client *c = NULL;
	int r = client_open_default(&c, e);

	if (r == 0)
		r = client_begin(c, &request, e);
	if (r == 0)
		r = send_file(c, p, e);
	if (r == 0)
		r = client_end(c, e);
	if (r == 0)
		r = client_answer(c, UPLOAD_S, ret, e);
	return r;
}

static int deploy_directory(
	const char *dir, const char *name, const json_t *settings, json_t **ret, struct error *e)
{
	_cleanup_free_ char *target = NULL;
	struct packed p = {.fd = -1};
	char size[16];
	int r = target_of(name, settings, &target, e);

	if (r == 0)
		r = pack_directory(dir, ARCHIVE_BYTES_MAX, &p, e);
	if (r == 0) {
		fprintf(stderr, "%s: %u file%s, %s\n", name, p.files, p.files == 1 ? "" : "s",
			str_format_bytes(p.bytes, size));
		r = send_archive(target, &p, ret, e);
	}
	if (p.fd >= 0)
		(void)close(p.fd); /* it has no name */
	return r;
}

static int deploy_template(const char *name, const json_t *settings, json_t **ret, struct error *e)
{
	_cleanup_free_ char *path = NULL;
	int r = agents_path(name, "", &path, e);

	return r < 0 ? r : agents_call("PUT", path, settings, ret, e);
}

/* --- watching --- */

static void print_entry(const json_t *entry)
{
	const char *text = json_tree_text(entry, "message");

	if (strcmp(json_tree_text(entry, "level"), "debug") != 0)
		clean_print_error(str_starts_with(text, "[") ? "" : "  ", text);
}

/* Prints what is new. */
static int show_new(const char *path, json_int_t *from, bool *ret_more, struct error *e)
{
	_cleanup_free_ char *target =
		str_printf("%s/logs?limit=100&logsOffset=%lld", path, (long long)*from);
	json_t *answer = NULL, *entry;
	size_t i;
	int r = target ? agents_call("GET", target, NULL, &answer, e) : no_memory(e);

	if (r < 0)
		return r;
	json_array_foreach(json_object_get(answer, "logs"), i, entry) print_entry(entry);
	*from = json_integer_value(json_object_get(answer, "next"));
	*ret_more = i > 0 || strcmp(json_tree_text(answer, "state"), "building") == 0;
	json_decref(answer);
	if (i == 0 && *ret_more)
		(void)nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
	return 0;
}

static int report(const json_t *v, uint64_t begin_ns, struct error *e)
{
	const json_t *why = json_object_get(v, "error");
	const char *cold = json_tree_text(v, "notWarm");

	if (why)
		return error_set(e, ERROR_BAD_IMAGE, ECANCELED, "version %lld failed: %.900s",
			(long long)json_integer_value(json_object_get(v, "version")),
			json_tree_text(why, "message"));
	fprintf(stderr, "%s version %lld is ready: %s, started by '%s' (%.1f s)%s%s\n",
		json_tree_text(v, "agent"),
		(long long)json_integer_value(json_object_get(v, "version")),
		json_tree_text(v, "kind"), json_tree_text(v, "entry"),
		(double)(clock_monotonic_ns() - begin_ns) / 1e9, *cold ? "; not warm: " : "", cold);
	return 0;
}

static int watch(const json_t *v, uint64_t begin_ns, bool json, struct error *e)
{
	json_int_t from = 0;
	char rest[32];
	bool more = true;
	_cleanup_free_ char *path = NULL;
	json_t *end = NULL;
	int r;

	(void)snprintf(rest, sizeof(rest), "/versions/%lld",
		(long long)json_integer_value(json_object_get(v, "version"))); /* fits */
	r = agents_path(json_tree_text(v, "agent"), rest, &path, e);
	while (r == 0 && more)
		r = show_new(path, &from, &more, e);
	if (r == 0)
		r = agents_call("GET", path, NULL, &end, e);
	if (r == 0)
		r = report(end, begin_ns, e);
	if (r == 0 && json)
		return json_print(end, e);
	json_decref(end);
	return r;
}

/* --- the verb --- */

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct deploy_options *o = values;
	const char *dir = argc ? argv[0] : o->template ? NULL : ".";
	_cleanup_free_ char *name = NULL;
	json_t *settings = NULL, *made = NULL;
	uint64_t begin_ns = clock_monotonic_ns();
	int r = argc > 1 ? cli_no_arguments(argc - 1, argv + 1, e) : 0;

	if (r == 0 && !dir && !o->name)
		r = error_set(e, ERROR_USAGE, EINVAL, "an agent of a template needs --name");
	if (r < 0)
		return r;
	name = name_of(o->name, dir);
	if (!name)
		return error_set_errno(e, ERROR_USAGE, errno, "cannot find %s", dir ? dir : ".");
	r = make_settings(o, name, dir, &settings, e);
	if (r == 0)
		r = dir ? deploy_directory(dir, name, settings, &made, e)
			: deploy_template(name, settings, &made, e);
	json_decref(settings);
	if (r == 0)
		r = watch(made, begin_ns, o->common.json, e);
	json_decref(made);
	return r;
}

static const struct option_spec options[] = {
	{"name", 'n', OPTION_STRING, "NAME", "of the agent (the directory's)",
		offsetof(struct deploy_options, name), 0, 0, false},
	{"secret", 0, OPTION_LIST, "VARIABLE[=VALUE|@HOST]",
		"set a variable to a placeholder that becomes the value on the way to HOST "
		"(repeatable)",
		offsetof(struct deploy_options, secrets), 0, 0, false},
	{"plain-secret", 0, OPTION_LIST, "VARIABLE[=VALUE]",
		"set a variable to a secret that the program sees (repeatable)",
		offsetof(struct deploy_options, plain_secrets), 0, 0, false},
	{"env", 'e', OPTION_LIST, "NAME[=VALUE]", "set a variable (repeatable)",
		offsetof(struct deploy_options, env), 0, 0, false},
	{"cpus", 0, OPTION_NUMBER, "N", "of an invocation (2)",
		offsetof(struct deploy_options, cpus), 1, 64, false},
	{"memory", 0, OPTION_BYTES, "SIZE", "of an invocation (2G)",
		offsetof(struct deploy_options, memory_bytes), MIB, UINT64_MAX, false},
	{"disk", 0, OPTION_BYTES, "SIZE", "of an invocation (10G)",
		offsetof(struct deploy_options, disk_bytes), MIB, UINT64_MAX, false},
	{"timeout", 0, OPTION_DURATION, "TIME", "of an invocation (120s)",
		offsetof(struct deploy_options, timeout_ns), NS_PER_S,
		AGENT_SETTING_TIMEOUT_MAX_S *NS_PER_S, false},
	{"concurrency", 0, OPTION_NUMBER, "N", "of invocations at the same time (64)",
		offsetof(struct deploy_options, concurrency), 1, AGENT_SETTING_CONCURRENCY_MAX,
		false},
	{"entry", 0, OPTION_STRING, "COMMAND", "that starts the program",
		offsetof(struct deploy_options, entry), 0, 0, false},
	{"install", 0, OPTION_STRING, "COMMAND", "that installs what it needs",
		offsetof(struct deploy_options, install), 0, 0, false},
	{"runtime", 0, OPTION_STRING, "NAME", "node-20, python-3.12, deno or base",
		offsetof(struct deploy_options, runtime), 0, 0, false},
	{"protocol", 0, OPTION_STRING, "stdin|http", "http: the program listens on $PORT (stdin)",
		offsetof(struct deploy_options, protocol), 0, 0, false},
	{"start", 0, OPTION_STRING, "warm|cold",
		"cold: by each invocation, not before the snapshot (warm)",
		offsetof(struct deploy_options, start), 0, 0, false},
	{"template", 'T', OPTION_STRING, "NAME", "template to build on, with or without a DIR",
		offsetof(struct deploy_options, template), 0, 0, false},
	CLI_OPTION_NETWORK(struct deploy_options),
	CLI_OPTION_ALLOW(struct deploy_options),
	CLI_OPTION_ALLOW_IN(struct deploy_options),
	CLI_OPTION_DENY(struct deploy_options),
	CLI_OPTION_POLICY(struct deploy_options),
	CLI_OPTION_WAITING(struct deploy_options),
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

const struct cli_verb agents_verb_deploy = {
	.name = "deploy",
	.arguments = "[DIR]",
	.summary = "Make a new version of an agent from a directory",
	.description = "The directory's files tell what it is: Dockerfile, package.json, "
		       "requirements.txt or\n"
		       "pyproject.toml, Deno's files, or agent.json, which may also have the "
		       "settings. The build's\n"
		       "output goes to standard error. The new version becomes current when its "
		       "build is complete.",
	.options = options,
	.values_bytes = sizeof(struct deploy_options),
	.run = run,
};
