/* Cells from a terminal, one after the other. */
#ifndef CLI_CODE_REPL_H
#define CLI_CODE_REPL_H

#include "cli/code_run.h"

/* Reads from standard input until its end. A cell ends with an empty line or ^D, a ^D instead of a
 * cell ends the loop; SIGINT drops what was typed or interrupts the cell. `like` says everything of
 * the cells but their source. Returns 0, or 128 + n after another signal. */
int code_repl(const struct code_sandbox *s, const struct code_cell *like, int signal_fd,
	struct code_show *show, struct error *e);

#endif
