/* Who the client is, and how much it may have. */
#ifndef API_AUTH_H
#define API_AUTH_H

#include <stdbool.h>
#include <stdint.h>

#include "http/request.h"

struct sandbox_sizes;

/* Finds r->key by the header X-API-Key. If there is no such key, answers 401 and returns false. On
 * the admin socket every client is the operator, with the local key. */
bool auth_check(struct request *r);

/* Returns the key whose sandboxes r may see, for store_sandbox_filter. Returns NULL for the
 * operator, who sees those of all keys. */
const char *auth_scope(const struct request *r);
bool auth_may_see(const struct request *r, const char *key_id);

/* Whether r->key may have `count` more sandboxes now. Checks its number of sandboxes, its rate and
 * its allowance, and counts against the rate. Otherwise answers 429 or 403 and returns false. The
 * operator always may: only the host's own limits apply. */
bool auth_may_create(struct request *r, unsigned count);
/* Checks the rate only, because instance_obtain() checks number and allowance. */
bool auth_may_resume(struct request *r);
/* Checks the rate for announcing a build, and for beginning one. */
bool auth_may_build(struct request *r);

struct store_sandbox;
/* Whether one more state of a sandbox may be kept (fleet/kept.h). Otherwise answers 429 or 503 and
 * returns false. A snapshot counts against the rate. A pause uses the place that was promised to
 * the sandbox, if there is one. */
bool auth_may_keep(struct request *r, const struct store_sandbox *sb, bool snapshot);
/* Whether `count` more sandboxes of the key may be promised a place for a later pause. Otherwise
 * answers and returns false. */
bool auth_may_promise(struct request *r, const char *key_id, unsigned count);

/* Returns the longest life that r->key may ask for. UINT64_MAX means no limit. */
uint64_t auth_timeout_max_ns(const struct request *r);

/* Returns the largest sizes of a sandbox that r->key may have (fleet/limits.h). */
struct sandbox_sizes auth_sizes_max(const struct request *r);

#endif
