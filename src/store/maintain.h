/* Inside the store: what the tables provide to store_open, store_maintain and
 * store_sandbox_delete. Each prune removes
 * one slice, and sets *more when there may be another. */
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

int approvals_prune(struct store *s, uint64_t before_ns, bool *more, struct error *e);

/* The sandbox has ended: what waits is cancelled, and what was allowed to it holds no longer. */
int approvals_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e);

/* The sandbox has a row: its activity, of which there may be some already, is kept as long. */
int activity_begin(struct store *s, const char *sandbox_id, struct error *e);
/* The sandbox has ended: the days begin for which its activity is kept. */
int activity_end(struct store *s, const char *sandbox_id, uint64_t now_ns, struct error *e);

#endif
