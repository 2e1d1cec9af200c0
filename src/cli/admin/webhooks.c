/* `mayfly webhooks`: who receives life-cycle events of sandboxes. Needs the running daemon. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/admin/ask.h"
#include "cli/admin/listing.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/table.h"
#include "proto/route.h"

struct webhook_options {
	struct cli_common common;
	struct option_list events;
	const char *secret;
};

static int call(
	const char *method, const char *path, const json_t *body, json_t **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = admin_call(&home, method, path, body, ret, e);
	home_close(&home);
	if (r == -ECONNREFUSED)
		return error_set(e, ERROR_HOST, ECONNREFUSED,
			"no daemon runs here: start one with mayfly serve");
	return r;
}

static int call_one(const char *method, int argc, char **argv, const char *behind, struct error *e)
{
	_cleanup_free_ char *path = NULL;

	if (argc != 1 || !route_is_uuid(argv[0]))
		return error_set(
			e, ERROR_USAGE, EINVAL, "give the id of a webhook: see mayfly webhooks ls");
	path = str_printf("/webhooks/%s%s", argv[0], behind);
	return path ? call(method, path, NULL, NULL, e)
		    : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
}

/* --- add --- */

static json_t *body_of(const struct webhook_options *o, const char *url)
{
	json_t *body = json_object(), *events = json_array();

	(void)json_object_set_new(body, "url", json_text(url)); /* the daemon misses what is not */
	if (o->secret)
		(void)json_object_set_new(body, "secret", json_text(o->secret));
	for (unsigned i = 0; i < o->events.count; i++)
		(void)json_array_append_new(events, json_text(o->events.items[i]));
	(void)json_object_set_new(body, "events", events);
	return body;
}

static int add_run(void *values, int argc, char **argv, struct error *e)
{
	const struct webhook_options *o = values;
	json_t *body, *made = NULL;
	int r;

	if (argc != 1)
		return error_set(e, ERROR_USAGE, EINVAL, "give one URL that is to be told");
	body = body_of(o, argv[0]);
	r = call("POST", "/webhooks", body, &made, e);
	json_decref(body);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(made, e);
	printf("%s\n", ask_text(made, "id"));
	if (!o->secret)
		fprintf(stderr, "Its secret, which is not shown again: %s\n",
			ask_text(made, "secret"));
	json_decref(made);
	return 0;
}

static const struct option_spec add_options[] = {
	{"event", 0, OPTION_LIST, "TYPE",
		"created, killed, timed_out, crashed, ...; may be repeated (all)",
		offsetof(struct webhook_options, events), 0, 0, false},
	{"secret", 0, OPTION_STRING, "TEXT", "signs deliveries (a random one, printed)",
		offsetof(struct webhook_options, secret), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct cli_verb add_verb = {
	.name = "add",
	.arguments = "URL",
	.summary = "Tell a URL of the events of all keys' sandboxes",
	.options = add_options,
	.values_bytes = sizeof(struct webhook_options),
	.run = add_run,
};

/* --- ls --- */

static void print_one(struct table *t, const json_t *w)
{
	char waiting[32];

	(void)snprintf(waiting, sizeof(waiting), "%lld",
		(long long)json_integer_value(json_object_get(w, "waiting"))); /* fits */
	{
		const char *const cells[] = {ask_text(w, "id"), ask_text(w, "url"),
			json_is_true(json_object_get(w, "enabled")) ? "yes" : "no", waiting,
			ask_text(w, "lastError")};

		table_add(t, cells);
	}
}

static int ls_run(void *values, int argc, char **argv, struct error *e)
{
	static const char *const heading[] = {"ID", "URL", "ENABLED", "WAITING", "LAST ERROR"};
	static const struct listing l = {
		.heading = heading, .columns = ARRAY_SIZE(heading), .row = print_one};
	const struct webhook_options *o = values;
	json_t *list = NULL;
	int r = cli_no_arguments(argc, argv, e);

	if (r == 0)
		r = call("GET", "/webhooks", NULL, &list, e);
	return r < 0 ? r : listing_print(&l, list, o->common.json, e);
}

static const struct option_spec ls_options[] = {CLI_OPTION_JSON, CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb ls_verb = {
	.name = "ls",
	.arguments = "",
	.summary = "List webhooks, those of keys too",
	.options = ls_options,
	.values_bytes = sizeof(struct webhook_options),
	.run = ls_run,
};

/* --- rm, test --- */

static int rm_run(void *values, int argc, char **argv, struct error *e)
{
	return call_one("DELETE", argc, argv, "", e);
}

static int test_run(void *values, int argc, char **argv, struct error *e)
{
	return call_one("POST", argc, argv, "/test", e);
}

static const struct option_spec no_options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

static const struct cli_verb rm_verb = {
	.name = "rm",
	.arguments = "ID",
	.summary = "Remove a webhook and the events that wait for it",
	.options = no_options,
	.values_bytes = sizeof(struct webhook_options),
	.run = rm_run,
};

static const struct cli_verb test_verb = {
	.name = "test",
	.arguments = "ID",
	.summary = "Queue a delivery that is no event",
	.description = "mayfly webhooks ls shows whether it was delivered.",
	.options = no_options,
	.values_bytes = sizeof(struct webhook_options),
	.run = test_run,
};

static const struct cli_verb *const verbs[] = {&add_verb, &ls_verb, &rm_verb, &test_verb, NULL};

const struct cli_verb cli_verb_webhooks = {
	.name = "webhooks",
	.arguments = "COMMAND",
	.summary = "Tell others of sandboxes' life cycle",
	.verbs = verbs,
};
