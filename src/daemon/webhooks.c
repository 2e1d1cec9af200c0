#include "daemon/webhooks.h"

#include <curl/curl.h>
#include <errno.h>
#include <jansson.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>
#include <uv.h>

#include "base/address.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "config.h"
#include "deliver/tls_limits.h"
#include "fleet/key_rates.h"
#include "policy/seal.h"
#include "proto/base64.h"
#include "store/webhooks.h"

enum {
	CLAIM_S = WEBHOOK_ATTEMPT_S + 5, /* if the daemon dies, its delivery is due again after
					  * that */
	RETRY_MS = 5000,		 /* after a store error */
	LIMITED_MS = 250, /* until a key that has used up its rate is looked at again */
	TIMER_MAX_MS = 3600 * 1000,
	MAC_BYTES = 32,
	FIELD_BYTES = 256,
};

struct webhooks {
	struct webhooks_options options;
	CURLM *multi;
	uv_timer_t curl_timer; /* curl's */
	uv_timer_t due;	       /* fires at the next delivery */
	struct attempt *attempts;
	struct key_rates rates;
	unsigned handles;
};

/* One request in progress. */
struct attempt {
	struct attempt *next;
	struct webhooks *all;
	CURL *easy;
	struct curl_slist *fields;
	uint64_t id; /* the delivery's */
	uint32_t number;
	uint64_t created_ns;
	char webhook_id[STORE_UUID_BYTES];
	char *payload;
	bool public_only; /* the receiver is a tenant's choice */
	bool refused;	  /* because of its address */
	bool large_key;	  /* the receiver's certificate has one */
	size_t received;
	char why[CURL_ERROR_SIZE];
};

/* One of curl's sockets, watched by the loop. */
struct watch {
	uv_poll_t poll;
	struct webhooks *all;
	curl_socket_t fd;
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

static void add_field(struct attempt *a, const char *field)
{
	struct curl_slist *grown = curl_slist_append(a->fields, field);

	if (grown)
		a->fields = grown;
}

static void add_e2b_fields(struct attempt *a, const struct store_delivery *d)
{
	char field[FIELD_BYTES];

	(void)snprintf(field, sizeof(field), "e2b-webhook-id: %s", d->webhook_id); /* fits */
	add_field(a, field);
	(void)snprintf(field, sizeof(field), "e2b-delivery-id: %llu", (unsigned long long)d->id);
	add_field(a, field);
	add_field(a, "e2b-signature-version: v1");
	sign_v1(d->secret, d->payload, field);
	add_field(a, field);
}

static void add_fields(struct attempt *a, const struct store_delivery *d)
{
	json_t *root = json_loads(d->payload, 0, NULL);
	const char *type = json_string_value(json_object_get(root, "type"));
	char field[FIELD_BYTES];

	add_field(a, "Content-Type: application/json");
	add_field(a, "Expect:"); /* removes curl's own header */
	(void)snprintf(field, sizeof(field), "Mayfly-Event: %s", type ? type : "unknown");
	add_field(a, field);
	(void)snprintf(field, sizeof(field), "Mayfly-Delivery: %llu", (unsigned long long)d->id);
	add_field(a, field);
	(void)snprintf(field, sizeof(field), "Mayfly-Webhook: %s", d->webhook_id);
	add_field(a, field);
	sign(d->secret, clock_realtime_ns() / NS_PER_S, d->payload, field);
	add_field(a, field);
	add_e2b_fields(a, d);
	json_decref(root);
}

/* --- curl's callbacks --- */

/* Discards the answer: nobody reads it, and it must not cost much. */
static size_t on_answer(char *data, size_t size, size_t n, void *arg)
{
	struct attempt *a = arg;

	a->received += size * n;
	return a->received > WEBHOOK_ANSWER_MAX ? 0 : size * n;
}

/* Checks the address after the name was resolved, so that a name server cannot change its answer in
 * between. */
static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct attempt *a = arg;

