/* The network of one sandbox: what its clients said about it, and what its worker is told. */
#ifndef NETWORK_NETWORK_H
#define NETWORK_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"
#include "store/sandboxes.h"

struct fleet;

/* Whether no sandbox has a network, whatever it says: none needs a worker. */
bool network_is_off(const struct fleet *f);

/* What the worker of this sandbox is told: a line of less than NETWORK_POLICY_MAX bytes, malloc'ed
 * (network_policy.h). It may hold secrets: secret_free() it. NULL: e says why. */
char *network_policy_text(const struct instance *i, struct error *e);

/* Before a sandbox is made: its authority, if something is intercepted. */
int network_prepare(struct instance *i, struct error *e);

/* A secret of its key was made, changed or removed: tells its worker, if it uses it, by a new
 * generation of its policy. name: in lower case; "": any of the key's. For renewal.h. */
void network_renew(struct instance *i, const char *name);

/* Replaces allowOut, denyOut, allowIn, dnsServers, rules and egressProxy of a running sandbox with
 * those of `update`, and what it said about the internet. Members that are not there are cleared;
 * the rest of its network object stays. update was checked (network_check.h). The row is written
 * before fleet->network_changed is called. */
int network_change(
	struct instance *i, const json_t *update, enum store_internet internet, struct error *e);

/* Replaces its policy with a document that was checked (docs/policy.md); NULL: none. Otherwise as
 * network_change(). */
int network_change_policy(struct instance *i, json_t *policy, struct error *e);

/* Keeps the names that got addresses of their own, for the workers to come: an object of at most
 * NETWORK_NAMES_MAX bytes. On failure the older ones stay. */
int network_keep_names(struct instance *i, const char *names, struct error *e);

#endif
