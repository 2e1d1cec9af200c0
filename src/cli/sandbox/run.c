/* `mayfly run`: runs a command in a fresh sandbox, and leaves nothing of it behind. */
#include "cli/sandbox/run.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/sandbox/secret_options.h"
#include "image/home.h"
#include "io/jailed.h"
#include "sandbox/sandbox.h"

#define MIB UINT64_C(0x100000)

static const struct run_options defaults = {.template = "base", .jail = "on"};

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
	{"timing", 0, OPTION_FLAG, NULL, "print on standard error how long it took",
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
	{"direct", 0, OPTION_FLAG, NULL, "start the microVM here, also when a daemon runs",
		offsetof(struct run_options, direct), 0, 0, false},
	CLI_OPTION_NETWORK(struct run_options),
	CLI_OPTION_POLICY(struct run_options),
	CLI_OPTION_WAITING(struct run_options),
	CLI_OPTION_SECRET(struct run_options),
	CLI_OPTION_JAIL(struct run_options),
	/* habits of other programs' users: standard input is always passed, nothing ever stays */
	{"interactive", 'i', OPTION_FLAG, NULL, "", offsetof(struct run_options, ignored), 0, 0,
		true},
	{"rm", 0, OPTION_FLAG, NULL, "", offsetof(struct run_options, ignored), 0, 0, true},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int check(const struct run *r, struct error *e)
{
	const struct run_options *o = r->o;

	if (r->argc == 0)
		return error_set(e, ERROR_USAGE, EINVAL,
			"no command: mayfly run [OPTION]... [--] COMMAND [ARG]...");
	if ((o->kernel && !o->boot) || (o->modules && !o->kernel))
		return error_set(e, ERROR_USAGE, EINVAL,
			o->kernel && !o->boot ? "--kernel needs --boot"
					      : "--modules needs --kernel");
	if (o->network.waiting && !o->network.policy && !o->network.word)
		return error_set(
			e, ERROR_USAGE, EINVAL, "--while-waiting needs --policy or --network");
	if (o->memory % MIB)
		return error_set(e, ERROR_USAGE, EINVAL, "--memory: whole MB only");
	return 0;
}

/* Options that the daemon's API lacks need a sandbox of our own. */
static bool wants_direct(const struct run_options *o)
{
	return o->direct || o->boot || o->ready_timeout;
}

static double ms_since(const struct run *r, uint64_t ns)
{
	return (double)(ns - r->begin_ns) / (double)NS_PER_MS;
}

void run_print_timing(const struct run *r, uint64_t ready_ns, uint64_t ended_ns)
{
	fprintf(stderr, "mayfly: create to ready %.1f ms", (double)ready_ns / (double)NS_PER_MS);
	if (r->result.first_output_ns)
		fprintf(stderr, ", first output after %.1f ms",
			ms_since(r, r->result.first_output_ns));
	fprintf(stderr, ", command ended after %.1f ms, all gone after %.1f ms\n",
		ms_since(r, ended_ns), ms_since(r, clock_monotonic_ns()));
}

/* If a command failed while the host's disk is full, that is most likely the reason: the guest only
 * sees an input/output error. The same holds if it did not end, because a file system that cannot
 * write lets its writers wait. */
int run_explain_failure(
	const struct run *r, const struct sandbox_dirs *dirs, int err, struct error *e)
{
	struct error full = {0};

	if ((err < 0 && e->code != ERROR_TIMEOUT) || sandbox_dirs_check_room(dirs, &full) == 0 ||
		full.code != ERROR_NO_SPACE)
		return err;
	if (err < 0) {
		error_clear(e);
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"the time limit passed (--timeout), and the disk is full: %s",
			full.message);
	}
	if (r->result.status == 0) {
		fprintf(stderr, "mayfly: %s\n", full.message);
		return 0;
	}
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"the command failed (status %d) and the disk is full: %s", r->result.status,
		full.message);
}

static int run_somewhere(struct run *r, struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	struct home home = HOME_INIT;
	int err = wants_direct(r->o) ? -ECONNREFUSED : home_open(NULL, &home, e);

	if (err == 0)
		err = client_try(&home, &c, e);
	if (err == 0)
		err = run_in_daemon(r, &home, c, e);
	home_close(&home);
	if (err != -ECONNREFUSED || e->code != ERROR_NONE)
		return err;
	/* without a word about it: no daemon runs, or none is wanted */
	if (r->secrets)
		return error_set(e, ERROR_USAGE, ECONNREFUSED,
			"--secret: secrets are the daemon's: start mayfly serve, and leave out "
			"--direct, --boot and --ready-timeout");
	return run_directly(r, e);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct run r = {.o = values, .argc = argc, .argv = argv, .begin_ns = clock_monotonic_ns()};
	int err = check(&r, e);

	if (err == 0)
		err = jailed_configure(r.o->jail, e);
	if (err == 0)
		err = environment_read(&r.o->env, &r.env, e);
	if (err == 0)
		err = network_options_body(&r.o->network, &r.network, e);
	if (err == 0)
		err = secret_options_body(&r.o->secrets, &r.secrets, e);
	if (err == 0)
		err = run_somewhere(&r, e);
	environment_done(&r.env);
	json_decref(r.network);
	json_decref(r.secrets);
	return err < 0 ? err : r.result.status;
}

const struct cli_verb cli_verb_run = {
	.name = "run",
	.arguments = "[--] COMMAND [ARG]...",
	.summary = "Run a command in a fresh microVM",
	.description = "A running daemon (mayfly serve) makes the sandbox. Without a daemon, or "
		       "with --direct, --boot,\n"
		       "--kernel or --ready-timeout, this program makes it. The microVM is "
		       "restored from the template's\n"
		       "snapshot, the command runs in it, and it is gone afterwards. Standard "
		       "input, output and error\n"
		       "are passed as bytes. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 "
		       "go to the command. If\n"
		       "the command does not end within 10 seconds after SIGTERM or SIGQUIT, or "
		       "after the reader of its\n"
		       "output has gone, its microVM is ended.\n\n"
		       "What a rule of --policy asks a person is asked on the terminal if this "
		       "program made the\n"
		       "sandbox, else by mayfly approvals.\n\n"
		       "The exit status is the command's, or 128 + n if signal n ended it; 124 "
		       "after --timeout, 125 if\n"
		       "the microVM ended by itself, 126 or 127 if the command cannot be executed "
		       "or does not exist.",
	.options = options,
	.defaults = &defaults,
	.values_bytes = sizeof(struct run_options),
	.run = run,
	.options_first = true,
};
