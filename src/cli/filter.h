/* `--filter NAME=VALUE` of the verbs that are about many sandboxes: what it selects for one it does
 * for all, so `mayfly ps` shows what `mayfly kill --all` ends. */
#ifndef CLI_FILTER_H
#define CLI_FILTER_H

#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"
#include "cli/row.h"

struct filter {
	struct option_list items; /* all must hold */
	bool all;		  /* paused ones too, when no item is about the state */
};

#define CLI_OPTION_FILTER(type)                                                                    \
	{                                                                                          \
		"filter", 'f', OPTION_LIST, "NAME=VALUE",                                          \
			"only those with key=NAME, metadata.K=V, state=running|paused, "           \
			"template=NAME (repeatable: all must hold)",                               \
			offsetof(type, filter.items), 0, 0, false                                  \
	}

/* ERROR_USAGE for an item that says nothing. */
int filter_check(const struct filter *f, struct error *e);
/* Of a filter that was checked. Paused sandboxes are selected when asked for only. */
bool filter_selects(const struct filter *f, const struct row *r);

#endif
