/* Runs cells that are typed at a terminal. */
#ifndef CLI_CODE_REPL_H
#define CLI_CODE_REPL_H

#include "cli/code/code_run.h"

/* Reads standard input until its end. An empty line or ^D ends a cell; a ^D instead of a cell ends
 * the loop. SIGINT drops what was typed, or interrupts the cell. `like` describes the cells except
 * for their source. Returns 0, or 128 + n after another signal n. */
int code_repl(const struct code_sandbox *s, const struct code_cell *like, int signal_fd,
	struct code_show *show, struct error *e);

#endif
