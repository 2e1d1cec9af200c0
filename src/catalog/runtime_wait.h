/* Waits for the template of a runtime, and has it built if that is allowed (runtime_builds.h). For
 * the loop's thread. */
#ifndef CATALOG_RUNTIME_WAIT_H
#define CATALOG_RUNTIME_WAIT_H

#include <uv.h>

#include "catalog/runtime_builds.h"
#include "catalog/runtime_words.h"

struct runtime_wait_ops {
	/* Something new to tell people about a template that is not there yet. */
	void (*said)(void *arg, const char *text);
	/* The last call. reason: why there will be no template; NULL: it is there. */
	void (*over)(void *arg, const char *reason);
};

struct runtime_wait {
	uv_timer_t timer; /* first; the owner initializes and closes it, which ends the wait */
	struct fleet *fleet;
	struct runtime runtime;
	const struct runtime_wait_ops *ops;
	void *arg;
	char said[RUNTIME_WORDS_MAX];
};

/* Begins a wait; its members are set but for `said`. Calls back at once if there is nothing to wait
 * for, later otherwise. */
void runtime_wait_begin(struct runtime_wait *w);

#endif
