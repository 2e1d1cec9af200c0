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
	bool remove;
};

static const struct option_spec options[] = {
	{"as", 0, OPTION_STRING, "WHAT",
		"with check: the request or connection to judge, 'GET https://HOST/PATH' or "
		"HOST:PORT",
		offsetof(struct options, as), 0, 0, false},
	{"body", 0, OPTION_STRING, "FILE",
		"with check --as: the request's body, if rules speak of models and tools",
		offsetof(struct options, body), 0, 0, false},
	{"remove", 0, OPTION_FLAG, NULL, "take the sandbox's policy away",
		offsetof(struct options, remove), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

/* The answer's policy as JSON, or that there is none. */
static int show(const struct remote *remote, const char *target, bool json, struct error *e)
{
	json_t *answer = NULL, *policy;
	int r = admin_call(&remote->home, "GET", target, NULL, &answer, e);

	policy = json_object_get(answer, "policy");
	if (r == 0 && (json || json_is_object(policy)))
		r = json_print(json_incref(json ? answer : policy), e);
	else if (r == 0)
		printf("no policy\n");
	json_decref(answer);
	return r;
}

static int set(const struct remote *remote, const char *target, const char *file, struct error *e)
{
	json_t *policy = NULL;
	int r = network_document_read(file, file, &policy, e);

	r = r ? r : admin_call(&remote->home, "PUT", target, policy, NULL, e);
	json_decref(policy);
	return r;
}

static int of_sandbox(const struct options *o, const char *id, const char *file, struct error *e)
{
	_cleanup_free_ char *target = NULL;
	struct remote remote = REMOTE_INIT;
	int r = remote_open(id, &remote, e);

	if (r == 0) {
		target = str_printf("/sandboxes/%s/policy", remote.id);
		r = target ? 0 : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	if (r == 0 && o->remove)
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
	int r = states_check_count(argc, check || suggest ? 2 : 1, 2,
		"give the id of a sandbox, and perhaps a file: mayfly policy ID [FILE]; or mayfly "
		"policy check FILE --as WHAT; or mayfly policy suggest ID",
		e);

	if (r < 0)
		return r;
	if (check)
		return policy_check(argv[1], o->as, o->body, o->common.json, e);
	if (suggest && !o->as && !o->body && !o->remove)
		return policy_suggest(argv[1], e);
	if (o->as || o->body || (o->remove && argc == 2))
		return error_set(e, ERROR_USAGE, EINVAL,
			o->as || o->body ? "--as and --body are for mayfly policy check FILE"
					 : "--remove and a file exclude each other");
	return of_sandbox(o, argv[0], argc == 2 ? argv[1] : NULL, e);
}

const struct cli_verb cli_verb_policy = {
	.name = "policy",
	.arguments = "ID [FILE] | check FILE | suggest ID",
	.summary = "Show, set or check the rules of a sandbox's network",
	.description =
		"With a file, its policy holds from now on; connections that it does not allow "
		"end.\n"
		"check reads a policy as the daemon does. With --as it says which rule decides, "
		"and why.\n"
		"suggest prints the smallest policy that would have allowed what a sandbox did.\n"
		"The language is in docs/policy.md.",
	.options = options,
	.values_bytes = sizeof(struct options),
	.run = run,
};
