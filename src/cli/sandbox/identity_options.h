/* The option --identity of create: tokens that tell services which sandbox a request comes from. */
#ifndef CLI_IDENTITY_OPTIONS_H
#define CLI_IDENTITY_OPTIONS_H

#include <jansson.h>

#include "base/error.h"
#include "base/options.h"

/* The type has a struct option_list `identities`. */
#define CLI_OPTION_IDENTITY(type)                                                                  \
	{                                                                                          \
		"identity", 0, OPTION_LIST, "NAME=AUDIENCE@HOST[,HOST]...",                        \
			"requests to HOST carry a token for AUDIENCE that says which sandbox "     \
			"asks (repeatable)",                                                       \
			offsetof(type, identities), 0, 0, false                                    \
	}

/* Makes the member `iam` of POST /v2/sandboxes. *ret stays NULL if the option was not given. Adds
 * the headers for the tokens to *network as `rules`; makes *network if it is NULL. */
int identity_options_body(
	const struct option_list *list, json_t **ret, json_t **network, struct error *e);

#endif
