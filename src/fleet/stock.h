/* The bookkeeping of the pool (pool.h): what it keeps VMs of, how many there are, which is to be
 * made or ended next. Nothing is done here, and the time (CLOCK_MONOTONIC) is the caller's.
 *
 * VMs of one kind can stand in for each other. A kind is kept while it is wanted, and for
 * STOCK_IDLE_S after that; of each there are as many as the options say. All together promise
 * memory up to a limit; where it is reached, kinds that were wanted last go first. A kind whose VMs
 * cannot be made, or die, is tried again after a time that doubles each time, until one is taken.
 *
 * Making a VM takes the processors from the sandbox that was handed out last, whose client runs its
 * first command just then. So none is begun until that sandbox rests, or STOCK_QUIET_MS have passed;
 * hand-outs that follow each other put it off by STOCK_QUIET_MAX_MS in all. */
#ifndef DAEMON_STOCK_H
#define DAEMON_STOCK_H

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
	STOCK_YIELD_S = 60, /* wanted that much later: gets the room of another kind */
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
	uint64_t memory_bytes; /* promised by all of them together */
};

/* Takes an option's value, "N" or "TEMPLATE=N". */
int stock_parse_option(struct stock_options *o, const char *text, struct error *e);
/* Whether there can be any VM at all. */
bool stock_is_wanted(const struct stock_options *o);

struct stock_key {
	const char *template; /* its name */
	const char *snapshot; /* id of one of a sandbox; NULL: of the template itself */
	uint64_t made_s;      /* of the template's build */
	struct sandbox_sizes sizes;
};

/* One VM; part of what its owner keeps about it. */
struct stock_vm {
	struct stock_vm *next;
	struct stock_kind *kind;
};

struct stock_kind {
	struct stock_kind *next;
	struct stock_key key; /* owned strings */
	unsigned target, ready, making;
	uint64_t wanted_ns;
	bool gone; /* goes as soon as there are no VMs of it */
	uint64_t not_before_ns;
	unsigned failures;    /* since one was taken */
	struct stock_vm *vms; /* the oldest first; so they are taken */
};

struct stock {
	struct stock_options options;
	struct stock_kind *kinds;
	unsigned kind_count;
	uint64_t memory_bytes; /* of those that are ready or being made */
	uint64_t handed_out_ns,
		put_off_ns; /* the last hand-out, and the first since a VM was begun;
					     * 0: none that matters */
};

void stock_init(struct stock *s, const struct stock_options *o);
/* Frees the kinds; the VMs were taken out. */
void stock_done(struct stock *s);

/* VMs of that kind are used. False when none are kept of it: too many kinds are, or the options
 * say so. */
bool stock_want(struct stock *s, const struct stock_key *k, uint64_t now_ns);
/* What it was made from has changed or is gone. */
void stock_forget(struct stock_kind *kind);

/* Takes a VM of the kind out, NULL when there is none. */
struct stock_vm *stock_take(struct stock *s, const struct stock_key *k);

/* A sandbox was handed out, of the pool or not; it rests now; whether that is awaited. */
void stock_hand_out(struct stock *s, uint64_t now_ns);
void stock_rest(struct stock *s);
bool stock_is_quiet(const struct stock *s, uint64_t now_ns);

/* The kind that one is to be made of now, NULL: none. It stays until one of the next three. */
struct stock_kind *stock_begin(struct stock *s, uint64_t now_ns);
void stock_add(struct stock *s, struct stock_kind *kind, struct stock_vm *vm);
void stock_failed(struct stock *s, struct stock_kind *kind, uint64_t now_ns);
/* There is no room for it now, which is not its fault. */
void stock_postpone(struct stock *s, struct stock_kind *kind, uint64_t now_ns);

/* Takes out one that died. */
void stock_died(struct stock *s, struct stock_vm *vm, uint64_t now_ns);
/* Takes out one that is to be ended, NULL: none. Kinds that are no longer of use go. */
struct stock_vm *stock_surplus(struct stock *s, uint64_t now_ns);
/* Takes out one of the kind whose last use is the longest ago, NULL: there is none at all. */
struct stock_vm *stock_yield(struct stock *s);

#endif
