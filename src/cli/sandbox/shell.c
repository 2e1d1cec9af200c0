/* `mayfly shell`: runs a login shell in a named sandbox, or in a new one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "cli/cli.h"
#include "cli/remote/remote_command.h"
#include "cli/sandbox/create.h"

struct shell_options {
	struct cli_common common;
	const char *template, *user, *workdir;
	bool remove;
};

static const struct shell_options defaults = {.template = "base"};

static const struct option_spec options[] = {
	{"rm", 0, OPTION_FLAG, NULL, "end the sandbox with the shell, even if ID was given",
		offsetof(struct shell_options, remove), 0, 0, false},
	{"template", 'T', OPTION_STRING, "NAME", "template of a new one (default base)",
		offsetof(struct shell_options, template), 0, 0, false},
	{"user", 'u', OPTION_STRING, "NAME", "user to log in as: a name, UID or UID:GID",
		offsetof(struct shell_options, user), 0, 0, false},
	{"workdir", 'w', OPTION_STRING, "DIR", "directory to begin in (default: the template's)",
		offsetof(struct shell_options, workdir), 0, 0, false},
	CLI_OPTION_NO_TTY,
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int make(const struct shell_options *o, struct remote *remote, struct error *e)
{
	const struct create_order order = {
		.template = o->template, .timeout_ns = REMOTE_LEASE_S * NS_PER_S};
	struct client *c = NULL;
	int r = home_open(NULL, &remote->home, e);

	if (r == 0)
		r = client_open(&remote->home, &c, e);
	if (r == 0)
		r = remote_create(c, create_body(&order), remote->id, e);
	client_close(c);
	return r;
}

/* bash where it is, with the user's profile. */
static int log_in(
	const struct shell_options *o, const struct remote *remote, bool lease, struct error *e)
{
	static char sh[] = "/bin/sh", option[] = "-c",
		    script[] =
			    "if [ -x /bin/bash ]; then exec /bin/bash -l; else exec /bin/sh -l; fi";
	static char *argv[] = {sh, option, script};
	const struct remote_command command = {.start = {.remote = remote,
						       .argc = 3,
						       .argv = argv,
						       .workdir = o->workdir,
						       .tty = isatty(STDIN_FILENO),
						       .lease = lease}};
	struct session_result result = {0};
	int r = remote_command_run(&command, &result, e);

	return r < 0 ? r : result.status;
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	const struct shell_options *o = values;
	struct remote remote = REMOTE_INIT;
	struct error gone = {0};
	bool own = argc == 0;
	int r;

	if (argc > 1)
		return cli_no_arguments(argc - 1, argv + 1, e);
	remote.user = o->user;
	r = own ? make(o, &remote, e) : remote_open(argv[0], &remote, e);
	if (r == 0) {
		r = log_in(o, &remote, own, e);
		if (own || o->remove)
			(void)remote_remove(
				&remote.home, remote.id, &gone); /* its time ends, too */
	}
	remote_close(&remote);
	return r;
}

const struct cli_verb cli_verb_shell = {
	.name = "shell",
	.arguments = "[ID]",
	.summary = "Log in to a sandbox of the daemon",
	.description = "Without an ID, makes a sandbox for the shell. It ends with the shell, even "
		       "if this program\n"
		       "is killed. The shell has a terminal if standard input is one. Otherwise it "
		       "reads commands\n"
		       "from standard input. The exit status is the shell's.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct shell_options),
	.run = run,
};
