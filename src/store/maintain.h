/* Inside the store: what the tables provide to store_open, store_maintain and store_sandbox_delete.
 * Each prune function removes at most MAINTAIN_ROWS rows, and sets *more when there may be
 * others. */
#ifndef STORE_MAINTAIN_H
#define STORE_MAINTAIN_H

#include "store/db.h"

enum { MAINTAIN_ROWS = 200 };

int keys_ensure_default_team(struct store *s, uint64_t now_ns, struct error *e);

int samples_collect(struct store *s, bool *more, struct error *e);
int events_prune(struct store *s, uint64_t before_ns, uint64_t max, bool *more, struct error *e);
int creations_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);
int activity_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);
int usage_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);

int invocations_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);
/* Counters of days that are over. */
int budgets_prune(struct store *s, uint64_t now_ns, bool *more, struct error *e);
int approvals_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);

/* For a sandbox that has ended: cancels its waiting approvals, and ends decisions that hold for
 * it. */
int approvals_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e);

/* For a sandbox that has ended, and a key that is revoked: forgets what they used of budgets. */
int budgets_end(struct store *s, const char *sandbox_id, struct error *e);
int budgets_forget_key(struct store *s, const char *key_id, struct error *e);

/* For a sandbox that got a row: keeps its activity (there may be some already) as long as the row
 * exists. */
int activity_begin(struct store *s, const char *sandbox_id, struct error *e);
/* Signs all logs anew that have a right seal; the others keep theirs. */
int activity_sign_anew(struct store *s, const uint8_t key[32], struct error *e);
/* For a sandbox that has ended: starts the time after which its activity is removed. */
int activity_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e);

#endif
