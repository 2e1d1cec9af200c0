/* How a sandbox waits for people: `consent` of its network object (docs/consent.md). */
#ifndef POLICY_NETWORK_CONSENT_H
#define POLICY_NETWORK_CONSENT_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

enum {
	CONSENT_TIMEOUT_S = 3600, /* unless it says otherwise */
	CONSENT_TIMEOUT_MAX_S = 7 * 86400,
	CONSENT_PAUSE_AFTER_S = 300, /* likewise */
	CONSENT_PAUSE_AFTER_MAX_S = 86400,
};

enum consent_while {
	CONSENT_RUN,	/* its programs go on */
	CONSENT_FREEZE, /* its CPUs stand still */
	CONSENT_PAUSE,	/* likewise, and after a while they are paused to disk */
};

struct network_consent {
	enum consent_while mode;
	uint32_t timeout_s;
	uint32_t pause_after_s; /* of CONSENT_PAUSE */
};

/* Checks the member of a client's network object, and reads it: {"whileWaiting", "timeout",
 * "pauseAfter"}. -EINVAL, ERROR_USAGE: e begins with the member. */
int network_consent_read(const json_t *network, struct network_consent *ret, struct error *e);

/* The same for a text that was checked, or NULL. */
struct network_consent network_consent_of(const char *network_json);

#endif
