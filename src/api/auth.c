#include "api/auth.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "fleet/fleet_of.h"
#include "fleet/kept.h"
#include "fleet/limits.h"
#include "http/reply.h"
#include "lifecycle/allowance.h"
#include "store/keys.h"
#include "store/lockdown.h"
#include "store/sandboxes.h"

enum { BUCKETS = 512, MINUTE_S = 60 };

/* A token bucket for a key's creation rate; it can save up a minute's worth. A hash of the key's id
 * selects the slot. Two keys with the same slot replace each other, each beginning with a full
 * bucket. That can only give them more than their rate. */
struct bucket {
	char key_id[STORE_UUID_BYTES];
	double tokens;
	uint64_t at_ns;
};
static struct bucket buckets[BUCKETS];

static bool take_local(struct request *r)
{
	struct error e = {0};
	int err = store_key_local(fleet_of(r)->store, clock_realtime_ns(), &r->key, &e);

	if (err < 0)
		reply_failure(r, &e);
	else
		r->key_id = r->key->id;
	return err == 0; /* the socket's own account is the operator's */
}

bool auth_check(struct request *r)
{
	const char *secret = http_header_get(&r->head->headers, "X-API-Key");
	struct error e = {0};
	int err;

	if (r->admin)
		return take_local(r);
	if (fleet_of(r)->lockdown.keys) {
		reply_error(r, 401, LOCKDOWN_TEXT ": its operator accepts no API key now");
		return false;
	}
	if (!secret) {
		reply_error(r, 401, "Invalid API key: send one in the X-API-Key header");
		return false;
	}
	err = store_key_authenticate(fleet_of(r)->store, secret, clock_realtime_ns(), &r->key, &e);
	if (err == 0) {
		r->key_id = r->key->id;
		return request_charge_to(r, r->key_id);
	}
	if (e.code == ERROR_NOT_FOUND || e.code == ERROR_USAGE)
		reply_error(r, 401, "Invalid API key: see mayfly keys ls");
	else
		reply_failure(r, &e);
	return false;
}

const char *auth_scope(const struct request *r)
{
	return r->admin ? NULL : r->key->id;
}

bool auth_may_see(const struct request *r, const char *key_id)
{
	return r->admin || strcmp(key_id, r->key->id) == 0;
}

static struct bucket *bucket_of(const char *key_id, unsigned rate, uint64_t now)
{
	struct bucket *b;
	unsigned h = 0;

	for (const char *p = key_id; *p; p++)
		h = h * 31 + (uint8_t)*p;
	b = &buckets[h % BUCKETS];
	if (strcmp(b->key_id, key_id) != 0) {
		(void)snprintf(b->key_id, sizeof(b->key_id), "%s", key_id); /* a UUID fits */
		b->tokens = rate;
		b->at_ns = now;
	}
	return b;
}

/* Returns 0, or the seconds until there are enough tokens. */
static unsigned take_tokens(const char *key_id, unsigned rate, unsigned count)
{
	uint64_t now = clock_monotonic_ns();
	struct bucket *b = bucket_of(key_id, rate, now);
	double per_s = (double)rate / MINUTE_S;

	b->tokens += (double)(now - b->at_ns) / (double)NS_PER_S * per_s;
	b->at_ns = now;
	if (b->tokens > rate)
		b->tokens = rate;
	if (b->tokens < count)
		return (unsigned)((count - b->tokens) / per_s) + 1;
	b->tokens -= count;
	return 0;
}

static bool take_rate(struct request *r, unsigned count)
{
	unsigned rate = limits_effective(fleet_of(r), &r->key->limits).creates_per_minute;
	unsigned wait;

	if (rate && count > rate) { /* waiting would not help */
		reply_error(r, 400,
			"%u sandboxes at once are more than the %u that this key may make in a "
			"minute: "
			"ask for fewer at once, or for a higher limit",
			count, rate);
		return false;
	}
	wait = rate ? take_tokens(r->key->id, rate, count) : 0;
	if (wait)
		reply_too_many(r, wait, "this key makes sandboxes, snapshots and builds too fast");
	return wait == 0;
}

bool auth_may_create(struct request *r, unsigned count)
{
	struct error e = {0};

	if (r->admin)
		return true;
	if (limits_check_places(fleet_of(r), r->key->id, count, &e) < 0 ||
		allowance_check(fleet_of(r), r->key->id, &e) < 0) {
		reply_failure(r, &e);
		return false;
	}
	return take_rate(r, count);
}

bool auth_may_resume(struct request *r)
{
	return r->admin || take_rate(r, 1);
}

bool auth_may_build(struct request *r)
{
	return r->admin || take_rate(r, 1);
}

bool auth_may_promise(struct request *r, const char *key_id, unsigned count)
{
	struct error e = {0};
	int err = kept_check(fleet_of(r), key_id, count, &e);

	if (err < 0)
		reply_failure(r, &e);
	return err == 0;
}

bool auth_may_keep(struct request *r, const struct store_sandbox *sb, bool snapshot)
{
	return auth_may_promise(r, sb->key_id, snapshot || !sb->auto_pause) &&
	       (!snapshot || r->admin || take_rate(r, 1));
}

uint64_t auth_timeout_max_ns(const struct request *r)
{
	uint64_t max = limits_effective(fleet_of(r), &r->key->limits).max_timeout_ns;

	return max ? max : UINT64_MAX;
}

struct sandbox_sizes auth_sizes_max(const struct request *r)
{
	const struct store_limits l = limits_effective(fleet_of(r), &r->key->limits);

	return limits_sizes(&l);
}
