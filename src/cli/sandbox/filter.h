/* `--filter NAME=VALUE` of verbs for many sandboxes. All these verbs select alike, so `mayfly ps`
 * shows exactly what `mayfly kill --all` ends. */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"
#include "cli/sandbox/row.h"

struct filter {
	struct option_list items; /* all must hold */
	bool all;		  /* include paused ones, if no item is about the state */
};

#define CLI_OPTION_FILTER(type)                                                                    \
	{                                                                                          \
		"filter", 'f', OPTION_LIST, "NAME=VALUE",                                          \
			"only those with key=NAME, metadata.K=V, state=running|paused, "           \
			"template=NAME (repeatable: all must hold)",                               \
			offsetof(type, filter.items), 0, 0, false                                  \
	}

/* ERROR_USAGE for an item that has no meaning. */
int filter_check(const struct filter *f, struct error *e);
/* For a filter that filter_check() has accepted. Selects paused sandboxes only if the filter asks
 * for them. */
bool filter_selects(const struct filter *f, const struct row *r);

#endif
