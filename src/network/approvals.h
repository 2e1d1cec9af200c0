/* Flows and requests that wait for a person (docs/consent.md).
 *
 * A worker asks (docs/egress-protocol.md). This module makes an approval of the question and stores
 * it. It sends the decision back to the worker. Approvals are durable. The flows that wait are in
 * memory only; a worker tells a new daemon of them again.
 *
 * "Once" allows one flow. If several flows ask the same, the one that waits longest gets the
 * decision, and the others ask again. A denial is for all of them. A flow may stop waiting before
 * it is decided, because its program gave up or its sandbox is paused. Then the decision is kept
 * for APPROVAL_SPARE_S, for the next flow that asks the same. A decision about a request is not
 * kept. All functions belong to the loop's thread. */
#ifndef NETWORK_APPROVALS_H
#define NETWORK_APPROVALS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "store/approvals.h"

struct approval_decider;
struct approvals;
struct asker;
struct budgets_lent;
struct fleet;
struct instance;
struct watch;

enum {
	APPROVAL_SPARE_S = 600,
	APPROVAL_PAUSED_S = 7 * 86400,	  /* the same while the sandbox is paused */
	APPROVALS_PER_SECOND = 250,	  /* asked by a sandbox */
	APPROVALS_KEY_PER_SECOND = 1000,  /* by the sandboxes of a key */
	APPROVAL_WAITERS_MAX = 768,	  /* flows of a sandbox; a worker has no more */
	APPROVAL_TTL_MAX_S = 366 * 86400, /* longest life of a decision for more than one flow */
};

/* Called by instances_start() and instances_stop(). */
int approvals_start(struct fleet *f, struct error *e);
void approvals_stop(struct fleet *f);
void approvals_free(struct fleet *f);

/* --- workers --- */

struct asker_ops {
	/* Sends a line to the worker. On failure the line is sent again later. */
	int (*say)(void *arg, const char *line);
	/* The first flow or request waits (any), or none waits any more. requests: requests are
	 * among them. */
	void (*waits)(void *arg, bool any, bool requests);
};

/* Opens the connection to approvals for a sandbox that has a worker. Borrows ops, and lent
 * (budgets.h). Returns NULL when out of memory. */
struct asker *asker_open(
	struct instance *i, const struct asker_ops *ops, void *arg, struct budgets_lent *lent);
/* The worker is gone, and its waiting flows with it. NULL is fine. */
void asker_close(struct asker *a);
/* Takes the member `ask` of a line of the worker. Ignores anything that is no such message. */
void asker_take(struct asker *a, const json_t *said);

/* Whether the sandbox's network asks to freeze it while something of it waits. */
bool approvals_freeze(const struct instance *i);
/* Whether a frozen sandbox is to be paused to disk, and after which time. */
bool approvals_pause_after(const struct instance *i, uint64_t *ret_ns);

/* Whether a sandbox has an approval that is not decided yet. */
bool approvals_waiting(struct fleet *f, const char *sandbox_id);

/* A pause of the sandbox has failed. Nobody answers flows during a pause, so this asks about them
 * again. */
void approvals_ask_again(const struct instance *i);

/* The sandbox ends: cancels its approvals. */
void approvals_sandbox_gone(const struct instance *i);

/* --- people --- */

/* Decides an approval. Of `d` it uses state (allowed or denied), decided_by, reason, scope and
 * until_ns. Fails with ERROR_NOT_FOUND, with ERROR_EXISTS if it is decided already (the message
 * says how), with ERROR_FORBIDDEN while this host is locked down, or as approval_right_check(). */
int approvals_decide(struct fleet *f, const char *id, const struct approval_decider *by,
	const struct store_approval *d, struct error *e);

/* Denies all that waits, for this reason. */
void approvals_deny_all(struct fleet *f, const char *why);

/* Returns the list of requests that wait for approvals to be asked or decided (watch.h). They wait
 * for the id of a key. */
struct watch **approvals_watches(struct fleet *f);

#endif
