/* The two ways of `mayfly run`: in a sandbox of the daemon, or in one that this process owns. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "cli/environment.h"
#include "cli/remote/client.h"
#include "cli/remote/session.h"
#include "cli/sandbox/network_options.h"
#include "sandbox/sandbox_dir.h"

struct run_options {
	struct cli_common common;
	const char *template;
	uint64_t cpus, memory, disk, timeout, ready_timeout;
	struct option_list env;
	const char *workdir, *user;
	bool tty, timing, boot, direct, ignored;
	const char *kernel, *modules, *jail;
	struct network_options network;
	struct option_list secrets;
};

struct run {
	const struct run_options *o;
	int argc;
	char **argv;
	struct environment env;
	json_t *network; /* of network_options_body(), or NULL */
	json_t *secrets; /* of secret_options_body(), or NULL */
	uint64_t begin_ns;
	struct session_result result;
};

/* Both leave nothing behind. Return 0 with r->result, or -errno. */
int run_directly(struct run *r, struct error *e);
/* Uses an open connection, which stays the caller's. The sandbox gets a short life that this
 * process renews, so it ends soon after a kill -9. */
int run_in_daemon(struct run *r, const struct home *home, struct client *c, struct error *e);

/* Explains a failed command: if it failed, or did not end, and the disk is full, the error says so.
 * Otherwise returns err unchanged. dirs: where the sandbox's files are; call it before they are
 * removed. */
int run_explain_failure(
	const struct run *r, const struct sandbox_dirs *dirs, int err, struct error *e);

/* For --timing, when everything is gone. Times are CLOCK_MONOTONIC; ready_ns counts from the
 * beginning. */
void run_print_timing(const struct run *r, uint64_t ready_ns, uint64_t ended_ns);

#endif
