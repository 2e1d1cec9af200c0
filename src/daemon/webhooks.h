/* Delivery of life-cycle events to webhooks (docs/operations.md has what receivers see).
 *
 * The queue is the store's (store/webhooks.h): events get there in the commit that notes them, so
 * that neither our death nor a receiver's loses one. Here is the loop that sends: at least once, in
 * order per webhook and one at a time, again and again with growing pauses, for WEBHOOK_GIVE_UP_S.
 * Webhooks do not wait for each other. */
#ifndef DAEMON_WEBHOOKS_H
#define DAEMON_WEBHOOKS_H

#include "base/error.h"

enum {
	WEBHOOK_ATTEMPT_S = 10,	 /* for all of a request and its answer */
	WEBHOOK_PAUSE_MIN_S = 1, /* after the first failure; then doubled */
	WEBHOOK_PAUSE_MAX_S = 3600,
	WEBHOOK_GIVE_UP_S = 3 * 24 * 3600, /* after the event */
	WEBHOOK_ANSWER_MAX = 64 * 1024,	   /* bytes of an answer that are read */
};

struct daemon;

int webhooks_start(struct daemon *d, struct error *e);
void webhooks_stop(struct daemon *d); /* accepts a daemon where it was not started */
/* Something was queued or changed. */
void webhooks_wake(struct daemon *d);

#endif
