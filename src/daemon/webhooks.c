#include "daemon/webhooks.h"

#include <errno.h>
#include <jansson.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <uv.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "daemon/deliverer.h"
#include "fleet/key_rates.h"
#include "policy/seal.h"
#include "proto/base64.h"
#include "store/webhooks.h"

enum {
	LATE_S = DELIVER_ATTEMPT_S + 5,	  /* then the deliverer hangs */
	CLAIM_S = DELIVER_ATTEMPT_S + 10, /* if the daemon dies, its delivery is due again after
					   * that */
	LOOK_MS = 1000,			  /* for late ones */
	RETRY_MS = 5000,		  /* after a store error */
	LIMITED_MS = 250, /* until a key that has used up its rate is looked at again */
	TIMER_MAX_MS = 3600 * 1000,
	MAC_BYTES = 32,
	FIELD_BYTES = 256,
	FIELDS_BYTES = 4096,
};

struct webhooks {
	struct webhooks_options options;
	struct deliverer *deliverer;
	uv_timer_t due;	 /* fires at the next delivery */
	uv_timer_t late; /* looks for attempts that do not end; active while there are some */
	struct attempt *attempts;
	struct key_rates rates;
	bool waits; /* for the deliverer to be ready */
	unsigned handles;
};

/* One request in progress. */
struct attempt {
	struct attempt *next;
	uint64_t id; /* the delivery's */
	uint32_t number;
	uint64_t created_ns;
	uint64_t late_ns; /* monotonic */
	char webhook_id[STORE_UUID_BYTES];
};

static void look_for_due(struct webhooks *w);

/* --- requests --- */

static void sign(const char *secret, uint64_t at_s, const char *payload, char out[FIELD_BYTES])
{
	_cleanup_free_ char *text = str_printf("%llu.%s", (unsigned long long)at_s, payload);
	uint8_t mac[EVP_MAX_MD_SIZE] = {0};
	char hex[2 * MAC_BYTES + 1];

	if (text)
		(void)HMAC(EVP_sha256(), secret, (int)strlen(secret), (const uint8_t *)text,
			strlen(text), mac,
			NULL); /* fails only without memory; then no receiver accepts it */
	str_hex(mac, MAC_BYTES, hex);
	(void)snprintf(out, FIELD_BYTES, "Mayfly-Signature: t=%llu,v1=%s", (unsigned long long)at_s,
		hex); /* fits */
}

/* E2B's signature, v1: base64 without its padding of SHA-256 of the secret and the payload. */
static void sign_v1(const char *secret, const char *payload, char out[FIELD_BYTES])
{
	_cleanup_(secret_freep) char *text = str_printf("%s%s", secret, payload);
	uint8_t hash[EVP_MAX_MD_SIZE] = {0};
	char base64[2 * MAC_BYTES];
	size_t n;

	if (text)
		(void)EVP_Digest(text, strlen(text), hash, NULL, EVP_sha256(),
			NULL); /* fails only without memory, as above */
	n = base64_encode_nopad(base64, hash, MAC_BYTES);
	(void)snprintf(out, FIELD_BYTES, "e2b-signature: %.*s", (int)n, base64); /* fits */
}

static int add_field(struct buf *to, const char *field)
{
	return buf_add(to, field, strlen(field) + 1);
}

static int add_e2b_fields(struct buf *to, const struct store_delivery *d)
{
	char field[FIELD_BYTES];
	int r;

	(void)snprintf(field, sizeof(field), "e2b-webhook-id: %s", d->webhook_id); /* fits */
	r = add_field(to, field);
	(void)snprintf(field, sizeof(field), "e2b-delivery-id: %llu", (unsigned long long)d->id);
	r = r ? r : add_field(to, field);
	r = r ? r : add_field(to, "e2b-signature-version: v1");
	sign_v1(d->secret, d->payload, field);
	return r ? r : add_field(to, field);
}

static int add_fields(struct buf *to, const struct store_delivery *d)
{
	json_t *root = json_loads(d->payload, 0, NULL);
	const char *type = json_string_value(json_object_get(root, "type"));
	char field[FIELD_BYTES];
	int r = add_field(to, "Content-Type: application/json");

	(void)snprintf(field, sizeof(field), "Mayfly-Event: %s", type ? type : "unknown");
	r = r ? r : add_field(to, field);
	(void)snprintf(field, sizeof(field), "Mayfly-Delivery: %llu", (unsigned long long)d->id);
	r = r ? r : add_field(to, field);
	(void)snprintf(field, sizeof(field), "Mayfly-Webhook: %s", d->webhook_id);
	r = r ? r : add_field(to, field);
	sign(d->secret, clock_realtime_ns() / NS_PER_S, d->payload, field);
	r = r ? r : add_field(to, field);
	json_decref(root);
	return r ? r : add_e2b_fields(to, d);
}

