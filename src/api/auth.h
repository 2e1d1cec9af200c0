/* Who asks, and how much they may. */
#ifndef DAEMON_AUTH_H
#define DAEMON_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request.h"

struct sandbox_sizes;

/* Finds r->key by X-API-KEY; otherwise answers 401 and returns false. On the admin socket everybody
 * is the operator, whose key is the local one. */
bool auth_check(struct request *r);

/* The key whose sandboxes r may see, for store_sandbox_filter; NULL: all of them, for the operator.
 */
const char *auth_scope(const struct request *r);
bool auth_may_see(const struct request *r, const char *key_id);

/* Whether r->key may have so many more sandboxes now: its number of sandboxes, its rate and its
 * allowance. Otherwise answers (429, 403) and returns false. Counts against the rate. The operator
 * may: only the host's own limits hold for him. */
bool auth_may_create(struct request *r, unsigned count);
/* The rate only: instance_obtain() checks number and allowance. */
bool auth_may_resume(struct request *r);

struct store_sandbox;
/* Whether one more state of a sandbox may be kept (fleet/kept.h). Otherwise answers (429, 503) and
 * returns false. A snapshot counts against the rate; a pause takes the sandbox's place, if it has one. */
bool auth_may_keep(struct request *r, const struct store_sandbox *sb, bool snapshot);
/* Whether so many more sandboxes of the key may be promised to be paused later. */
bool auth_may_promise(struct request *r, const char *key_id, unsigned count);

/* The longest life that r->key may ask for; UINT64_MAX: any. */
uint64_t auth_timeout_max_ns(const struct request *r);

/* The largest sandbox that r->key may have (fleet/limits.h). */
struct sandbox_sizes auth_sizes_max(const struct request *r);

#endif
