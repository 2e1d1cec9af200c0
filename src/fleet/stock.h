/* The pool's bookkeeping (pool.h): which kinds of VMs it keeps, how many there are, and which to
 * make or end next. It takes no action itself. The caller passes the time (CLOCK_MONOTONIC).
 *
 * VMs of one kind are interchangeable. A kind is kept while it is wanted and for STOCK_IDLE_S after
 * that, with as many VMs as the options say. All VMs together may promise memory up to a limit.
 * When it is reached, the kind whose last use is longest ago gives way. If VMs of a kind cannot be
 * made, or die, the kind is retried after a delay. The delay doubles each time until a VM is taken.
 *
 * Making a VM takes CPU time from the sandbox that was handed out last, just when its client runs
 * the first command. So no VM is begun until that sandbox rests or STOCK_QUIET_MS have passed. A
 * series of hand-outs delays this by at most STOCK_QUIET_MAX_MS. */
#ifndef FLEET_STOCK_H
#define FLEET_STOCK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/sandbox.h"
#include "store/store.h"

enum {
	STOCK_EACH_MAX = 256,
	STOCK_NAMED_MAX = 64,
	STOCK_KINDS_MAX = 128,
	STOCK_IDLE_S = 600,
	STOCK_YIELD_S = 60, /* a kind wanted this much later takes another kind's room */
	STOCK_RETRY_S = 1,
	STOCK_RETRY_MAX_S = 60,
	STOCK_QUIET_MS = 5000,
	STOCK_QUIET_MAX_MS = 15000,
};

struct stock_options {
	unsigned each; /* VMs of each kind; 0: only of the templates named below */
	struct {
		char template[STORE_NAME_MAX + 1];
		unsigned count;
	} named[STOCK_NAMED_MAX];
	unsigned named_count;
	uint64_t memory_bytes; /* promised by all VMs together */
};

/* Parses an option's value, "N" or "TEMPLATE=N". */
int stock_parse_option(struct stock_options *o, const char *text, struct error *e);
/* Whether the options allow any VM at all. */
bool stock_is_wanted(const struct stock_options *o);

struct stock_key {
	const char *template; /* its name */
	const char *snapshot; /* id of a sandbox's snapshot; NULL: the template itself */
	uint64_t made_s;      /* when the template was built */
	struct sandbox_sizes sizes;
};

/* One VM; embedded in the owner's struct. */
struct stock_vm {
	struct stock_vm *next;
	struct stock_kind *kind;
};

struct stock_kind {
	struct stock_kind *next;
	struct stock_key key; /* owned strings */
	unsigned target, ready, making;
	uint64_t wanted_ns;
	bool gone; /* removed as soon as it has no VMs */
	uint64_t not_before_ns;
	unsigned failures;    /* since a VM was taken */
	struct stock_vm *vms; /* oldest first, and taken in that order */
};

struct stock {
	struct stock_options options;
	struct stock_kind *kinds;
	unsigned kind_count;
	uint64_t memory_bytes; /* of VMs that are ready or being made */
	uint64_t handed_out_ns,
		put_off_ns; /* the last hand-out, and the first since a VM was begun; 0: none that
			     * matters */
};

void stock_init(struct stock *s, const struct stock_options *o);
/* Frees the kinds. The VMs must have been taken out. */
void stock_done(struct stock *s);

/* Notes that VMs of this kind are used. Returns false if none are kept of it: there are too many
 * kinds, or the options say so. */
bool stock_want(struct stock *s, const struct stock_key *k, uint64_t now_ns);
/* What the kind was made from has changed or is gone. */
void stock_forget(struct stock_kind *kind);

/* Takes a VM of the kind out; NULL if there is none. */
struct stock_vm *stock_take(struct stock *s, const struct stock_key *k);

/* stock_hand_out: a sandbox was handed out, from the pool or not. stock_rest: that sandbox rests
 * now. stock_is_quiet: whether the stock still waits for it to rest. */
void stock_hand_out(struct stock *s, uint64_t now_ns);
void stock_rest(struct stock *s);
bool stock_is_quiet(const struct stock *s, uint64_t now_ns);

/* The kind to make a VM of now, or NULL. It stays valid until one of the next three is called. */
struct stock_kind *stock_begin(struct stock *s, uint64_t now_ns);
void stock_add(struct stock *s, struct stock_kind *kind, struct stock_vm *vm);
void stock_failed(struct stock *s, struct stock_kind *kind, uint64_t now_ns);
/* There is no room for the VM now; this does not count as a failure. */
void stock_postpone(struct stock *s, struct stock_kind *kind, uint64_t now_ns);

/* Takes out a VM that died. */
void stock_died(struct stock *s, struct stock_vm *vm, uint64_t now_ns);
/* Takes out a VM to end, or returns NULL. Removes kinds that are of no more use. */
struct stock_vm *stock_surplus(struct stock *s, uint64_t now_ns);
/* Takes out a VM of the kind whose last use is longest ago; NULL if there are none. */
struct stock_vm *stock_yield(struct stock *s);

#endif
