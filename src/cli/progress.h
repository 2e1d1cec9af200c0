/* Shows progress of long work on standard error: a bar on a terminal, a line per stage elsewhere,
 * or lines of JSON for programs. A `passing` view is for work that is usually short and that the
 * user did not ask for. It leaves nothing on the terminal, and shows nothing elsewhere. */
#ifndef CLI_PROGRESS_H
#define CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "cli/clean.h"
#include "image/progress.h"

enum { PROGRESS_STAGE_MAX = 64, PROGRESS_REST_MAX = 3 };

struct progress_view {
	struct progress progress; /* for the functions that report progress */
	bool tty, passing, json;
	bool drawn; /* a bar is on the current line */
	char stage[PROGRESS_STAGE_MAX];
	uint64_t begin_ns, stage_ns, drawn_ns;
	struct clean_stream output;
	char rest[PROGRESS_REST_MAX]; /* of output: a character that is not complete */
	size_t rest_bytes;
};

struct progress_step {
	size_t number, count; /* from 1 */
	unsigned line;	      /* of the Dockerfile */
	const char *text; /* of others, as all texts here: what disturbs a terminal is cleaned */
	bool cached;
};

void progress_view_open(struct progress_view *v, bool passing);

/* Chooses how progress is shown: "auto" (as above), "plain" (a line per stage) or "json". Fails
 * with ERROR_USAGE. */
int progress_view_choose(struct progress_view *v, const char *how, struct error *e);

/* What a build says. With `json` these are the events that docs/cli.md has, whose members stay as
 * they are. Output comes in any pieces. */
void progress_view_step(struct progress_view *v, const struct progress_step *s);
void progress_view_output(struct progress_view *v, const void *data, size_t n);
void progress_view_note(struct progress_view *v, unsigned line, const char *text);
/* Only with `json`: otherwise the command says it at its end. */
void progress_view_failed(struct progress_view *v, const struct error *e);

/* Ends the last stage. */
void progress_view_close(struct progress_view *v);

#endif
