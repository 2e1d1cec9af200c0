/* What a client asks of POST /sandboxes/{id}/run. */
#ifndef API_RUN_ORDER_H
#define API_RUN_ORDER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "http/request.h"
#include "proto/agent_wire.h"

enum {
	RUN_TIMEOUT_S = 60, /* unless the client says otherwise */
	RUN_TIMEOUT_MAX_S = 24 * 3600,
	RUN_OUTPUT = 1024 * 1024, /* of both outputs; the same */
	RUN_OUTPUT_MAX = 8 * 1024 * 1024,
};

struct run_order {
	json_t *body;		/* holds the strings that the rest borrows */
	struct agent_exec exec; /* complete, but for the shell's argv */
	bool shell;		/* the command is text for a shell */
	bool stream;
	const char *input; /* or NULL */
	size_t input_bytes;
	int64_t output_limit; /* of a command without stream */
	const char *argv[4];
	const char **words; /* owned: the command, if it is a list */
	char **env;	    /* owned, NULL-terminated */
};

/* Fills *ret from the body. False: answered with 400 or 503. Call run_order_done() in any case. */
bool run_order_take(struct request *r, json_t *body, struct run_order *ret);
void run_order_done(struct run_order *o);

/* Chooses the shell for a command that is text. */
void run_order_shell(struct run_order *o, const char *shell);

#endif
