/* Reads a request of POST /sandboxes/{id}/run. */
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
	RUN_OUTPUT = 1024 * 1024, /* bytes of both outputs together; the default */
	RUN_OUTPUT_MAX = 8 * 1024 * 1024,
};

struct run_order {
	json_t *body;		/* owns the strings that other members borrow */
	struct agent_exec exec; /* complete, except argv if `shell` */
	bool shell;		/* the command is text for a shell */
	bool stream;
	const char *input; /* or NULL */
	size_t input_bytes;
	int64_t output_limit; /* bytes of both outputs together; not used if `stream` */
	const char *argv[4];
	const char **words; /* owned: the command, if it was given as a list */
	char **env;	    /* owned, NULL-terminated */
};

/* Fills *ret from the body. Returns false if it answered the request. Call run_order_done() in any
 * case. */
bool run_order_take(struct request *r, json_t *body, struct run_order *ret);
void run_order_done(struct run_order *o);

/* Fills argv for a command that is text: the shell runs it. */
void run_order_shell(struct run_order *o, const char *shell);

#endif
