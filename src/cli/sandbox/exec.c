/* `mayfly exec`: runs a command in a running sandbox. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/json.h"
#include "cli/remote/remote_command.h"

struct exec_options {
	struct cli_common common;
	bool interactive, tty, detach;
	const char *user, *workdir;
	struct option_list env;
};

static const struct option_spec options[] = {
	{"interactive", 'i', OPTION_FLAG, NULL, "pass standard input",
		offsetof(struct exec_options, interactive), 0, 0, false},
	{"tty", 't', OPTION_FLAG, NULL, "give the command a terminal",
		offsetof(struct exec_options, tty), 0, 0, false},
	{"detach", 'd', OPTION_FLAG, NULL, "start it, print its process id, and do not wait",
		offsetof(struct exec_options, detach), 0, 0, false},
	{"user", 'u', OPTION_STRING, "NAME", "user to run as: a name, UID or UID:GID",
		offsetof(struct exec_options, user), 0, 0, false},
	{"workdir", 'w', OPTION_STRING, "DIR", "directory to run in (default: the template's)",
		offsetof(struct exec_options, workdir), 0, 0, false},
	{"env", 'e', OPTION_LIST, "NAME[=VALUE]",
		"set a variable, or pass this environment's (repeatable)",
		offsetof(struct exec_options, env), 0, 0, false},
	CLI_OPTION_JSON,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int detached(
	const struct session_remote_options *start, const struct exec_options *o, struct error *e)
{
	struct session_remote *s = NULL;
	int r = session_remote_open(start, &s, e);
	uint32_t pid;

	if (r == 0)
		r = session_remote_wait_started(s, e);
	pid = r == 0 ? session_remote_pid(s) : 0;
	session_remote_close(s);
	if (r < 0)
		return r;
	if (o->common.json)
		return json_print(remote_process(pid), e);
	printf("%u\n", pid);
	return 0;
}

static int execute(const struct exec_options *o, const struct remote *remote, json_t *env, int argc,
	char **argv, struct error *e)
{
	const struct remote_command command = {.start = {
						       .remote = remote,
						       .argc = argc,
						       .argv = argv,
						       .workdir = o->workdir,
						       .env = env,
						       .tty = o->tty,
						       .no_input = !o->interactive,
					       }};
	struct session_result result = {0};
	int r;

	if (o->detach)
		return detached(&command.start, o, e);
	r = remote_command_run(&command, &result, e);
	return r < 0 ? r : result.status;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct exec_options *o = values;
	struct remote remote = REMOTE_INIT;
	struct environment env = {.count = 0};
	json_t *variables = NULL;
	int r;

	if (argc > 1 && strcmp(argv[1], "--") == 0) {
		argv[1] = argv[0];
		argv++;
		argc--;
	}
	if (argc < 2)
		return error_set(e, ERROR_USAGE, EINVAL,
			"give a sandbox and a command: mayfly exec ID [--] COMMAND [ARG]...");
	if (o->detach && (o->tty || o->interactive))
		return error_set(
			e, ERROR_USAGE, EINVAL, "--detach excludes --tty and --interactive");
	remote.user = o->user;
	r = environment_read(&o->env, &env, e);
	if (r == 0) {
		variables = environment_json(&env);
		r = variables ? remote_open(argv[0], &remote, e)
			      : error_set(e, ERROR_USAGE, EINVAL, "--env: not UTF-8");
	}
	if (r == 0)
		r = execute(o, &remote, variables, argc - 1, argv + 1, e);
	json_decref(variables);
	environment_done(&env);
	remote_close(&remote);
	return r;
}

const struct cli_verb cli_verb_exec = {
	.name = "exec",
	.arguments = "ID [--] COMMAND [ARG]...",
	.summary = "Run a command in a sandbox of the daemon",
	.description =
		"Output and error are passed as they are written, and with --interactive standard "
		"input, too.\n"
		"SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to the command. A "
		"command is killed if\n"
		"it does not end within 10 seconds after SIGTERM or SIGQUIT, or after the reader "
		"of its output has\n"
		"gone. If this program is killed, the command goes on.\n\n"
		"The exit status is the command's, or 128 + n if signal n ended it; 125 if the "
		"sandbox or the\n"
		"daemon ended, 126 or 127 if the command cannot be executed or does not exist.",
	.options = options,
	.values_bytes = sizeof(struct exec_options),
	.run = run,
	.options_first = true,
};
