/* Shows progress of long work on standard error: a bar on a terminal, a line per stage elsewhere,
 * or a JSON object a line for programs. A
 * `passing` view is for work that is usually short and that nobody asked for. It leaves nothing on
 * the terminal, and shows nothing elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "image/progress.h"

enum { PROGRESS_STAGE_MAX = 64 };

struct progress_view {
	struct progress progress; /* for the functions that report progress */
	bool tty, passing, json;
	bool drawn; /* a bar is on the current line */
	char stage[PROGRESS_STAGE_MAX];
	uint64_t begin_ns, stage_ns, drawn_ns;
};

void progress_view_open(struct progress_view *v, bool passing);

/* How it is shown: "auto" (as above), "plain" (a line per stage) or "json". ERROR_USAGE. */
int progress_view_choose(struct progress_view *v, const char *how, struct error *e);

/* Of a view with `json`: a line of its own. Takes the object. */
void progress_view_say(struct progress_view *v, json_t *line);
/* Ends the last stage. */
void progress_view_close(struct progress_view *v);

#endif
