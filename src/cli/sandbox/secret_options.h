/* The option --secret of create and run: variables that stand for secrets. */
#ifndef CLI_SECRET_OPTIONS_H
#define CLI_SECRET_OPTIONS_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* The type has a struct option_list `secrets`. */
#define CLI_OPTION_SECRET(type)                                                                    \
	{                                                                                          \
		"secret", 0, OPTION_LIST, "VARIABLE=NAME@HOST[,HOST]...",                          \
			"set a variable to a placeholder that becomes the secret NAME on the way " \
			"to HOST (repeatable)",                                                    \
			offsetof(type, secrets), 0, 0, false                                       \
	}

/* Makes the member `secrets` of POST /v2/sandboxes. *ret stays NULL if the option was not given. */
int secret_options_body(const struct option_list *list, json_t **ret, struct error *e);

#endif
