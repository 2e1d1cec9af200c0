/* A network list: the most that the sandboxes of a key or template may reach, as text. It is "off",
 * or names and addresses as in allowOut, separated by commas or blanks, or a policy
 * (network_document.h). NULL and "" set no limit. */
#ifndef POLICY_NETWORK_LIST_H
#define POLICY_NETWORK_LIST_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"

enum { NETWORK_LIST_MAX = 64, NETWORK_LIST_TEXT_MAX = 4096 };

/* Whether it is "on" or "off", in any case. They are no host names: a list such as "off,x.com" is a
 * mistake. */
bool network_list_is_word(const char *word);

/* Checks a list. Fails with ERROR_USAGE or ERROR_LIMIT; the message begins with `what`. */
int network_list_check(const char *text, const char *what, struct error *e);

/* Returns the names and addresses of a checked list that is no policy; of "off" an empty array.
 * NULL: it sets no limit, or out of memory. */
json_t *network_list_words(const char *text);

/* Makes a layer of a worker's policy (docs/network.md). id: for its rules, which become "key[0]"
 * and so on for "key"; the rule that denies the rest has the id itself. *ret stays NULL if the list
 * sets no limit. A list that cannot be read allows nothing. Returns 0, or -1 when out of memory. */
int network_list_layer(const char *text, const char *id, json_t **ret);

#endif
