/* VMs that are made in advance, so that making a sandbox is claiming one.
 *
 * What is kept: VMs of templates, with the templates' own sizes, and of snapshots of sandboxes that
 * serve as templates. Which and how many, stock.h says. A VM is restored and stands still: nothing
 * of the guest runs before somebody claims it. So it has no clock that goes wrong and no random
 * numbers; the one who claims it resumes it and gives it its identity as after any restore. It has
 * a directory and an id, which is the sandbox's later, and no row in the store: nothing shows it,
 * nothing meters it. It ends with the daemon, however that ends; what is left, recovery removes.
 *
 * Life of a VM:
 *	MAKING	a worker restores it, at idle priority (POOL_MAKERS at a time; while sandboxes are being
 *		made only one every POOL_TICK_MS is begun, and none against a sandbox that was just
 *		handed out: stock.h)
 *	READY	counted against the host's quota; its process is watched
 *	(end)	claimed: belongs to the sandbox, with its place in the quota; or ended: not wanted
 *		any more, dead, its template was built anew, or its place is needed
 *
 * All on the loop's thread. A pool that is NULL has nothing and wants nothing. */
#ifndef DAEMON_POOL_H
#define DAEMON_POOL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "sandbox/backend.h"
#include "fleet/stock.h"

enum {
	POOL_MAKERS = 2,
	POOL_TICK_MS = 1000,
	POOL_CHECK_TICKS = 5,
	POOL_MEMORY_PERCENT = 25,
	POOL_LOOK_MS = 250,   /* how often the sandbox handed out last is looked at */
	POOL_REST_PERCENT = 8 /* it rests when it uses no more of a processor from look to look */
};

struct fleet;
struct pool;

/* Begins to fill it. d->pool stays NULL when the options or the backend want none. */
int pool_start(struct fleet *f, struct error *e);
/* Ends all VMs; the loop must run until that is done. */
void pool_stop(struct fleet *f);
void pool_free(struct fleet *f);

/* A VM of that kind, which is the caller's from now on, with the place of its sizes in the quota.
 * False when there is none. usual: one that is asked for with no sizes; others do not make the kind
 * wanted. */
bool pool_claim(struct pool *p, const struct stock_key *k, bool usual, struct backend_sandbox *ret);

/* Ends VMs until the host's quota has so many places of these sizes; none if even all would not
 * do. */
void pool_make_room(struct pool *p, const struct sandbox_sizes *s, unsigned count);

/* To be called when a sandbox was made, of the pool or not. pid: its process, 0 when it failed. The pool
 * is filled up again when that sandbox rests, and no other is being made. */
void pool_handed_out(struct pool *p, pid_t pid);

/* Sets METRIC_POOL_READY. */
void pool_measure(const struct pool *p);

#endif
