/* The network of one sandbox: the clients' settings, and the policy for its worker. */
#ifndef NETWORK_NETWORK_H
#define NETWORK_NETWORK_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "fleet/instance.h"
#include "store/sandboxes.h"
#include "proto/egress_reach.h"

struct fleet;

/* Whether the operator has turned the network off for all sandboxes, so that none needs a
 * worker. */
bool network_is_off(const struct fleet *f);

/* Makes the policy's line for the worker of this sandbox: less than NETWORK_POLICY_MAX bytes,
 * malloc'ed (policy/network_policy.h). It may hold secrets: free it with secret_free(). Returns
 * NULL on failure. *ret_reach: for the worker's dialler, which is told first (reach_tell.h). */
char *network_policy_text(
	const struct instance *i, struct egress_reach *ret_reach, struct error *e);

/* Makes the sandbox's authority if it intercepts anything. Call it before the sandbox is made. */
int network_prepare(struct instance *i, struct error *e);

/* A secret of the sandbox's key was made, changed or removed. If the sandbox uses it, this tells
 * the worker, with a new generation of the policy. name: in lower case; "" stands for any secret of
 * the key. Called by renewal.h. */
void network_renew(struct instance *i, const char *name);

/* A decision of a person for longer holds for the sandbox from now on, or holds no more. Makes a
 * new generation of its policy, and notes it in its activity. Called by decisions.h and
 * renewal.h. */
void network_decided(struct instance *i, const char *approval_id);

/* Replaces allowOut, denyOut, allowIn, dnsServers, rules and egressProxy of a running sandbox with
 * those of `update`, and its setting for the internet with `internet`. Of these, members that
 * `update` lacks are cleared. Other members stay. `update` is already checked
 * (policy/network_check.h). Writes the row before it calls fleet->network_changed. */
int network_change(
	struct instance *i, const json_t *update, enum store_internet internet, struct error *e);

/* Replaces the sandbox's policy with a checked document (docs/policy.md), or removes it (NULL).
 * Otherwise like network_change(). */
int network_change_policy(struct instance *i, json_t *policy, struct error *e);

/* Keeps the table of names and their addresses for later workers: an object of at most
 * NETWORK_NAMES_MAX bytes. On failure the older table stays. */
int network_keep_names(struct instance *i, const char *names, struct error *e);

#endif