	if (a->public_only &&
		(!address_is_public(&address->addr) || address_is_own(&address->addr))) {
		a->refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static void set_options(struct attempt *a, const struct store_delivery *d)
{
	CURL *c = a->easy;
	bool limited = tls_limits_set(c, &a->large_key) == CURLE_OK;

	/* if an option cannot be set for lack of memory, the request fails */
	curl_easy_setopt(c, CURLOPT_URL, d->url);
	curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, limited ? "http,https" : "http");
	curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 0L);
	curl_easy_setopt(c, CURLOPT_PROXY, ""); /* ignores the environment's proxies, too */
	curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
	curl_easy_setopt(c, CURLOPT_TIMEOUT, (long)WEBHOOK_ATTEMPT_S);
	curl_easy_setopt(c, CURLOPT_FORBID_REUSE, 1L);
	curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	curl_easy_setopt(c, CURLOPT_USERAGENT, "Mayfly/" MAYFLY_VERSION);
	curl_easy_setopt(c, CURLOPT_POSTFIELDSIZE, (long)strlen(a->payload));
	curl_easy_setopt(c, CURLOPT_POSTFIELDS, a->payload);
	curl_easy_setopt(c, CURLOPT_HTTPHEADER, a->fields);
	curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_answer);
	curl_easy_setopt(c, CURLOPT_WRITEDATA, a);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETFUNCTION, on_open);
	curl_easy_setopt(c, CURLOPT_OPENSOCKETDATA, a);
	curl_easy_setopt(c, CURLOPT_ERRORBUFFER, a->why);
	curl_easy_setopt(c, CURLOPT_PRIVATE, a);
	if (a->all->options.ca)
		curl_easy_setopt(c, CURLOPT_CAINFO, a->all->options.ca);
}

/* --- attempts --- */

static void free_attempt(struct attempt *a)
{
	if (a->easy) {
		(void)curl_multi_remove_handle(a->all->multi, a->easy); /* fine when not in it */
		curl_easy_cleanup(a->easy);
	}
	curl_slist_free_all(a->fields);
	free(a->payload);
	free(a);
}