/* --- attempts --- */

static void on_late(uv_timer_t *t);

static void unlist(struct webhooks *w, struct attempt *a)
{
	struct attempt **p = &w->attempts;

	while (*p != a)
		p = &(*p)->next;
	*p = a->next;
}

/* Postpones what is above the key's rate, so that it does not stand before others in the queue. */
static int postpone(struct webhooks *w, const struct store_delivery *d)
{
	return store_delivery_claim(
		w->options.store, d->id, clock_realtime_ns() + LIMITED_MS * NS_PER_MS, NULL);
}

static int send_delivery(struct webhooks *w, const struct store_delivery *d)
{
	_cleanup_(buf_done) struct buf fields;
	const struct delivery what = {.id = d->id,
		.public_only = d->key_id && !w->options.allow_private,
		.url = d->url,
		.body = d->payload,
		.fields = &fields};
	int r;

	buf_init(&fields, FIELDS_BYTES);
	r = add_fields(&fields, d);
	return r < 0 ? r : deliverer_send(w->deliverer, &what);
}

/* Claims it first: if the daemon dies now, the next one tries again. */
static int attempt(struct webhooks *w, const struct store_delivery *d)
{
	struct attempt *a = calloc(1, sizeof(*a));
	uint64_t until = clock_realtime_ns() + CLAIM_S * NS_PER_S;
	struct error e = {0};
	int r = a ? store_delivery_claim(w->options.store, d->id, until, &e) : -ENOMEM;

	r = r < 0 ? r : send_delivery(w, d);
	if (r == -EAGAIN) {
		w->waits = true;
		free(a);
		return store_delivery_claim(w->options.store, d->id, d->next_ns, NULL);
	}
	if (r < 0) {
		log_warn("cannot deliver: %s webhook=%s",
			r == -EMSGSIZE ? "it is too long" : e.message, d->webhook_id);
		free(a);
		return r;
	}
	*a = (struct attempt){.next = w->attempts,
		.id = d->id,
		.number = d->attempts,
		.created_ns = d->created_ns,
		.late_ns = clock_monotonic_ns() + LATE_S * NS_PER_S};
	(void)snprintf(a->webhook_id, sizeof(a->webhook_id), "%s", d->webhook_id); /* a UUID */
	w->attempts = a;
	if (!uv_is_active((uv_handle_t *)&w->late)) /* cannot fail */
		(void)uv_timer_start(&w->late, on_late, LOOK_MS, LOOK_MS);
	return 0;
}

static int begin(void *arg, const struct store_delivery *d)
{
	struct webhooks *w = arg;

	if (w->waits)
		return 0;
	if (!deliverer_is_ready(w->deliverer)) {
		w->waits = true;
		return 0;
	}
	if (!key_rates_take(&w->rates, d->key_id, WEBHOOK_KEY_PER_S, WEBHOOK_ALL_PER_S,
		    clock_monotonic_ns()))
		return postpone(w, d);
	return attempt(w, d);
}

/* 1 s, 2 s, 4 s, ..., 1 h, minus a random part of up to half, so that retries are not
 * synchronised. */
static uint64_t pause_ns(uint32_t failures)
{
	uint64_t ms = UINT64_C(1000) * WEBHOOK_PAUSE_MIN_S << (failures < 20 ? failures : 20);
	uint32_t random = 0;

	if (ms > UINT64_C(1000) * WEBHOOK_PAUSE_MAX_S)
		ms = UINT64_C(1000) * WEBHOOK_PAUSE_MAX_S;
	(void)!getrandom(&random, sizeof(random), 0); /* if it fails, there is no jitter */
	return (ms - random % (ms / 2)) * NS_PER_MS;
}

static void note_failure(struct webhooks *w, const struct attempt *a, const char *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10);
	struct store *s = w->options.store;
	uint64_t now = clock_realtime_ns();
	bool give_up = now > a->created_ns + WEBHOOK_GIVE_UP_S * NS_PER_S;
	struct error e = {0};
	int r = give_up ? store_delivery_done(s, a->id, &e)
			: store_delivery_failed(s, a->id, now + pause_ns(a->number), why, &e);

	metrics_add(METRIC_WEBHOOK_DELIVERIES, give_up ? "given_up" : "failed", NULL, 1);
	if (log_limited(&limit))
		log_warn("an event was not delivered%s: %s webhook=%s delivery=%llu",
			give_up ? ", and is given up" : "", why, a->webhook_id,
			(unsigned long long)a->id);
	if (r < 0 && r != -ENOENT) /* -ENOENT: the webhook was removed meanwhile */
		log_error("%s webhook=%s", e.message, a->webhook_id);
}

