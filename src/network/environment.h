/* The environment of new processes of a sandbox. */
#ifndef NETWORK_ENVIRONMENT_H
#define NETWORK_ENVIRONMENT_H

#include <jansson.h>

#include "fleet/instance.h"

/* Merges it from all sources. Returns a NULL-terminated list of "NAME=VALUE", or NULL when out of
 * memory. */
char **environment_of(const struct instance *i);
void environment_free(char **env); /* NULL is fine */

/* Adds the variables by which programs find the guest's authorities, where env (an object of texts)
 * has others of these names not. For a guest whose files are at the root. 0 or -ENOMEM. */
int environment_add_trust(json_t *env);

#endif
