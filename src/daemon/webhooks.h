/* Delivers life-cycle events to webhooks (docs/operations.md says what receivers see).
 *
 * The queue is in the store (store/webhooks.h). Events enter it in the commit that records them, so
 * neither the daemon's death nor a receiver's loses one. This module sends them at least once, in
 * order per webhook and one at a time. It retries with growing pauses for WEBHOOK_GIVE_UP_S.
 * Webhooks do not wait for each other. */
#ifndef DAEMON_WEBHOOKS_H
#define DAEMON_WEBHOOKS_H

#include "base/error.h"

enum {
	WEBHOOK_ATTEMPT_S = 10,	 /* for a request and its whole answer */
	WEBHOOK_PAUSE_MIN_S = 1, /* after the first failure; doubles each time */
	WEBHOOK_PAUSE_MAX_S = 3600,
	WEBHOOK_GIVE_UP_S = 3 * 24 * 3600, /* after the event */
	WEBHOOK_ANSWER_MAX = 64 * 1024,	   /* bytes of an answer to read */
};

struct daemon;

int webhooks_start(struct daemon *d, struct error *e);
void webhooks_stop(struct daemon *d); /* also fine if it was not started */
/* An event was queued, or a webhook has changed. */
void webhooks_wake(struct daemon *d);

#endif
