/* Reads a request of POST /agents/{}/invoke, and makes the order of an invocation from it. */
#ifndef API_INVOKE_ORDER_H
#define API_INVOKE_ORDER_H

#include <stdbool.h>
#include <stddef.h>

#include "api/api.h"
#include "invocation/invocations.h"
#include "proto/agent_settings.h"
#include "store/agent_versions.h"
#include "store/agents.h"

enum {
	INVOKE_PORT = AGENT_SETTING_PORT,
	INVOKE_TIMEOUT_MAX_S = AGENT_SETTING_TIMEOUT_MAX_S,
};

struct invoke_order {
	struct invocation_order order; /* borrows from the other members, except release and
				        * owner */
	struct fleet *fleet;
	struct store_agent agent;
	struct store_agent_version *version; /* owned, and held (agents_hold) */
	struct store_agent_warm warm;
	bool held;
	struct api_creation *creation;
	char key_id[STORE_UUID_BYTES];
	char session[STORE_INVOCATION_SESSION_MAX + 1];
	char *input; /* owned: the prompt, or the body for a program that listens */
	char **env;  /* owned, NULL-terminated */
	bool stream, async;
};

/* Fills *ret from the request and its body. Returns false if it answered the request. Call
 * invoke_order_done() in any case. */
bool invoke_order_take(struct request *r, const char *text, size_t n, struct invoke_order *ret);
void invoke_order_done(struct invoke_order *o);

#endif
