/* `mayfly lockdown`: an operator revokes at once what sandboxes, people and clients may do. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/admin/ask.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "image/home.h"

struct lockdown_options {
	struct cli_common common;
	bool egress, approvals, keys, lift, status, yes;
};

static const struct option_spec options[] = {
	{"egress", 0, OPTION_FLAG, NULL, "end all connections of sandboxes, deny new ones",
		offsetof(struct lockdown_options, egress), 0, 0, false},
	{"approvals", 0, OPTION_FLAG, NULL, "deny what waits for a person, refuse decisions",
		offsetof(struct lockdown_options, approvals), 0, 0, false},
	{"keys", 0, OPTION_FLAG, NULL, "refuse all API keys and tokens of sandboxes",
		offsetof(struct lockdown_options, keys), 0, 0, false},
	{"lift", 0, OPTION_FLAG, NULL, "end the lockdown", offsetof(struct lockdown_options, lift),
		0, 0, false},
	{"status", 0, OPTION_FLAG, NULL, "show what is locked down, change nothing",
		offsetof(struct lockdown_options, status), 0, 0, false},
	{"yes", 'y', OPTION_FLAG, NULL, "do not ask", offsetof(struct lockdown_options, yes), 0, 0,
		false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static const struct part {
	const char *name, *effect;
	size_t at; /* of its flag */
} parts[] = {
	{"egress", "connections of all sandboxes are reset, new ones are denied",
		offsetof(struct lockdown_options, egress)},
	{"approvals", "what waits for a person is denied, and nobody can decide",
		offsetof(struct lockdown_options, approvals)},
	{"keys", "API keys and tokens of sandboxes are refused",
		offsetof(struct lockdown_options, keys)},
};

static bool has(const struct lockdown_options *o, const struct part *p)
{
	return *(const bool *)((const char *)o + p->at);
}

/* Whether the user wants it. */
static bool confirm(const struct lockdown_options *o)
{
	_cleanup_free_ char *line = NULL;
	size_t size = 0;

	if (o->yes)
		return true;
	fprintf(stderr, "Until mayfly lockdown --lift:\n");
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		if (has(o, &parts[i]))
			fprintf(stderr, "  %-9s  %s\n", parts[i].name, parts[i].effect);
	fprintf(stderr, "Lock this host down? [y/N] ");
	return getline(&line, &size, stdin) > 0 && (*line == 'y' || *line == 'Y');
}

static int print(const struct lockdown_options *o, json_t *state, struct error *e)
{
	const char *since = ask_text(state, "since");

	if (o->common.json)
		return json_print(json_incref(state), e);
	if (!*since) {
		printf("not locked down\n");
		return 0;
	}
	printf("locked down since %s\n", since);
	for (size_t i = 0; i < ARRAY_SIZE(parts); i++)
		printf("  %-9s  %s\n", parts[i].name,
			json_is_true(json_object_get(state, parts[i].name)) ? parts[i].effect
									    : "as always");
	return 0;
}

/* Workers live on without a daemon, with the policy that they have. */
static bool daemon_runs(void)
{
	_cleanup_(home_close) struct home home = HOME_INIT;
	struct error e = {0};

	return home_open(NULL, &home, &e) == 0 &&
	       admin_call(&home, "GET", "/lockdown", NULL, NULL, &e) != -ECONNREFUSED;
}

static int call(const struct lockdown_options *o, json_t **ret, struct error *e)
{
	json_t *body = json_object();
	int r;

	if (o->status)
		r = ask("GET", "/lockdown", NULL, ret, e);
	else if (o->lift)
		r = ask("DELETE", "/lockdown", NULL, ret, e);
	else {
		for (size_t i = 0; i < ARRAY_SIZE(parts); i++) /* what is missing shows as false */
			(void)json_object_set_new(
				body, parts[i].name, json_boolean(has(o, &parts[i])));
		r = ask("PUT", "/lockdown", body, ret, e);
	}
	json_decref(body);
	return r;
}

static int check(const struct lockdown_options *o, struct error *e)
{
	bool any = o->egress || o->approvals || o->keys;

	if (o->lift + o->status + any > 1)
		return error_set(e, ERROR_USAGE, EINVAL,
			"--lift and --status go with no other choice: a lift is of everything");
	if (!o->lift && !o->status && !o->yes && !isatty(STDIN_FILENO))
		return error_set(e, ERROR_USAGE, EINVAL,
			"a lockdown needs --yes where there is no terminal to ask on");
	return 0;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct lockdown_options *o = values;
	json_t *state = NULL;
	int r = cli_no_arguments(argc, argv, e);

	r = r ? r : check(o, e);
	if (r < 0)
		return r;
	if (!o->egress && !o->approvals && !o->keys)
		o->egress = o->approvals = true;
	if (!o->lift && !o->status && !confirm(o)) {
		fprintf(stderr, "mayfly: nothing was changed\n");
		return 1;
	}
	r = call(o, &state, e);
	r = r ? r : print(o, state, e);
	json_decref(state);
	if (r == 0 && !o->status && !daemon_runs())
		fprintf(stderr,
			"mayfly: no daemon runs, so networks of sandboxes stay as they are until "
			"it does: start mayfly serve\n");
	return r;
}

const struct cli_verb cli_verb_lockdown = {
	.name = "lockdown",
	.arguments = "",
	.summary = "Revoke everything at once, until it is lifted",
	.description =
		"Without a choice of --egress, --approvals and --keys, takes the first two. Says "
		"what it does and asks first, except with --yes. A later lockdown adds to it. It "
		"outlives the daemon and the host, until mayfly lockdown --lift. Nothing is lost: "
		"sandboxes run on, and policies, secrets, decisions that last and keys are as "
		"before after the lift. Only what waited for a person stays denied.",
	.options = options,
	.values_bytes = sizeof(struct lockdown_options),
	.run = run,
};
