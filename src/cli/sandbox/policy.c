/* `mayfly policy`: shows, sets and checks policies (docs/policy.md). */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/json.h"
#include "cli/remote/admin.h"
#include "cli/remote/remote.h"
#include "cli/sandbox/policy_check.h"
#include "cli/sandbox/policy_suggest.h"
#include "cli/sandbox/states.h"
#include "policy/network_document.h"

struct options {
	struct cli_common common;
	const char *as, *body;
	struct option_list headers;
	bool remove;
};

static const struct option_spec options[] = {
	{"as", 0, OPTION_STRING, "WHAT",
		"with check: the request or connection to judge, 'GET https://HOST/PATH' or "
		"HOST:PORT",
		offsetof(struct options, as), 0, 0, false},
	{"body", 0, OPTION_STRING, "FILE",
		"with check --as: the request's body, for rules that read bodies",
		offsetof(struct options, body), 0, 0, false},
	{"header", 0, OPTION_LIST, "'NAME: VALUE'",
		"with check --as: a header of the request; may be repeated",
		offsetof(struct options, headers), 0, 0, false},
	{"remove", 0, OPTION_FLAG, NULL, "take the sandbox's policy away",
		offsetof(struct options, remove), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* The policy with the decisions that hold beside it. NULL: neither. */
static json_t *policy_of(const json_t *answer)
{
	json_t *policy = json_incref(json_object_get(answer, "policy")),
	       *decisions = json_object_get(answer, "decisions");

	if (!json_is_object(policy)) {
		json_decref(policy);
		policy = decisions ? json_object() : NULL;
	}
	if (decisions)
		(void)json_object_set(policy, "decisions", decisions); /* or without */
	return policy;
}

static int show(const struct remote *remote, const char *target, bool json, struct error *e)
{
	json_t *answer = NULL, *policy = NULL;
	int r = admin_call(&remote->home, "GET", target, NULL, &answer, e);

	if (r == 0 && !json)
		policy = policy_of(answer);
	if (r == 0 && (json || policy))
		r = json_print(json_incref(json ? answer : policy), e);
	else if (r == 0)
		printf("no policy\n");
	json_decref(policy);
	json_decref(answer);
	return r;
}

/* "  requests 3 of 100" */
static void print_amount(const json_t *budget, const char *name)
{
	const json_t *v = json_object_get(budget, name);

	if (v)
		printf("  %s %.7g of %.7g", name, json_number_value(json_object_get(v, "used")),
			json_number_value(json_object_get(v, "limit")));
}

static const char *text_of(const json_t *budget, const char *name)
{
	const char *text = json_string_value(json_object_get(budget, name));

	return text ? text : "";
}

static void print_budget(const json_t *budget)
{
	printf("%s  per %s, %s", text_of(budget, "rule"), text_of(budget, "per"),
		text_of(budget, "window"));
	print_amount(budget, "requests");
	print_amount(budget, "tokens");
	print_amount(budget, "usd");
	printf("  then %s\n", text_of(budget, "then"));
}

static int budgets(const struct remote *remote, const char *target, bool json, struct error *e)
{
	json_t *answer = NULL, *list;
	int r = admin_call(&remote->home, "GET", target, NULL, &answer, e);

	list = json_object_get(answer, "budgets");
	if (r == 0 && json)
		r = json_print(json_incref(answer), e);
	for (size_t i = 0; r == 0 && !json && i < json_array_size(list); i++)
		print_budget(json_array_get(list, i));
	if (r == 0 && !json && json_array_size(list) == 0)
		printf("no budgets\n");
	json_decref(answer);
	return r;
}

static int set(const struct remote *remote, const char *target, const char *file, struct error *e)
{
	json_t *policy = NULL, *decisions = NULL;
	int r = network_document_read(file, file, &policy, &decisions, e);

	json_decref(decisions); /* of people: they stay as they are */

	r = r ? r : admin_call(&remote->home, "PUT", target, policy, NULL, e);
	json_decref(policy);
	return r;
}

static int of_sandbox(
	const struct options *o, const char *id, const char *file, bool used, struct error *e)
{
	_cleanup_free_ char *target = NULL;
	struct remote remote = REMOTE_INIT;
	int r = remote_open(id, &remote, e);

	if (r == 0) {
		target = str_printf("/sandboxes/%s/%s", remote.id, used ? "budgets" : "policy");
		r = target ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	if (r == 0 && used)
		r = budgets(&remote, target, o->common.json, e);
	else if (r == 0 && o->remove)
		r = admin_call(&remote.home, "DELETE", target, NULL, NULL, e);
	else if (r == 0)
		r = file ? set(&remote, target, file, e) : show(&remote, target, o->common.json, e);
	if (r == -ECONNREFUSED && e->code == ERROR_NONE)
		r = client_no_daemon(&remote.home, e);
	remote_close(&remote);
	return r;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct options *o = values;
	bool check = argc > 0 && strcmp(argv[0], "check") == 0;
	bool suggest = argc > 0 && strcmp(argv[0], "suggest") == 0;
	bool used = argc > 0 && strcmp(argv[0], "budgets") == 0;
	bool asks = o->as || o->body || o->headers.count;
	int r = states_check_count(argc, check || suggest || used ? 2 : 1, 2,
		"give the id of a sandbox, and perhaps a file: mayfly policy ID [FILE]; or mayfly "
		"policy check FILE --as WHAT; or mayfly policy suggest ID; or mayfly policy "
		"budgets ID",
		e);

	if (r < 0)
		return r;
	if (check)
		return policy_check(argv[1], &(struct policy_check){o->as, o->body, &o->headers},
			o->common.json, e);
	if (suggest && !asks && !o->remove)
		return policy_suggest(argv[1], e);
	if (asks || (o->remove && argc == 2))
		return error_set(e, ERROR_USAGE, EINVAL,
			asks ? "--as, --body and --header are for mayfly policy check FILE"
			     : "--remove and a file exclude each other");
	if (used)
		return of_sandbox(o, argv[1], NULL, true, e);
	return of_sandbox(o, argv[0], argc == 2 ? argv[1] : NULL, false, e);
}

const struct cli_verb cli_verb_policy = {
	.name = "policy",
	.arguments = "ID [FILE] | check FILE | suggest ID | budgets ID",
	.summary = "Show, set or check the rules of a sandbox's network",
	.description =
		"With a file, its policy applies from now on; connections that it does not allow "
		"end.\n"
		"check reads a policy as the daemon does. With --as it says which rule decides, "
		"and why.\n"
		"suggest prints the smallest policy that would have allowed what a sandbox did.\n"
		"budgets prints how much of its budgets a sandbox has used.\n"
		"docs/policy.md describes the language.",
	.options = options,
	.values_bytes = sizeof(struct options),
	.run = run,
};
