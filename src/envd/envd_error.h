/* A failure inside a sandbox as clients see it: a Connect code for RPCs, a status for the plain
 * HTTP endpoints, and one message for both. */
#ifndef ENVD_ERROR_H
#define ENVD_ERROR_H

#include "base/buf.h"
#include "base/error.h"
#include "proto/agent_wire.h"
#include "proto/connect.h"

struct envd_error {
	enum connect_code code;
	unsigned status;
	char message[ERROR_MESSAGE_MAX];
};

/* Fills e, with the status of the code. Returns -EINVAL, for `return envd_fail(...)`. */
int envd_fail(struct envd_error *e, enum connect_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Converts the agent's error. Its message is not trusted: escape it when writing it. */
void envd_error_of_agent(const struct agent_error *m, struct envd_error *ret);

/* Converts an error of agent_request() or of a failed connection to the agent (ERROR_SANDBOX:
 * unavailable, 502). */
void envd_error_of_host(const struct error *from, struct envd_error *ret);

/* Appends {"code":404,"message":"..."}, the error body of the plain HTTP endpoints. 0 or -errno. */
int envd_error_body(struct buf *out, const struct envd_error *e);

#endif
