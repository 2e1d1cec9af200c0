/* Who asks, and how much they may. */
#ifndef DAEMON_AUTH_H
#define DAEMON_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "daemon/request.h"

struct daemon;
struct store_key;

/* Finds r->key by X-API-KEY; otherwise answers 401 and returns false. On the admin socket everybody
 * is the operator, without a key. */
bool auth_check(struct request *r);

/* Whether r->key may make another sandbox now: its number of sandboxes and its rate. Otherwise
 * answers 429 and returns false. Counts against the rate. */
bool auth_may_create(struct request *r);

/* The longest life that r->key may ask for; UINT64_MAX: any. */
uint64_t auth_timeout_max_ns(const struct request *r);

#endif
