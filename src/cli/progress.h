/* Progress of long work on standard error: a bar on a terminal, a line per stage elsewhere. A
 * passing view is for work that is mostly short and not what was asked for: nothing of it stays on
 * the terminal, and nothing is shown elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "image/progress.h"

enum { PROGRESS_STAGE_MAX = 64 };

struct progress_view {
	struct progress progress; /* to hand on */
	bool tty, passing;
	bool drawn; /* a bar stands on the current line */
	char stage[PROGRESS_STAGE_MAX];
	uint64_t begin_ns, stage_ns, drawn_ns;
};

void progress_view_open(struct progress_view *v, bool passing);
/* Ends the last stage. */
void progress_view_close(struct progress_view *v);

#endif
