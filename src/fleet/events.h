/* Life-cycle events of sandboxes: noted in the store, and queued for the webhooks that want them in
 * the same commit (store/webhooks.h). */
#ifndef FLEET_EVENTS_H
#define FLEET_EVENTS_H

#include <stdint.h>

#include "store/events.h"

enum { WEBHOOK_TYPE_BYTES = 64 };

struct fleet;

/* A failure is logged. details_json may be NULL. */
void event_note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json);

/* Whoever delivers is told: something was queued, or a webhook has changed. */
void event_queued(struct fleet *f);

/* "sandbox.lifecycle.killed" for the types killed, timed_out and crashed, and so on. */
void webhook_type(enum store_event_type type, char out[WEBHOOK_TYPE_BYTES]);
/* The record of an event (protocol section 6) as JSON, malloc'ed; NULL: out of memory. build_id: of
 * what the sandbox was made from, or NULL. */
char *webhook_payload(const struct store_event *ev, const char *build_id);
/* One that is no event, for trying a webhook. */
char *webhook_test_payload(uint64_t at_ns);

#endif
