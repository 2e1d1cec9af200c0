/* What sandboxes have used of the budgets of rules (docs/policy.md#budgets). A counter belongs to a
 * sandbox, or to a key, and has the id of its rule. One of a day begins anew at midnight (UTC).
 *
 * A request is charged with the most that it may take, and settled when it has ended. So what a
 * daemon or worker that is killed leaves behind counts too much, never too little. */
#ifndef STORE_BUDGETS_H
#define STORE_BUDGETS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/store.h"

enum {
	STORE_BUDGET_ID_MAX = 64,
	STORE_BUDGETS_KEY_MAX = 4096,  /* counters of a key and its sandboxes */
	STORE_BUDGETS_ALL_MAX = 65536, /* in all */
};

/* Money in millionths of a dollar. */
struct store_amounts {
	uint64_t requests, tokens, micros;
};

struct store_budget {
	const char *key_id;
	const char *sandbox_id; /* NULL: of the key */
	const char *id;
	uint64_t day; /* since 1970; 0: it counts for ever */
	struct store_amounts used;
};

/* The day of a time. */
uint64_t store_budget_day(uint64_t now_ns);

/* Reads b->used; a counter that is not there has used nothing. */
int store_budget_get(struct store *s, struct store_budget *b, struct error *e);

/* Adds to b->used. ERROR_TOO_MANY, -ENOBUFS: one of the bounds. */
int store_budget_charge(
	struct store *s, struct store_budget *b, const struct store_amounts *more, struct error *e);

/* Adds so many tokens and so much money, or takes them away, which leaves 0 at least. Of a counter
 * that is gone: nothing. */
int store_budget_settle(struct store *s, const struct store_budget *b, int64_t tokens,
	int64_t micros, struct error *e);

#endif
