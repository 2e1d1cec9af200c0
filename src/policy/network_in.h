/* `allowIn` of a network object (docs/network.md): which other sandboxes of the same key may
 * connect to this one, and to which ports. Without it none may. */
#ifndef POLICY_NETWORK_IN_H
#define POLICY_NETWORK_IN_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

enum {
	NETWORK_IN_MAX = 64,	  /* entries */
	NETWORK_IN_NAME_MAX = 63, /* bytes of an id or name in an entry */
};

/* Entries are "*", ids of sandboxes, or values of their metadata `name`; ":PORT" may follow. NULL
 * is fine. ERROR_USAGE or ERROR_LIMIT; the message begins with the member. */
int network_in_check(const json_t *network, struct error *e);

/* Whether another sandbox may connect to the port. name: of its metadata, or NULL. network: that
 * was checked, or NULL. Returns the entry's index, or -1. */
int network_in_find(const json_t *network, const char *id, const char *name, uint16_t port);

#endif