static void note_success(struct webhooks *w, const struct attempt *a)
{
	struct error e = {0};

	metrics_add(METRIC_WEBHOOK_DELIVERIES, "delivered", NULL, 1);
	if (store_delivery_done(w->options.store, a->id, &e) < 0)
		log_error("%s webhook=%s", e.message, a->webhook_id);
}

static void conclude(struct webhooks *w, struct attempt *a, const struct deliver_said *said)
{
	char why[64];

	switch ((enum deliver_end)said->end) {
	case DELIVER_ANSWERED:
		if (said->status / 100 == 2) {
			note_success(w, a);
			return;
		}
		(void)snprintf(
			why, sizeof(why), "the receiver answered %u", said->status); /* fits */
		note_failure(w, a, why);
		return;
	case DELIVER_NOT_PUBLIC:
		note_failure(w, a,
			"its address is not public (serve --webhook-allow-private permits it)");
		return;
	case DELIVER_LARGE_KEY:
		note_failure(w, a, "the receiver's certificate has a key of more than 4,096 bits");
		return;
	default:
		note_failure(w, a, said->why);
	}
}

/* --- the deliverer's callbacks --- */

static void on_ready(void *arg)
{
	struct webhooks *w = arg;

	if (!w->waits)
		return;
	w->waits = false;
	look_for_due(w);
}

static bool on_said(const struct deliver_said *said, void *arg)
{
	struct webhooks *w = arg;
	struct attempt *a = w->attempts;

	while (a && a->id != said->id)
		a = a->next;
	if (!a)
		return false;
	unlist(w, a);
	conclude(w, a, said);
	free(a);
	webhooks_wake(w);
	return true;
}

static void on_lost(const char *why, void *arg)
{
	struct webhooks *w = arg;
	struct attempt *a;

	while ((a = w->attempts)) {
		unlist(w, a);
		note_failure(w, a, why);
		free(a);
	}
	webhooks_wake(w);
}

static void on_late(uv_timer_t *t)
{
	struct webhooks *w = t->data;
	uint64_t now = clock_monotonic_ns();
	struct attempt *a = w->attempts;

	if (!a)
		(void)uv_timer_stop(t); /* always 0 */
	while (a && a->late_ns > now)
		a = a->next;
	if (a)
		deliverer_give_up(w->deliverer, "mayfly-deliver did not answer, and was ended");
}

/* --- due deliveries --- */

static void on_due(uv_timer_t *t)
{
	look_for_due(t->data);
}

static void look_for_due(struct webhooks *w)
{
	struct store *s = w->options.store;
	uint64_t now = clock_realtime_ns(), next = 0, ms;
	struct error e = {0};
	int r = store_delivery_due(s, now, STORE_DUE_MAX, begin, w, &e);

	if (r == 0)
		r = store_delivery_next(s, &next, &e);
	if (r < 0) {
		if (*e.message)
			log_error("cannot look for deliveries: %s", e.message);
		(void)uv_timer_start(&w->due, on_due, RETRY_MS, 0);
		return;
	}
	if (next == STORE_NEVER_NS || w->waits) {
		(void)uv_timer_stop(&w->due); /* always 0 */
		return;
	}
	ms = next > now ? (next - now + NS_PER_MS - 1) / NS_PER_MS : 0;
	(void)uv_timer_start(&w->due, on_due, ms < TIMER_MAX_MS ? ms : TIMER_MAX_MS, 0);
}

void webhooks_wake(struct webhooks *w)
{
	if (w)
		(void)uv_timer_start(&w->due, on_due, 0, 0);
}

/* --- start and stop --- */

int webhooks_start(const struct webhooks_options *o, struct webhooks **ret, struct error *e)
{
	static const struct deliverer_ops ops = {on_ready, on_said, on_lost};
	struct webhooks *w = calloc(1, sizeof(*w));
	int r;

	if (!w)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "cannot prepare webhooks");
	w->options = *o;
	r = deliverer_open(o->loop, o->ca, &ops, w, &w->deliverer, e);
	if (r < 0) {
		free(w);
		return r;
	}
	(void)uv_timer_init(o->loop, &w->due); /* neither can fail */
	(void)uv_timer_init(o->loop, &w->late);
	w->due.data = w->late.data = w;
	*ret = w;
	webhooks_wake(w);
	return 0;
}

static void on_closed(uv_handle_t *h)
{
	struct webhooks *w = h->data;

	if (--w->handles == 0)
		free(w);
}

/* The next daemon sends deliveries in progress again. */
void webhooks_stop(struct webhooks *w)
{
	if (!w)
		return;
	deliverer_stop(w->deliverer);
	while (w->attempts) {
		struct attempt *a = w->attempts;

		unlist(w, a);
		free(a);
	}
	w->handles = 2;
	uv_close((uv_handle_t *)&w->due, on_closed);
	uv_close((uv_handle_t *)&w->late, on_closed);
}
