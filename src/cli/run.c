/* `mayfly run`: a fresh sandbox, a command in it, and nothing left of it afterwards. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "cli/progress.h"
#include "cli/quote.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "daemon/sandbox.h"
#include "image/home.h"

#define MIB UINT64_C(0x100000)

enum { LOG_LINES = 12, ENV_MAX = OPTION_LIST_MAX, READY_DEFAULT_S = SANDBOX_READY_S };

struct run_options {
	struct cli_common common;
	const char *template;
	uint64_t cpus, memory, disk, timeout, ready_timeout;
	struct option_list env;
	const char *workdir, *user;
	bool tty, timing, boot, ignored;
	const char *kernel, *modules;
};

static const struct run_options defaults = {.template = "base"};

static const struct option_spec options[] = {
	{"template", 'T', OPTION_STRING, "NAME", "template to run in (default base)",
		offsetof(struct run_options, template), 0, 0, false},
	{"cpus", 0, OPTION_NUMBER, "N", "CPUs, 1 to 4 (default: the template's)",
		offsetof(struct run_options, cpus), 1, SANDBOX_CPUS_MAX, false},
	{"memory", 0, OPTION_BYTES, "SIZE", "memory, 128M to 4G (default: the template's)",
		offsetof(struct run_options, memory), SANDBOX_MEMORY_MB_MIN *MIB,
		SANDBOX_MEMORY_MB_MAX *MIB, false},
	{"disk", 0, OPTION_BYTES, "SIZE",
		"size of the root disk, up to 10G (default: the template's)",
		offsetof(struct run_options, disk), 1, SANDBOX_DISK_MB_MAX *MIB, false},
	{"timeout", 0, OPTION_DURATION, "TIME", "end the command after this time, with status 124",
		offsetof(struct run_options, timeout), 1, 365 * 24 * 3600 * NS_PER_S, false},
	{"env", 'e', OPTION_LIST, "NAME[=VALUE]",
		"set a variable, or pass this environment's (repeatable)",
		offsetof(struct run_options, env), 0, 0, false},
	{"workdir", 'w', OPTION_STRING, "DIR", "directory to run in (default: the template's)",
		offsetof(struct run_options, workdir), 0, 0, false},
	{"user", 'u', OPTION_STRING, "NAME", "user to run as: a name, UID or UID:GID",
		offsetof(struct run_options, user), 0, 0, false},
	{"tty", 't', OPTION_FLAG, NULL, "give the command a terminal",
		offsetof(struct run_options, tty), 0, 0, false},
	{"timing", 0, OPTION_FLAG, NULL, "say on standard error how long it took",
		offsetof(struct run_options, timing), 0, 0, false},
	{"boot", 0, OPTION_FLAG, NULL, "boot the kernel instead of restoring a snapshot",
		offsetof(struct run_options, boot), 0, 0, false},
	{"kernel", 0, OPTION_STRING, "FILE",
		"with --boot: another kernel (vmlinux, bzImage or .deb)",
		offsetof(struct run_options, kernel), 0, 0, false},
	{"modules", 0, OPTION_STRING, "DIR", "with --kernel: its modules",
		offsetof(struct run_options, modules), 0, 0, false},
	{"ready-timeout", 0, OPTION_DURATION, "TIME", "time for the sandbox to become ready (60s)",
		offsetof(struct run_options, ready_timeout), 1, 3600 * NS_PER_S, false},
	/* habits of other programs' users: standard input is always passed, nothing ever stays */
	{"interactive", 'i', OPTION_FLAG, NULL, "", offsetof(struct run_options, ignored), 0, 0,
		true},
	{"rm", 0, OPTION_FLAG, NULL, "", offsetof(struct run_options, ignored), 0, 0, true},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

struct run {
	const struct run_options *o;
	int argc;
	char **argv;
	struct home home;
	struct sandbox_dirs dirs;
	char *env[ENV_MAX]; /* owned */
	unsigned env_count;
	struct sandbox *sandbox;
	struct session_result result;
	uint64_t begin_ns;
};

static void done(struct run *r)
{
	sandbox_destroy(r->sandbox);
	sandbox_dirs_close(&r->dirs);
	home_close(&r->home);
	for (unsigned i = 0; i < r->env_count; i++)
		free(r->env[i]);
}

static int add_env(struct run *r, const char *item, struct error *e)
{
	const char *value;
	char *entry;

	if (*item == '\0' || *item == '=')
		return error_set(
			e, ERROR_USAGE, EINVAL, "--env '%s': expected NAME=VALUE or NAME", item);
	if (strchr(item, '=')) {
		entry = strdup(item);
	} else {
		value = getenv(item);
		if (!value)
			return 0; /* not set here, so not there either */
		entry = malloc(strlen(item) + strlen(value) + 2);
		if (entry)
			(void)stpcpy(stpcpy(stpcpy(entry, item), "="), value);
	}
	if (!entry)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r->env[r->env_count++] = entry;
	return 0;
}

static int check(struct run *r, struct error *e)
{
	const struct run_options *o = r->o;
	int err = 0;

	if (r->argc == 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"no command: mayfly run [OPTION]... [--] COMMAND [ARG]...");
	if ((o->kernel && !o->boot) || (o->modules && !o->kernel))
		return error_set(e, ERROR_USAGE, EINVAL,
			o->kernel && !o->boot ? "--kernel needs --boot"
					      : "--modules needs --kernel");
	if (o->memory % MIB)
		return error_set(e, ERROR_USAGE, EINVAL, "--memory: whole MB only");
	for (unsigned i = 0; err == 0 && i < o->env.count; i++)
		err = add_env(r, o->env.items[i], e);
	return err;
}

