/* The environment of new processes of a sandbox. */
#ifndef NETWORK_ENVIRONMENT_H
#define NETWORK_ENVIRONMENT_H

#include "fleet/instance.h"

/* Merged from all sources: a NULL-terminated list of "NAME=VALUE". NULL: out of memory. */
char **environment_of(const struct instance *i);
void environment_free(char **env); /* NULL is fine */

#endif