static void unlist(struct attempt *a)
{
	struct attempt **p = &a->all->attempts;

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

static int begin(void *arg, const struct store_delivery *d)
{
	struct webhooks *w = arg;
	struct attempt *a;
	struct error e = {0};

	if (!key_rates_take(&w->rates, d->key_id, WEBHOOK_KEY_PER_S, WEBHOOK_ALL_PER_S,
		    clock_monotonic_ns()))
		return postpone(w, d);
	a = calloc(1, sizeof(*a));
	if (a) {
		a->all = w;
		a->easy = curl_easy_init();
		a->payload = strdup(d->payload);
	}
	if (!a || !a->easy || !a->payload ||
		store_delivery_claim(w->options.store, d->id,
			clock_realtime_ns() + CLAIM_S * NS_PER_S, &e) < 0) {
		log_warn("cannot deliver: %s webhook=%s", e.message, d->webhook_id);
		if (a)
			free_attempt(a);
		return -ENOMEM;
	}
	a->id = d->id;
	a->number = d->attempts;
	a->created_ns = d->created_ns;
	a->public_only = d->key_id && !w->options.allow_private;
	(void)snprintf(a->webhook_id, sizeof(a->webhook_id), "%s", d->webhook_id); /* a UUID */
	a->next = w->attempts;
	w->attempts = a;
	add_fields(a, d);
	set_options(a, d);
	(void)curl_multi_add_handle(w->multi, a->easy); /* cannot fail for a fresh handle */
	return 0;
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

static void note_failure(struct attempt *a, const char *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10);
	struct store *s = a->all->options.store;
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

static void note_success(struct attempt *a)
{
	struct error e = {0};

	metrics_add(METRIC_WEBHOOK_DELIVERIES, "delivered", NULL, 1);
	if (store_delivery_done(a->all->options.store, a->id, &e) < 0)
		log_error("%s webhook=%s", e.message, a->webhook_id);
}

static void conclude(struct attempt *a, CURLcode result)
{
	bool cut = a->received > WEBHOOK_ANSWER_MAX; /* we cut it: the status counts */
	long status = 0;
	char why[CURL_ERROR_SIZE + 64];

	(void)curl_easy_getinfo(a->easy, CURLINFO_RESPONSE_CODE, &status);
	if ((result == CURLE_OK || cut) && status / 100 == 2) {
		note_success(a);
		return;
	}
	if (a->refused)
		(void)snprintf(why, sizeof(why),
			"its address is not public (serve --webhook-allow-private permits it)");
	else if (a->large_key)
		(void)snprintf(why, sizeof(why),
			"the receiver's certificate has a key of more than %d bits",
			TLS_LIMITS_KEY_BITS);
	else if (result == CURLE_OK || cut)
		(void)snprintf(why, sizeof(why), "the receiver answered %ld", status);
	else
		(void)snprintf(
			why, sizeof(why), "%s", *a->why ? a->why : curl_easy_strerror(result));
	note_failure(a, why);
}

static void take_results(struct webhooks *w)
{
	CURLMsg *m;
	int left;
	bool any = false;

	while ((m = curl_multi_info_read(w->multi, &left))) {
		struct attempt *a;
		CURLcode result = m->data.result;

		if (m->msg != CURLMSG_DONE)
			continue;
		(void)curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&a);
		conclude(a, result);
		unlist(a);
		free_attempt(a);
		any = true;
	}
	if (any)
		look_for_due(w);
}

/* --- curl and the loop --- */

static void act(struct webhooks *w, curl_socket_t fd, int events)
{
	int running;

	(void)curl_multi_socket_action(w->multi, fd, events, &running); /* results tell */
	take_results(w);
}

static void on_curl_timer(uv_timer_t *t)
{
	act(t->data, CURL_SOCKET_TIMEOUT, 0);
}

static int on_timeout_wanted(CURLM *multi, long ms, void *arg)
{
	struct webhooks *w = arg;

	if (ms < 0)
		(void)uv_timer_stop(&w->curl_timer); /* always 0 */
	else
		(void)uv_timer_start(&w->curl_timer, on_curl_timer, (uint64_t)ms, 0);
	return 0;
}

static void on_ready(uv_poll_t *h, int status, int events)
{
	struct watch *watch = h->data;
	int what = (events & UV_READABLE ? CURL_CSELECT_IN : 0) |
		   (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0) |
		   (status < 0 ? CURL_CSELECT_ERR : 0);

	act(watch->all, watch->fd, what);
}

static void on_watch_closed(uv_handle_t *h)
{
	free(h->data);
}

static struct watch *new_watch(struct webhooks *w, curl_socket_t fd)
{
	struct watch *watch = calloc(1, sizeof(*watch));

	if (!watch)
		return NULL;
	watch->all = w;
	watch->fd = fd;
	watch->poll.data = watch;
	if (uv_poll_init_socket(w->options.loop, &watch->poll, fd) < 0) {
		free(watch);
		return NULL;
	}
	(void)curl_multi_assign(w->multi, fd, watch); /* the socket is known: cannot fail */
	return watch;
}

static int on_watch_wanted(CURL *easy, curl_socket_t fd, int what, void *arg, void *socket_arg)
{
	struct watch *watch = socket_arg;
	int events =
		(what & CURL_POLL_IN ? UV_READABLE : 0) | (what & CURL_POLL_OUT ? UV_WRITABLE : 0);

	if (what == CURL_POLL_REMOVE) {
		if (watch)
			uv_close((uv_handle_t *)&watch->poll, on_watch_closed);
		(void)curl_multi_assign(((struct webhooks *)arg)->multi, fd, NULL);
		return 0;
	}
	if (!watch)
		watch = new_watch(arg, fd);
	if (watch)
		(void)uv_poll_start(&watch->poll, events, on_ready); /* or it times out */
	return 0;
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
	if (next == STORE_NEVER_NS) {
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
	struct webhooks *w = calloc(1, sizeof(*w));

	if (w && curl_global_init(CURL_GLOBAL_DEFAULT) == 0)
		w->multi = curl_multi_init();
	if (!w || !w->multi) {
		free(w);
		return error_set(e, ERROR_INTERNAL, ENOMEM, "cannot prepare webhooks");
	}
	w->options = *o;
	(void)uv_timer_init(o->loop, &w->curl_timer); /* neither can fail */
	(void)uv_timer_init(o->loop, &w->due);
	w->curl_timer.data = w->due.data = w;
	curl_multi_setopt(w->multi, CURLMOPT_SOCKETFUNCTION, on_watch_wanted);
	curl_multi_setopt(w->multi, CURLMOPT_SOCKETDATA, w);
	curl_multi_setopt(w->multi, CURLMOPT_TIMERFUNCTION, on_timeout_wanted);
	curl_multi_setopt(w->multi, CURLMOPT_TIMERDATA, w);
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
	while (w->attempts) {
		struct attempt *a = w->attempts;

		unlist(a);
		free_attempt(a);
	}
	(void)curl_multi_cleanup(w->multi); /* calls back to stop watching what is left */
	w->handles = 2;
	uv_close((uv_handle_t *)&w->curl_timer, on_closed);
	uv_close((uv_handle_t *)&w->due, on_closed);
}
