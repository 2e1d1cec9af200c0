/* Counts the budgets of rules (docs/policy.md#budgets) for running sandboxes. A worker asks before
 * a request goes on, with the most that it may take, and tells what it took when it has ended.
 *
 * A request passes while something is left of each of its budgets. Open requests count with the
 * most that they may take. So the last request may exceed a budget, but several at once may not.
 * What the store cannot count is refused. */
#ifndef NETWORK_BUDGETS_H
#define NETWORK_BUDGETS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

enum {
	BUDGETS_TEXT_MAX = 160,
	BUDGETS_PER_SECOND = 1000,     /* requests of a sandbox */
	BUDGETS_KEY_PER_SECOND = 2000, /* of the sandboxes of a key */
};

struct fleet;
struct instance;

enum budgets_verdict {
	BUDGETS_CHARGED,
	BUDGETS_REFUSED,
	BUDGETS_ASK, /* a person decides; nothing is charged yet */
};

enum { BUDGETS_LENT_MAX = 64 };

/* What a worker's requests were charged with, of the budgets of its key. It may give back no more:
 * one that is taken over cannot give back what other sandboxes have used. A worker that a new
 * daemon finds has nothing to give back, so its requests under way stay charged. Zeroed:
 * nothing. */
struct budgets_lent {
	struct budgets_loan *loans; /* owned; the newest BUDGETS_LENT_MAX budgets */
	size_t count;
};

void budgets_lent_done(struct budgets_lent *l);

struct budgets_said {
	uint64_t day;			 /* for budgets_settle */
	uint64_t retry_s;		 /* of REFUSED: until there is something again; 0: never */
	char text[BUDGETS_TEXT_MAX + 1]; /* how much is used, or why it is refused */
};

/* charge: a worker's words (docs/egress-protocol.md). allowed: a person has allowed it, so it is
 * charged even if nothing is left of a budget that asks. One that denies refuses it still. */
enum budgets_verdict budgets_charge(const struct instance *i, const json_t *charge, bool allowed,
	struct budgets_lent *lent, struct budgets_said *ret);

/* What requests took less, or more, than they were charged with: a worker's words. */
void budgets_settle(struct fleet *f, const char *key_id, const char *sandbox_id,
	const json_t *spent, struct budgets_lent *lent);

#endif
