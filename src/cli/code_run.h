/* One cell in the interpreter of a sandbox, joined to this process: its output as it comes, its
 * results, SIGINT to it. The wire is that of docs/interpreter.md. */
#ifndef CLI_CODE_RUN_H
#define CLI_CODE_RUN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/code_sandbox.h"
#include "cli/code_show.h"

enum { CODE_SOURCE_MAX = 15 * 1024 * 1024 }; /* of a cell; the interpreter takes 16 MiB of JSON */

struct code_cell {
	const char *source; /* UTF-8 without NUL */
	size_t source_bytes;
	const char *language;	/* or NULL, with context_id */
	const char *context_id; /* or NULL: the language's own */
	json_t *env;		/* object of strings, borrowed, or NULL */
	uint64_t timeout_ns;	/* 0: none */
};

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT for good and returns a descriptor for
 * signals_read(). */
int code_signals_open(int *ret_fd, struct error *e);

/* Returns 0 when the cell has ended and all is shown, also when it raised an exception
 * (code_show_failed()), 128 + n after a signal n: the cell was interrupted then, as it is when
 * anything fails. ERROR_TIMEOUT. */
int code_run(const struct code_sandbox *s, const struct code_cell *cell, int signal_fd,
	struct code_show *show, struct error *e);

#endif
