/* Flows and requests that wait for a person (docs/consent.md).
 *
 * A worker asks (docs/egress-protocol.md), here the question becomes an approval in the store,
 * and the decision goes back to the worker. What is durable is in the store. Memory has the
 * flows that wait, so that they are answered: a worker tells a new daemon of them again.
 *
 * Once is for one flow: of several that ask the same, the one that waits longest gets it, and
 * the others ask anew. A denial is for all of them. A decision about a flow that does not wait
 * any more, as its program gave up or its sandbox is paused, is kept APPROVAL_SPARE_S for the
 * next that asks the same; one about a request is not. Everything belongs to the loop's thread. */
#ifndef NETWORK_APPROVALS_H
#define NETWORK_APPROVALS_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "store/approvals.h"

struct approvals;
struct asker;
struct fleet;
struct instance;
struct watch;

enum {
	APPROVAL_SPARE_S = 600,
	APPROVAL_PAUSED_S = 7 * 86400,	  /* likewise, of a sandbox that is paused */
	APPROVALS_PER_SECOND = 250,	  /* asked by a sandbox */
	APPROVALS_KEY_PER_SECOND = 1000,  /* by the sandboxes of a key */
	APPROVAL_WAITERS_MAX = 768,	  /* flows of a sandbox: a worker has no more */
	APPROVAL_TTL_MAX_S = 366 * 86400, /* of a decision for longer */
};

/* For instances_start and instances_stop. */
int approvals_start(struct fleet *f, struct error *e);
void approvals_stop(struct fleet *f);
void approvals_free(struct fleet *f);

/* --- workers --- */

struct asker_ops {
	/* A line for the worker. An error: it does not read, so it is told again later. */
	int (*say)(void *arg, const char *line);
	/* Flows or requests began to wait, or none waits any more. requests: some are requests. */
	void (*waits)(void *arg, bool any, bool requests);
};

/* For the time that a sandbox has a worker. The ops are borrowed. NULL: out of memory. */
struct asker *asker_open(struct instance *i, const struct asker_ops *ops, void *arg);
/* The worker is gone, and with it what waited there. NULL is fine. */
void asker_close(struct asker *a);
/* What the worker said: the member `ask` of its line. What is no such message is ignored. */
void asker_take(struct asker *a, const json_t *said);

/* Whether the sandbox is to stand still while something of it waits: its network says so. */
bool approvals_freeze(const struct instance *i);
/* Whether it is to be paused to disk when it has stood still for so long. */
bool approvals_pause_after(const struct instance *i, uint64_t *ret_ns);

/* Whether an approval of a sandbox is not decided yet. */
bool approvals_waiting(struct fleet *f, const char *sandbox_id);

/* A pause of the sandbox has failed: its flows, which nobody answers during a pause, are asked
 * about again. */
void approvals_ask_again(const struct instance *i);

/* The sandbox ends: what waits is cancelled. */
void approvals_sandbox_gone(const struct instance *i);

/* --- people --- */

/* state (allowed or denied), decided_by, reason, scope and until_ns of `d` count. key_id: whose it
 * must be; NULL: any. ERROR_EXISTS: it is over already, and how; ERROR_NOT_FOUND. */
int approvals_decide(struct fleet *f, const char *id, const char *key_id,
	const struct store_approval *d, struct error *e);

/* Those who wait for one that is asked or decided (watch.h), about the id of a key. */
struct watch **approvals_watches(struct fleet *f);

/* Whether the signature of a link is that of this approval and of its end, which is to come. */
bool approval_link_holds(const struct store_approval *a, uint64_t expires_s, const char *signature);

#endif
