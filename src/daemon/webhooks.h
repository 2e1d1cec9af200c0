/* Delivers life-cycle events to webhooks (docs/operations.md says what receivers see).
 *
 * The queue is in the store (store/webhooks.h). Events enter it in the commit that records them, so
 * no event is lost when the daemon or a receiver dies. This module sends them at least once, in
 * order per webhook and one at a time. It retries with growing pauses for WEBHOOK_GIVE_UP_S.
 * Webhooks do not wait for each other. Requests are made by a program in a jail (deliverer.h); this
 * module has the queue and the secrets that sign. */
#ifndef DAEMON_WEBHOOKS_H
#define DAEMON_WEBHOOKS_H

#include <stdbool.h>

#include "base/error.h"

enum {
	WEBHOOK_PAUSE_MIN_S = 1, /* after the first failure; doubles each time */
	WEBHOOK_PAUSE_MAX_S = 3600,
	WEBHOOK_GIVE_UP_S = 3 * 24 * 3600, /* after the event */
	WEBHOOK_KEY_PER_S = 20,		   /* attempts of a key's webhooks; the rest waits */
	WEBHOOK_ALL_PER_S = 200,
};

struct store;
struct webhooks;
typedef struct uv_loop_s uv_loop_t;

struct webhooks_options {
	struct store *store;
	uv_loop_t *loop;
	const char *ca;	    /* file of trusted authorities; NULL: the host's; borrowed */
	bool allow_private; /* keys' webhooks may have private addresses */
};

int webhooks_start(const struct webhooks_options *o, struct webhooks **ret, struct error *e);
void webhooks_stop(struct webhooks *w); /* frees it; NULL is fine */
/* An event was queued, or a webhook has changed. NULL is fine: webhooks_start() looks by itself. */
void webhooks_wake(struct webhooks *w);

#endif
