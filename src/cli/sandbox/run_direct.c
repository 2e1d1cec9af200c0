/* `mayfly run` without a daemon: the microVM is a child of this process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "cli/progress.h"
#include "cli/quote.h"
#include "cli/remote/session_agent.h"
#include "cli/sandbox/run.h"
#include "cli/sandbox/run_ask.h"
#include "cli/terminal.h"
#include "image/home.h"
#include "io/jailed.h"
#include "network/direct_network.h"
#include "policy/network_consent.h"
#include "sandbox/agent_call.h"
#include "sandbox/sandbox.h"
#include "sandbox/vmm_request.h"

enum { LOG_LINES = 12 };
#define HOLD_NS (10 * NS_PER_S)

struct direct {
	struct run *run;
	struct home home;
	struct sandbox_dirs dirs;
	struct cgroup_tree cgroups;
	struct sandbox *sandbox;
	struct network_floor *floor;	/* with this host's resolvers, or NULL */
	struct direct_network *network; /* or NULL */
	struct run_ask *ask;		/* likewise */
};

/* --- the network --- */

/* As freeze of a daemon's sandbox (lifecycle/freeze.h): its monotonic clock stands still, and its
 * wall clock is set when it goes on. */
static void hold(void *arg, bool on)
{
	const struct direct *d = arg;
	const struct agent_identity now = {
		.fields = AGENT_ID_CLOCK, .realtime_ns = clock_realtime_ns()};
	uint64_t until = clock_monotonic_ns() + HOLD_NS;
	struct agent_conn *agent = NULL;
	struct error e = {0};
	int dirfd = sandbox_dirfd(d->sandbox);
	int r = vmm_request(dirfd, on ? "freeze" : "resume", NULL, 0, &e);

	if (r == 0 && !on)
		r = agent_connect_ready(dirfd, until, &agent, &e);
	if (r == 0 && !on)
		r = agent_identity(agent, until, &now, NULL, &e);
	agent_close(agent);
	if (r < 0)
		log_warn("the sandbox does not %s: %s",
			on ? "stand still" : "go on with the right time", e.message);
}

/* What rules ask a person, the terminal of this process answers. */
static int open_ask(struct direct *d, struct error *e)
{
	struct run_ask_options o = {.policy = json_object_get(d->run->network, "policy"), .arg = d};
	struct network_consent c;
	int r = network_consent_read(d->run->network, &c, e);

	if (r == 0 && c.mode == CONSENT_PAUSE)
		r = error_set(e, ERROR_USAGE, EINVAL,
			"--while-waiting pause needs a daemon: start mayfly serve");
	if (r < 0)
		return r;
	o.hold = c.mode == CONSENT_FREEZE ? hold : NULL;
	r = direct_network_answer(d->network, &o.fd, e);
	return r < 0 ? r : run_ask_open(&o, &d->ask, e);
}

/* A sandbox whose network nobody asked for has none. */
static int open_network(struct direct *d, int *ret_vmm_fd, struct error *e)
{
	const json_t *network = d->run->network;
	const struct network_words none = {.mode = NULL};
	struct network_floors floors = {.all = NULL};
	int r;

	if (!network || network_options_is_off(network))
		return 0;
	r = network_floor_make(&none, &d->floor, e);
	floors.all = d->floor;
	if (r == 0)
		r = direct_network_open(&floors, network, &d->network, ret_vmm_fd, e);
	return r < 0 ? r : open_ask(d, e);
}

/* --- the sandbox --- */

