/* `mayfly run` in its two ways: in a sandbox of the daemon, or in one of this process's own. */
#ifndef CLI_RUN_H
#define CLI_RUN_H

#include "cli/cli.h"
#include "cli/client.h"
#include "cli/environment.h"
#include "cli/session.h"
#include "sandbox/sandbox_dir.h"

struct run_options {
	struct cli_common common;
	const char *template;
	uint64_t cpus, memory, disk, timeout, ready_timeout;
	struct option_list env;
	const char *workdir, *user;
	bool tty, timing, boot, direct, ignored;
	const char *kernel, *modules;
};

struct run {
	const struct run_options *o;
	int argc;
	char **argv;
	struct environment env;
	uint64_t begin_ns;
	struct session_result result;
};

/* Both leave nothing behind. 0 with r->result, or -errno. */
int run_directly(struct run *r, struct error *e);
/* On an open connection, which is the caller's. The sandbox is given a short life, renewed while
 * this process lives, so that it ends soon after a kill -9. */
int run_in_daemon(struct run *r, const struct home *home, struct client *c, struct error *e);

/* err of a command, which if it failed, or did not end, on a full disk becomes an explanation of
 * that. dirs: where the sandbox's files are; before they are removed. */
int run_explain_failure(
	const struct run *r, const struct sandbox_dirs *dirs, int err, struct error *e);

/* For --timing, once all is gone; times are CLOCK_MONOTONIC but for ready_ns, from the beginning.
 */
void run_print_timing(const struct run *r, uint64_t ready_ns, uint64_t ended_ns);

#endif