static int create(struct run *r, struct error *e)
{
	_cleanup_free_ char *command = quote_command(r->argc, r->argv);
	struct progress_view view;
	struct sandbox_options so = {
		.template = r->o->template,
		.cpus = (unsigned)r->o->cpus,
		.memory_bytes = r->o->memory,
		.disk_bytes = r->o->disk,
		.env = (const char *const *)r->env,
		.env_count = r->env_count,
		.command = command,
		.boot = r->o->boot,
		.kernel = r->o->kernel,
		.modules = r->o->modules,
		.ready_timeout_ns = r->o->ready_timeout,
	};
	int err = home_open(NULL, &r->home, e);

	if (err == 0)
		err = sandbox_dirs_open(r->home.path, &r->dirs, e);
	if (err < 0)
		return err;
	progress_view_open(&view, true);
	so.progress = &view.progress;
	err = sandbox_create(&r->home, &r->dirs, &so, &r->sandbox, e);
	progress_view_close(&view);
	if (err == 0 && r->o->boot)
		err = sandbox_wait_ready(r->sandbox, e);
	return err;
}

static int execute(struct run *r, struct error *e)
{
	const char *term = getenv("TERM");
	char term_entry[128];
	const char *env[1] = {term_entry};
	struct agent_exec exec = {
		.flags = AGENT_EXEC_KILL_ON_CLOSE | (r->o->tty ? AGENT_EXEC_PTY : AGENT_EXEC_STDIN),
		.user = r->o->user,
		.cwd = r->o->workdir,
		.argv = {.array = (const char *const *)r->argv, .count = (uint32_t)r->argc},
	};
	struct session_options so = {.sandbox = r->sandbox,
		.exec = &exec,
		.deadline_ns = r->o->timeout ? r->begin_ns + r->o->timeout : 0};

	if (r->o->tty) {
		terminal_size(&exec.cols, &exec.rows);
		(void)snprintf(term_entry, sizeof(term_entry), "TERM=%s",
			term && *term ? term : "xterm"); /* names of terminals are short */
		exec.env.array = env;
		exec.env.count = 1;
	}
	return session_run(&so, &r->result, e);
}

static double ms_since(const struct run *r, uint64_t ns)
{
	return (double)(ns - r->begin_ns) / (double)NS_PER_MS;
}

static void print_timing(const struct run *r, uint64_t ready_ns, uint64_t ended_ns)
{
	fprintf(stderr, "mayfly: create to ready %.1f ms", (double)ready_ns / (double)NS_PER_MS);
	if (r->result.first_output_ns)
		fprintf(stderr, ", first output after %.1f ms",
			ms_since(r, r->result.first_output_ns));
	fprintf(stderr, ", command ended after %.1f ms, all gone after %.1f ms\n",
		ms_since(r, ended_ns), ms_since(r, clock_monotonic_ns()));
}

/* What the guest said last helps when it did not come up. */
static void print_boot_log(const struct run *r, const struct error *e)
{
	if (r->sandbox && !sandbox_is_ready(r->sandbox) && e->code != ERROR_HOST_SLOW)
		sandbox_print_log(r->sandbox, LOG_LINES, stderr);
}

/* A command that failed on a host whose disk is full most likely failed of that: inside, it was an
 * input/output error, which tells nobody what to do. */
static int explain_failure(struct run *r, struct error *e)
{
	struct error full = {0};

	if (sandbox_check_room(r->sandbox, &full) == 0 || full.code != ERROR_NO_SPACE)
		return 0;
	if (r->result.status == 0) {
		fprintf(stderr, "mayfly: %s\n", full.message);
		return 0;
	}
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"the command failed (status %d) and the disk is full: %s", r->result.status,
		full.message);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct run r = {.o = values,
		.argc = argc,
		.argv = argv,
		.home = HOME_INIT,
		.dirs = SANDBOX_DIRS_INIT,
		.begin_ns = clock_monotonic_ns()};
	uint64_t ready_ns = 0, ended_ns = 0;
	int err = check(&r, e);

	if (err == 0)
		err = create(&r, e);
	if (err == 0)
		err = execute(&r, e);
	if (err == 0)
		err = explain_failure(&r, e);
	if (err < 0) {
		print_boot_log(&r, e);
	} else {
		ready_ns = sandbox_ready_ns(r.sandbox);
		ended_ns = clock_monotonic_ns();
	}
	sandbox_destroy(TAKE_PTR(r.sandbox));
	if (err == 0 && r.o->timing)
		print_timing(&r, ready_ns, ended_ns);
	done(&r);
	return err < 0 ? err : r.result.status;
}

const struct cli_verb cli_verb_run = {
	.name = "run",
	.arguments = "[--] COMMAND [ARG]...",
	.summary = "Run a command in a fresh microVM",
	.description = "The microVM is restored from the template's snapshot, the command runs in "
		       "it, and it\n"
		       "is gone afterwards. Standard input, output and error are passed as bytes "
		       "both ways, and\n"
		       "SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 go to the command. "
		       "Where a command\n"
		       "does not end within 10 seconds after SIGTERM or SIGQUIT, or after its "
		       "output's reader\n"
		       "went away, its microVM is ended.\n\n"
		       "The exit status is the command's, or 128 + n when signal n ended it; 124 "
		       "after --timeout,\n"
		       "125 when the microVM ended by itself, 126 and 127 when the command cannot "
		       "be executed or\n"
		       "does not exist.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct run_options),
	.run = run,
	.options_first = true,
};