static int create(struct direct *d, struct error *e)
{
	_cleanup_close_ int egress_fd = -1;
	_cleanup_free_ char *command = quote_command(d->run->argc, d->run->argv);
	struct progress_view view;
	struct sandbox_options so = {
		.template = d->run->o->template,
		.cpus = (unsigned)d->run->o->cpus,
		.memory_bytes = d->run->o->memory,
		.disk_bytes = d->run->o->disk,
		.env = (const char *const *)d->run->env.items,
		.env_count = d->run->env.count,
		.command = command,
		.boot = d->run->o->boot,
		.kernel = d->run->o->kernel,
		.modules = d->run->o->modules,
		.ready_timeout_ns = d->run->o->ready_timeout,
	};
	int err = home_open(NULL, &d->home, e);

	if (err == 0)
		err = jailed_prepare(NULL, e);
	if (err == 0 && jailed_weakness())
		log_warn("%s", jailed_weakness());
	if (err == 0)
		err = sandbox_dirs_open(d->home.path, &d->dirs, e);
	if (err < 0)
		return err;
	if (cgroup_tree_open(NULL, false, &d->cgroups, NULL) == 0) /* else without */
		d->dirs.cgroups = &d->cgroups;
	err = open_network(d, &egress_fd, e);
	if (err < 0)
		return err;
	so.egress_fd = egress_fd;
	progress_view_open(&view, true);
	so.progress = &view.progress;
	err = sandbox_create(&d->home, &d->dirs, &so, &d->sandbox, e);
	progress_view_close(&view);
	if (err == 0 && d->network)
		err = direct_network_start(
			d->network, sandbox_dirfd(d->sandbox), sandbox_network(d->sandbox), e);
	return err;
}

static int execute(struct direct *d, struct error *e)
{
	const char *term = getenv("TERM");
	char term_entry[128];
	const char *env[1] = {term_entry};
	struct agent_exec exec = {
		.flags = AGENT_EXEC_KILL_ON_CLOSE |
			 (d->run->o->tty ? AGENT_EXEC_PTY : AGENT_EXEC_STDIN),
		.user = d->run->o->user,
		.cwd = d->run->o->workdir,
		.argv = {.array = (const char *const *)d->run->argv,
			.count = (uint32_t)d->run->argc},
	};
	struct session_agent peer = {.sandbox = d->sandbox, .exec = &exec};
	struct session_options so = {.ops = &session_agent_ops,
		.peer = &peer,
		.tty = d->run->o->tty,
		.deadline_ns = d->run->o->timeout ? d->run->begin_ns + d->run->o->timeout : 0};

	if (d->run->o->tty) {
		terminal_size(&exec.cols, &exec.rows);
		(void)snprintf(term_entry, sizeof(term_entry), "TERM=%s",
			term && *term ? term : "xterm"); /* names of terminals are short */
		exec.env.array = env;
		exec.env.count = 1;
	}
	if (d->ask)
		so.prompt = run_ask_prompt(d->ask);
	return session_run(&so, &d->run->result, e);
}

/* What the guest said last helps when it did not come up. */
static void print_boot_log(const struct direct *d, const struct error *e)
{
	if (d->sandbox && !sandbox_is_ready(d->sandbox) && e->code != ERROR_HOST_SLOW)
		sandbox_print_log(d->sandbox, LOG_LINES, stderr);
}

int run_directly(struct run *r, struct error *e)
{
	struct direct d = {.run = r,
		.home = HOME_INIT,
		.dirs = SANDBOX_DIRS_INIT,
		.cgroups = CGROUP_TREE_INIT};
	uint64_t ready_ns = 0, ended_ns = 0;
	int err = create(&d, e);

	if (err == 0)
		err = run_explain_failure(d.run, &d.dirs, execute(&d, e), e);
	if (err < 0) {
		print_boot_log(&d, e);
	} else {
		ready_ns = sandbox_ready_ns(d.sandbox);
		ended_ns = clock_monotonic_ns();
	}
	run_ask_close(d.ask);
	direct_network_close(d.network);
	network_floor_free(d.floor);
	sandbox_destroy(d.sandbox);
	if (err == 0 && r->o->timing)
		run_print_timing(r, ready_ns, ended_ns);
	sandbox_dirs_close(&d.dirs);
	cgroup_tree_close(&d.cgroups);
	home_close(&d.home);
	return err;
}
