/* Flows and requests that wait for a person (docs/consent.md). The worker tells the daemon what is
 * asked; the daemon finds somebody, and says what was decided.
 *
 * It waits as long as the daemon does not answer: until the daemon says that it is late, or the
 * asker gives up. A new daemon is told of all that wait again. */
#ifndef EGRESS_CONSENT_H
#define EGRESS_CONSENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct context;

enum {
	CONSENT_REASON_MAX = 120,
	CONSENT_LINE_MAX = 16 << 10,
	CONSENTS_MAX = 768, /* that wait, of a worker */
};

struct exchange_question;

/* What is asked. Strings are borrowed; NULL: not known, or nothing of the kind. */
struct consent_question {
	const char *rule, *host, *address;
	uint16_t port;
	const char *program;
	const char *scheme;			 /* of a request */
	const struct exchange_question *request; /* likewise */
};

/* Lies in the asker's structure; zeroed, it is off. */
struct consent {
	struct context *context; /* NULL: off */
	struct consent *previous, *next;
	uint64_t id;
	bool told;     /* to this daemon */
	char *members; /* owned: the line's, for the next daemon */
	/* reason: why not, CONSENT_REASON_MAX bytes at most; "": none given. */
	void (*done)(void *arg, bool allowed, const char *reason);
	void *arg;
};

/* Asks. `done` is called once, not before this returns. 0, -EMSGSIZE: the daemon does not
 * listen, or CONSENTS_MAX wait; or -ENOMEM. */
int consent_ask(struct context *c, struct consent *k, const struct consent_question *q);

/* Nobody waits for it any more; off: nothing. */
void consent_end(struct consent *k);

/* A message of the daemon: the member `ask`. 0 or -EINVAL. */
int consent_take(struct context *c, const json_t *message);

/* There is a new daemon: it is told of all that wait, as fast as it reads, and then that this was
 * all. */
void consent_tell(struct context *c);

#endif
