/* What the sandboxes of a key or template may reach at most, as text: "off", or names and addresses
 * as in allowOut, with commas or blanks between them; or a policy (network_document.h). NULL and ""
 * say nothing. */
#ifndef POLICY_NETWORK_LIST_H
#define POLICY_NETWORK_LIST_H

#include <jansson.h>

#include "base/error.h"

enum { NETWORK_LIST_MAX = 64, NETWORK_LIST_TEXT_MAX = 4096 };

/* ERROR_USAGE or ERROR_LIMIT; the message begins with `what`. */
int network_list_check(const char *text, const char *what, struct error *e);

/* The layer of a policy (docs/network.md). id: of its rules, "key" is "key[0]" and so on, and of
 * that which denies the rest. *ret stays NULL if the text says nothing. What cannot be read allows
 * nothing. 0 or -1: out of memory. */
int network_list_layer(const char *text, const char *id, json_t **ret);

#endif
