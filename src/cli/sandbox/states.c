/* `mayfly pause` and `mayfly resume`, and the calls that the other verbs for states share. */
#include "cli/sandbox/states.h"

#include <errno.h>
#include <stdio.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "cli/cli.h"
#include "cli/remote/remote.h"

static int call(struct remote *r, const struct client_request *q, json_t *body, json_t **ret,
	struct error *e)
{
	_cleanup_(client_closep) struct client *c = NULL;
	int err = client_open(&r->home, &c, e);

	return err < 0 ? err : client_call(c, q, body, STATES_PATIENCE_S, ret, e);
}

int states_post(const char *prefix, const char *what, json_t *body, json_t **ret, struct error *e)
{
	_cleanup_(remote_close) struct remote r = REMOTE_INIT;
	_cleanup_free_ char *target = NULL;
	struct client_request q = {.method = "POST"};
	int err = body ? remote_open(prefix, &r, e)
		       : error_set(e, ERROR_USAGE, EINVAL, "an argument is not UTF-8");

	if (err == 0) {
		q.target = target = str_printf("/sandboxes/%s/%s", r.id, what);
		err = target ? call(&r, &q, body, ret, e)
			     : error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	json_decref(body);
	return err;
}

int states_ask(const char *method, const char *target, json_t **ret, struct error *e)
{
	_cleanup_(remote_close) struct remote r = REMOTE_INIT;
	const struct client_request q = {.method = method, .target = target};
	int err = home_open(NULL, &r.home, e);

	return err < 0 ? err : call(&r, &q, NULL, ret, e);
}

int states_check_count(int argc, int least, int most, const char *usage, struct error *e)
{
	return argc >= least && argc <= most ? 0 : error_set(e, ERROR_USAGE, EINVAL, "%s", usage);
}

/* --- pause --- */

struct pause_options {
	struct cli_common common;
	bool disk_only;
};

static const struct option_spec pause_options[] = {
	{"disk-only", 0, OPTION_FLAG, NULL,
		"keep its disks only: its processes end, and it boots when it is resumed",
		offsetof(struct pause_options, disk_only), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int pause_run(void *values, int argc, char **argv, struct error *e)
{
	const struct pause_options *o = values;
	int r = states_check_count(argc, 1, 1, "give the id of a sandbox: mayfly pause ID", e);

	return r < 0 ? r
		     : states_post(argv[0], "pause", json_pack("{s:b}", "memory", !o->disk_only),
			       NULL, e);
}

const struct cli_verb cli_verb_pause = {
	.name = "pause",
	.arguments = "ID",
	.summary = "Put a sandbox of the daemon aside",
	.description = "Saves its memory and disks and stops it. It then takes only disk space and "
		       "has no deadline.\n"
		       "mayfly resume continues it, even after a restart of this host.",
	.options = pause_options,
	.values_bytes = sizeof(struct pause_options),
	.run = pause_run,
};

/* --- resume --- */

struct resume_options {
	struct cli_common common;
	uint64_t timeout;
	bool boot;
};

enum { RESUME_DEFAULT_S = 300 };

static const struct resume_options resume_defaults = {.timeout = RESUME_DEFAULT_S * NS_PER_S};

static const struct option_spec resume_options[] = {
	{"timeout", 0, OPTION_DURATION, "TIME", "its life, from now on (default 5m)",
		offsetof(struct resume_options, timeout), NS_PER_S, INT32_MAX *NS_PER_S, false},
	{"boot", 0, OPTION_FLAG, NULL, "boot it from its disks, without its memory",
		offsetof(struct resume_options, boot), 0, 0, false},
	CLI_OPTION_HELP,
	CLI_OPTIONS_END,
};

static int resume_run(void *values, int argc, char **argv, struct error *e)
{
	const struct resume_options *o = values;
	int r = states_check_count(argc, 1, 1, "give the id of a sandbox: mayfly resume ID", e);

	return r < 0 ? r
		     : states_post(argv[0], "resume",
			       json_pack("{s:I, s:b}", "timeout",
				       (json_int_t)((o->timeout + NS_PER_S - 1) / NS_PER_S),
				       "memory", !o->boot),
			       NULL, e);
}

const struct cli_verb cli_verb_resume = {
	.name = "resume",
	.arguments = "ID",
	.summary = "Bring a paused sandbox back",
	.description = "It continues where it was, with its processes. Its clock is set.",
	.options = resume_options,
	.defaults = &resume_defaults,
	.values_bytes = sizeof(struct resume_options),
	.run = resume_run,
};
