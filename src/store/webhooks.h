/* Webhooks and the queue of their deliveries.
 *
 * Delivery is at-least-once: a delivery is queued in the commit of its event (use a batch), and
 * leaves the queue when the receiver has answered. A webhook's queue holds STORE_DELIVERIES_MAX
 * entries. When it is full, a new entry pushes out the oldest, and the loss is counted. */
#ifndef STORE_WEBHOOKS_H
#define STORE_WEBHOOKS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "store/events.h"
#include "store/store.h"

enum {
	STORE_WEBHOOKS_MAX = 256,
	STORE_WEBHOOK_NAME_MAX = 128,
	STORE_DELIVERIES_MAX = 1000, /* waiting, per webhook */
	STORE_DUE_MAX = 100,	     /* per call of store_delivery_due */
	STORE_PAYLOAD_MAX = 64 * 1024,
	STORE_DELIVERY_ERROR_MAX = 256, /* longer ones are cut */
};

struct store_webhook {
	const char *id;	    /* UUID; given by the store */
	const char *key_id; /* the key whose events it gets; NULL: all keys */
	const char *name;   /* for people; NULL: "", or unchanged by an update */
	const char *url;
	const char *secret; /* signs the deliveries; sealed (vault.h), so lists leave it out */
	uint32_t types;	    /* mask of STORE_EVENT_BIT; 0: all */
	bool enabled;
	uint64_t created_ns;
	uint64_t queued;  /* deliveries waiting */
	uint64_t dropped; /* pushed out so far */
	/* Why the oldest waiting delivery failed, or NULL. Set by the store. */
	const char *last_error;
};

/* Synced, all three. add uses key_id, name, url, secret, types, enabled and created_ns; ERROR_LIMIT
 * -ENOBUFS at STORE_WEBHOOKS_MAX. update uses name, url, secret (NULL: unchanged), types and
 * enabled. remove drops the webhook's queue. */
int store_webhook_add(struct store *s, const struct store_webhook *w, char ret_id[STORE_UUID_BYTES],
	struct error *e);
int store_webhook_update(
	struct store *s, const char *id, const struct store_webhook *w, struct error *e);
int store_webhook_remove(struct store *s, const char *id, struct error *e);
/* Oldest first. key_id NULL: all webhooks; otherwise only those of that key. */
int store_webhook_list(struct store *s, const char *key_id,
	int (*each)(void *arg, const struct store_webhook *w), void *arg, struct error *e);

/* Queues the payload, due at once, for every enabled webhook that wants this type of event of that
 * key. *ret_count (may be NULL) is how many. */
int store_delivery_queue(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e);

/* store_event_add and store_delivery_queue in one transaction. */
int store_event_publish(struct store *s, const struct store_event *ev, const char *payload,
	uint64_t now_ns, unsigned *ret_count, struct error *e);

/* Queues a payload that is not an event for one webhook. If the webhook is disabled, the payload
 * waits. */
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

/* When the next delivery is due, or STORE_NEVER_NS. Those of disabled webhooks do not count. */
int store_delivery_next(struct store *s, uint64_t *ret_ns, struct error *e);
/* Lists deliveries due at now_ns, the longest due first, at most limit (1-STORE_DUE_MAX). It gives
 * only the oldest delivery of each webhook, so that they arrive in order; one that waits holds up
 * those behind it in the same webhook. The callback may write. */
int store_delivery_due(struct store *s, uint64_t now_ns, uint32_t limit,
	int (*each)(void *arg, const struct store_delivery *d), void *arg, struct error *e);
/* store_delivery_failed records a failed attempt and schedules the next at next_ns.
 * store_delivery_claim postpones a delivery to until_ns. Claim it beyond the time limit of an
 * attempt, so that it is not given out twice. */
int store_delivery_claim(struct store *s, uint64_t id, uint64_t until_ns, struct error *e);
int store_delivery_failed(
	struct store *s, uint64_t id, uint64_t next_ns, const char *why, struct error *e);
/* Removes a delivery that arrived or was given up. Succeeds if it is already gone. */
int store_delivery_done(struct store *s, uint64_t id, struct error *e);

#endif
