/* `allowIn` of a network object (docs/network.md): which other sandboxes of the same key may
 * connect to this one, and to which ports. Without it no sandbox may. */
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

/* Checks the entries: "*", ids of sandboxes, or values of their metadata `name`, perhaps with
 * ":PORT". network may be NULL. Fails with ERROR_USAGE or ERROR_LIMIT; the message begins with the
 * member. */
int network_in_check(const json_t *network, struct error *e);

/* Whether a caller of this port may run code in the sandbox: the code interpreter's, debuggers'. An
 * entry lets callers in there only if it has ":PORT". */
bool network_in_runs_code(uint16_t port);

/* Finds the entry that lets another sandbox connect to the port. id, name: of that sandbox; name is
 * from its metadata, or NULL. network: checked, or NULL. Returns the entry's index, or -1 if it may
 * not connect. */
int network_in_find(const json_t *network, const char *id, const char *name, uint16_t port);

#endif
