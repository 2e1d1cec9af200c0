/* Webhooks and the queue of their deliveries.
 *
 * A delivery is at-least-once: it is queued in the commit of its event (use a batch), and leaves
 * the queue when the receiver has answered. The queue of a webhook holds STORE_DELIVERIES_MAX
 * entries; a new one then pushes out the oldest, which is counted. */
#ifndef STORE_WEBHOOKS_H
#define STORE_WEBHOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/events.h"
#include "store/store.h"

enum {
	STORE_WEBHOOKS_MAX = 256,
	STORE_DELIVERIES_MAX = 1000, /* waiting, of one webhook */
	STORE_DUE_MAX = 100,	     /* given out by one store_delivery_due */
	STORE_PAYLOAD_MAX = 64 * 1024,
	STORE_DELIVERY_ERROR_MAX = 256, /* longer ones are cut */
};

struct store_webhook {
	const char *id;	    /* UUID; given by the store */
	const char *key_id; /* whose events; NULL: of all keys */
	const char *url;
	const char *secret; /* signs the deliveries; stored readable, as it must be used again */
	uint32_t types;	    /* mask of STORE_EVENT_BIT; 0: all */
	bool enabled;
	uint64_t created_ns;
	uint64_t queued;  /* deliveries waiting */
	uint64_t dropped; /* pushed out of the queue so far */
	/* Why the oldest that waits could not be delivered, or NULL; given by the store. */
	const char *last_error;
};

/* Synced, all three. add takes key_id, url, secret, types, enabled, created_ns; ERROR_LIMIT
 * -ENOBUFS at STORE_WEBHOOKS_MAX. update takes url, secret (NULL: as it is), types, enabled.
 * remove drops its queue. */
int store_webhook_add(struct store *s, const struct store_webhook *w, char ret_id[STORE_UUID_BYTES],
	struct error *e);
int store_webhook_update(
	struct store *s, const char *id, const struct store_webhook *w, struct error *e);
int store_webhook_remove(struct store *s, const char *id, struct error *e);
/* Oldest first. key_id NULL: all; otherwise those of that key only. */
int store_webhook_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_webhook *w), void *arg, struct error *e);

/* Queues the payload for every enabled webhook that wants events of that key and type, due at once.
 * *ret_count (may be NULL) is how many. */
int store_delivery_queue(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e);

/* store_event_add and store_delivery_queue as one: both or none. */
int store_event_publish(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e);

/* Queues a payload that is no event for one webhook, which may be disabled: it waits then. */
int store_delivery_queue_for(struct store *s, const char *webhook_id, const char *payload,
	uint64_t now_ns, struct error *e);

struct store_delivery {
	uint64_t id;
	const char *webhook_id;
	const char *key_id; /* the webhook's, or NULL */
	const char *url, *secret;
	uint64_t event_id;
	const char *payload;
	uint32_t attempts; /* made so far */
	uint64_t created_ns, next_ns;
	const char *last_error; /* or NULL */
};

/* When the next one is due; STORE_NEVER_NS when none waits. Those of disabled webhooks wait. */
int store_delivery_next(struct store *s, uint64_t *ret_ns, struct error *e);
/* Those due at now_ns, of each webhook the oldest that it has only, so that they arrive in order
 * (one that waits holds up those behind it, of its webhook alone); the longest due first, at most
 * limit (1-STORE_DUE_MAX). The callback may write. */
int store_delivery_due(struct store *s, uint64_t now_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_delivery *d), void *arg, struct error *e);
/* An attempt failed: the next one is at next_ns. While an attempt is under way, push next_ns
 * beyond its time limit with store_delivery_claim, so that it is not given out twice. */
int store_delivery_claim(struct store *s, uint64_t id, uint64_t until_ns, struct error *e);
int store_delivery_failed(
	struct store *s, uint64_t id, uint64_t next_ns, const char *why, struct error *e);
/* Delivered, or given up. Success when it is gone already. */
int store_delivery_done(struct store *s, uint64_t id, struct error *e);

#endif
