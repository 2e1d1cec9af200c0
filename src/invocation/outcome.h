/* How invocations end: a word for programs, a status of HTTP, and a line that says what to do. */
#ifndef INVOCATION_OUTCOME_H
#define INVOCATION_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/agent_wire.h"

enum invocation_code {
	INVOCATION_OK,
	INVOCATION_FAILED,	   /* its exit status is not 0, or a signal ended it */
	INVOCATION_TIMEOUT,	   /* it ran longer than it may */
	INVOCATION_OUT_OF_MEMORY,  /* the sandbox had no memory left for it */
	INVOCATION_NO_ANSWER,	   /* it ended well and said nothing */
	INVOCATION_NETWORK_DENIED, /* it failed after a rule had denied a connection */
	INVOCATION_NOT_STARTED,	   /* its program does not start */
	INVOCATION_SANDBOX_ENDED,  /* somebody ended its sandbox, or that died */
	INVOCATION_NO_SANDBOX,	   /* none could be made */
	INVOCATION_BUSY,	   /* its time in the queue is over */
	INVOCATION_CANCELLED,	   /* its client has gone */
	INVOCATION_INTERRUPTED,	   /* the daemon ended meanwhile */
	INVOCATION_CODES_,
};

const char *invocation_code_name(enum invocation_code code);
unsigned invocation_http_status(enum invocation_code code);

enum { OUTCOME_MESSAGE_MAX = 512, OUTCOME_ERRORS_SHOWN = 2048 };

struct outcome {
	enum invocation_code code;
	char message[OUTCOME_MESSAGE_MAX]; /* "": nothing to say */
	int64_t status;			   /* exit status, 128 and more for a signal; -1: none */
};

/* What an outcome is judged by, besides how the program ended. */
struct outcome_facts {
	const char *errors; /* the end of its standard error, `errors_bytes` */
	size_t errors_bytes;
	bool oom;	       /* the guest's kernel ended processes for want of memory */
	bool printed;	       /* any answer */
	uint64_t memory_bytes; /* of the sandbox */
	uint64_t timeout_ns;
	const char *denied; /* a host that a rule denied it, or NULL; and the rule */
	const char *denied_rule;
};

/* exit: how it ended. */
void outcome_of_exit(
	struct outcome *o, const struct agent_exit *exit, const struct outcome_facts *f);
void outcome_timeout(struct outcome *o, const struct outcome_facts *f);
/* The text may have any bytes: what is not UTF-8 becomes '?', and what is too long is cut between
 * characters. */
void outcome_set(struct outcome *o, enum invocation_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
