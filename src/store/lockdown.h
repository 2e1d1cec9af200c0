/* Whether this host is locked down (docs/operations.md#at-three-in-the-morning). One row, which a
 * migration makes, so that a full disk does not stop an operator. */
#ifndef STORE_LOCKDOWN_H
#define STORE_LOCKDOWN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

struct store;

/* What sandboxes, people and clients are told. */
#define LOCKDOWN_TEXT "this host is locked down"

struct store_lockdown {
	bool egress;	   /* no sandbox reaches anything */
	bool approvals;	   /* nobody decides anything; all that is asked is denied */
	bool keys;	   /* no key and no token of a sandbox is accepted */
	uint64_t since_ns; /* 0: not locked down */
};

int store_lockdown_get(struct store *s, struct store_lockdown *ret, struct error *e);
/* Replaces it. Synced. */
int store_lockdown_set(struct store *s, const struct store_lockdown *l, struct error *e);

#endif
