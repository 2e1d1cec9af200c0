/* `mayfly run` with a daemon: the sandbox is the daemon's. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/quote.h"
#include "cli/remote/remote_command.h"
#include "cli/sandbox/create.h"
#include "cli/sandbox/run.h"

enum { COMMAND_MAX = 1024 };

static json_t *metadata_of(const struct run *r)
{
	_cleanup_free_ char *command = quote_command(r->argc, r->argv);

	/* for mayfly ps only: what cannot be told is not */
	return json_pack("{s:s*}", REMOTE_COMMAND_METADATA,
		command && strlen(command) <= COMMAND_MAX ? command : NULL);
}

static int create(const struct run *r, struct client *c, struct remote *remote, struct error *e)
{
	const struct run_options *o = r->o;
	json_t *env = environment_json(&r->env), *metadata = metadata_of(r);
	const struct create_order order = {.template = o->template,
		.timeout_ns = REMOTE_LEASE_S * NS_PER_S,
		.cpus = o->cpus,
		.memory = o->memory,
		.disk = o->disk,
		.env = env,
		.metadata = metadata,
		.network = r->network,
		.secrets = r->secrets};
	int err = remote_create(c, env ? create_body(&order) : NULL, remote->id, e);

	json_decref(env);
	json_decref(metadata);
	return err;
}

static int execute(struct run *r, const struct remote *remote, struct error *e)
{
	const struct remote_command command = {.start = {.remote = remote,
						       .argc = r->argc,
						       .argv = r->argv,
						       .workdir = r->o->workdir,
						       .tty = r->o->tty,
						       .lease = true},
		.deadline_ns = r->o->timeout ? r->begin_ns + r->o->timeout : 0};

	return remote_command_run(&command, &r->result, e);
}

/* The daemon's sandboxes have their files on this host, too. */
static int explain(const struct run *r, const struct home *home, int err, struct error *e)
{
	struct sandbox_dirs dirs = SANDBOX_DIRS_INIT;
	struct error none = {0};

	if (sandbox_dirs_open(home->path, &dirs, &none) == 0)
		err = run_explain_failure(r, &dirs, err, e);
	sandbox_dirs_close(&dirs);
	return err;
}

int run_in_daemon(struct run *r, const struct home *home, struct client *c, struct error *e)
{
	struct remote remote = {.home = *home, .user = r->o->user};
	struct error gone = {0};
	uint64_t ready_ns, ended_ns;
	int err = create(r, c, &remote, e);

	if (err < 0)
		return err;
	ready_ns = clock_monotonic_ns() - r->begin_ns;
	err = explain(r, home, execute(r, &remote, e), e);
	ended_ns = clock_monotonic_ns();
	(void)remote_remove(home, remote.id, &gone); /* it ended by itself, or its time will */
	if (err == 0 && r->o->timing)
		run_print_timing(r, ready_ns, ended_ns);
	return err;
}
