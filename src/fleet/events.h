/* Life-cycle events of sandboxes. One commit stores an event and queues it for the webhooks that
 * want it (store/webhooks.h). */
#ifndef FLEET_EVENTS_H
#define FLEET_EVENTS_H

#include <jansson.h>
#include <stdint.h>

#include "store/events.h"

enum { WEBHOOK_TYPE_BYTES = 64 };

struct fleet;

/* Stores and queues one event. A failure is only logged. details_json (may be NULL) is an object of
 * at most a few hundred bytes; the sandbox's metadata, and what its run took, are added. */
void event_note(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json);

/* The same. details may be NULL. `more` (may be NULL) has members that only webhooks get, not
 * readers of events. For instance links that decide an approval: whoever has one can use it.
 * operators: only webhooks of the operator get them. */
void event_note_more(struct fleet *f, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const json_t *details, const json_t *more, bool operators);

/* Notes a new deadline. */
struct store_sandbox;
void event_note_end(struct fleet *f, const struct store_sandbox *sb, uint64_t end_ns);

/* The record that clients and webhooks get (docs/operations.md); NULL when out of memory. */
json_t *event_json(const struct store_event *ev);

/* "sandbox.lifecycle.killed" for the types killed, timed_out and crashed, and so on. */
void event_type_word(enum store_event_type type, char out[WEBHOOK_TYPE_BYTES]);
/* The reverse: a mask of STORE_EVENT_BIT, 0 for an unknown word. */
uint32_t event_types_of(const char *word);
uint32_t event_life_cycle(void); /* all of sandbox.lifecycle */

/* Tells the deliverer that an event was queued or a webhook has changed. */
void event_queued(struct fleet *f);

/* A record without an event, to try a webhook. */
char *webhook_test_payload(uint64_t at_ns);

#endif
