/* Life-cycle events of sandboxes. One commit stores an event and queues it for the webhooks that
 * want it (store/webhooks.h). */
#ifndef FLEET_EVENTS_H
#define FLEET_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "store/events.h"

enum { WEBHOOK_TYPE_BYTES = 64 };

struct fleet;

/* Stores and queues one event. A failure is only logged. details_json may be NULL. */
void event_note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json);

/* The same. `more`: members that only webhooks get, or NULL: it may hold what decides. details
 * may be NULL. */
void event_note_more(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const json_t *details, const json_t *more);

/* Tells the deliverer that an event was queued or a webhook has changed. */
void event_queued(struct fleet *f);

/* A record without an event, to try a webhook. */
char *webhook_test_payload(uint64_t at_ns);

#endif
