/* The member `consent` of a network object (docs/consent.md): what a sandbox does while it waits
 * for a person. */
#ifndef POLICY_NETWORK_CONSENT_H
#define POLICY_NETWORK_CONSENT_H

#include <jansson.h>
#include <stdint.h>

#include "base/error.h"

enum {
	CONSENT_TIMEOUT_S = 3600, /* default */
	CONSENT_TIMEOUT_MAX_S = 7 * 86400,
	CONSENT_PAUSE_AFTER_S = 300, /* default */
	CONSENT_PAUSE_AFTER_MAX_S = 86400,
};

enum consent_while {
	CONSENT_RUN,	/* its programs run on */
	CONSENT_FREEZE, /* its CPUs stop */
	CONSENT_PAUSE,	/* its CPUs stop, and after pause_after_s it is paused to disk */
};

struct network_consent {
	enum consent_while mode;
	uint32_t timeout_s;
	uint32_t pause_after_s; /* for CONSENT_PAUSE */
};

/* Checks and reads the member of a client's network object: {"whileWaiting", "timeout",
 * "pauseAfter"}. Fails with ERROR_USAGE; the message begins with the member. */
int network_consent_read(const json_t *network, struct network_consent *ret, struct error *e);

/* Reads the member from the text of a checked network object, or NULL. */
struct network_consent network_consent_of(const char *network_json);

#endif
