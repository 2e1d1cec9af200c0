/* Runs one cell in the interpreter of a sandbox. Shows output as it comes, then the results, and
 * passes SIGINT on. docs/interpreter.md describes the protocol. */
#ifndef CLI_CODE_RUN_H
#define CLI_CODE_RUN_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/code/code_sandbox.h"
#include "cli/code/code_show.h"

enum { CODE_SOURCE_MAX = 15 * 1024 * 1024 }; /* of a cell; the interpreter accepts 16 MiB of JSON */

struct code_cell {
	const char *source; /* UTF-8 without NUL */
	size_t source_bytes;
	const char *language;	/* or NULL, with context_id */
	const char *context_id; /* or NULL: the language's default context */
	json_t *env;		/* object of strings, borrowed, or NULL */
	uint64_t timeout_ns;	/* 0: none */
};

/* Blocks SIGINT, SIGTERM, SIGHUP and SIGQUIT permanently. Returns a descriptor for
 * signals_read(). */
int code_signals_open(int *ret_fd, struct error *e);

/* Returns 0 when the cell has ended and everything is shown, even after an exception
 * (code_show_failed()). Returns 128 + n after a signal n. A signal or any failure interrupts the
 * cell. Fails with ERROR_TIMEOUT. */
int code_run(const struct code_sandbox *s, const struct code_cell *cell, int signal_fd,
	struct code_show *show, struct error *e);

#endif
