/* Links that decide an approval (docs/consent.md#links). Only webhooks get them. */
#ifndef NETWORK_APPROVAL_LINK_H
#define NETWORK_APPROVAL_LINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "store/approvals.h"

struct fleet;

/* Makes the member of an event that lets its receiver decide the approval until it expires, or NULL
 * if no link does. operators: only the operator's webhooks may get it. */
json_t *approval_link_json(struct fleet *f, const struct store_approval *a, bool *ret_operators);

/* Whether a link's signature is valid for this approval and the time that the link names, and the
 * approval has not expired. The named time is only when it would have expired when the link was
 * made: the clock may have been set since. */
bool approval_link_holds(const struct store_approval *a, uint64_t expires_s, const char *signature);

#endif
