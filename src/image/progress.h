/* Reports the progress of long operations to a callback. The command line draws it as a bar on a
 * terminal and as plain lines elsewhere. */
#ifndef IMAGE_PROGRESS_H
#define IMAGE_PROGRESS_H

#include <stddef.h>

enum { PROGRESS_NO_PERCENT = -1 };

/* stage: a few words that stay the same during a stage ("install packages"). percent: 0 to 100 of
 * that stage, or PROGRESS_NO_PERCENT. line: what is happening right now, or NULL. A negative result
 * cancels the work, which cleans up and returns that value. Runs on the thread that does the work,
 * at changes of stage and otherwise at most a few times a second. */
typedef int (*progress_fn)(void *opaque, const char *stage, int percent, const char *line);

struct progress {
	progress_fn fn; /* or NULL */
	void *opaque;
};

static inline int progress_report(
	const struct progress *p, const char *stage, int percent, const char *line)
{
	return p && p->fn ? p->fn(p->opaque, stage, percent, line) : 0;
}

#endif
