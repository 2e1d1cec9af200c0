/* VMs made in advance, so that making a sandbox only means claiming one.
 *
 * The pool keeps VMs of templates, with the templates' own sizes, and of snapshots that serve as
 * templates. stock.h decides which and how many. A VM is restored but not running: no guest code
 * runs before somebody claims it. So its clock cannot go wrong and it has drawn no random numbers.
 * The claimer resumes it and sets its identity as after any restore. A VM has a directory and an
 * id, which become the sandbox's. It has no row in the store: nothing shows or meters it. It ends
 * with the daemon, however that ends; recovery removes what is left.
 *
 * Life of a VM:
 *	MAKING	a worker restores it at idle priority, at most POOL_MAKERS at a time. While
 *		sandboxes are being made, only one begins per POOL_TICK_MS. None begins while a
 *		sandbox just handed out is busy (stock.h)
 *	READY	counted against the host's quota; its process is watched
 *	(end)	claimed: the sandbox owns it, with its place in the quota. Or ended: no longer
 *		wanted, dead, its template was rebuilt, or its place is needed
 *
 * For the loop's thread. A NULL pool has nothing and wants nothing. */
#ifndef FLEET_POOL_H
#define FLEET_POOL_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "fleet/stock.h"
#include "sandbox/backend.h"

enum {
	POOL_MAKERS = 2,
	POOL_TICK_MS = 1000,
	POOL_CHECK_TICKS = 5,
	POOL_MEMORY_PERCENT = 25,
	POOL_LOOK_MS = 250,   /* how often to look at the sandbox handed out last */
	POOL_REST_PERCENT = 8 /* it rests when it uses at most this share of a CPU between two
			       * looks */
};

struct fleet;
struct pool;

/* Starts to fill the pool. f->pool stays NULL if the options or the backend want none. */
int pool_start(struct fleet *f, struct error *e);
/* Ends all VMs. The loop must run until they are gone. */
void pool_stop(struct fleet *f);
void pool_free(struct fleet *f);

/* Hands a VM of that kind over to the caller, with its place in the quota. Returns false if there
 * is none. usual: the request names no sizes; only such requests make the kind wanted. */
bool pool_claim(struct pool *p, const struct stock_key *k, bool usual, struct backend_sandbox *ret);

/* Ends VMs until the host's quota has `count` places of these sizes. Ends none if even all would
 * not suffice. */
void pool_make_room(struct pool *p, const struct sandbox_sizes *s, unsigned count);

/* Call it when a sandbox was made, from the pool or not. pid is its process, 0 if it failed. The
 * pool refills once that sandbox rests and no other is being made. */
void pool_handed_out(struct pool *p, pid_t pid);

/* Sets METRIC_POOL_READY. */
void pool_measure(const struct pool *p);

#endif
