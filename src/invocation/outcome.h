/* How invocations end: a code for programs, an HTTP status, and a line that says what to do. */
#ifndef INVOCATION_OUTCOME_H
#define INVOCATION_OUTCOME_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "proto/agent_wire.h"

enum invocation_code {
	INVOCATION_OK,
	INVOCATION_FAILED,	     /* its exit status is not 0, or a signal ended it */
	INVOCATION_TIMEOUT,	     /* it ran longer than it may */
	INVOCATION_OUT_OF_MEMORY,    /* the sandbox had no memory left for it */
	INVOCATION_NO_ANSWER,	     /* it exited with 0 and printed nothing */
	INVOCATION_NETWORK_DENIED,   /* it failed after a rule had denied a connection */
	INVOCATION_NOT_STARTED,	     /* its program could not be started */
	INVOCATION_CRASHED_AT_START, /* it failed before it read, printed or listened */
	INVOCATION_SANDBOX_ENDED,    /* its sandbox was killed or died */
	INVOCATION_NO_SANDBOX,	     /* no sandbox could be made */
	INVOCATION_BUSY,	     /* it waited in the queue too long */
	INVOCATION_CANCELLED,	     /* its client has gone */
	INVOCATION_INTERRUPTED,	     /* the daemon ended meanwhile */
	INVOCATION_CODES_,
};

const char *invocation_code_name(enum invocation_code code);
unsigned invocation_http_status(enum invocation_code code);

enum { OUTCOME_MESSAGE_MAX = 512, OUTCOME_ERRORS_SHOWN = 2048 };

struct outcome {
	enum invocation_code code;
	char message[OUTCOME_MESSAGE_MAX]; /* "": nothing to say */
	int64_t status;			   /* exit status; 128 plus the signal's number; -1: none */
};

/* What the outcome depends on, besides how the program ended. */
struct outcome_facts {
	const char *errors; /* the last bytes of standard error */
	size_t errors_bytes;
	bool oom;	       /* the guest's kernel killed processes because memory ran out */
	bool printed;	       /* it printed something */
	uint64_t memory_bytes; /* of the sandbox */
	uint64_t timeout_ns;
	const char *denied; /* a host that a rule denied, and the rule; NULL: none */
	const char *denied_rule;
	const char
		*before; /* what it had not done when it ended: "it read its input"; NULL: it had */
};

/* Sets the outcome of a program that ended. */
void outcome_of_exit(
	struct outcome *o, const struct agent_exit *exit, const struct outcome_facts *f);
/* Of a program that listens: it answered with a status that says that it failed. */
void outcome_of_answer(struct outcome *o, unsigned status, const struct outcome_facts *f);
void outcome_timeout(struct outcome *o, const struct outcome_facts *f);
/* Sets code and message. Bytes of the text that are not UTF-8 become '?'. A text that is too long
 * is cut between characters. */
void outcome_set(struct outcome *o, enum invocation_code code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
