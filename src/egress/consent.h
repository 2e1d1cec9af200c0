/* Flows and requests that wait for a person (docs/consent.md). The worker sends the question to the
 * daemon. The daemon finds a person and sends the decision back.
 *
 * A question waits until the daemon answers or the asker gives up; the daemon limits the time. The
 * worker tells a new daemon of all waiting questions again. */
#ifndef EGRESS_CONSENT_H
#define EGRESS_CONSENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct context;

enum {
	CONSENT_REASON_MAX = 160,
	CONSENT_LINE_MAX = 28 << 10,
	CONSENTS_MAX = 768, /* waiting questions of a worker */
};

struct exchange_charge;
struct exchange_charged;
struct exchange_question;

/* A question. Strings are borrowed. NULL means unknown or absent. */
struct consent_question {
	const char *rule, *host, *address;
	uint16_t port;
	const char *program;
	const char *scheme;			 /* of a request */
	const struct exchange_question *request; /* likewise */
};

/* The daemon's answer to a question. */
struct consent_answer {
	bool allowed;
	const char *reason; /* why not, at most CONSENT_REASON_MAX bytes; may be "" */
	const struct exchange_charged *charged; /* what became of its budgets; NULL: it has none */
};

/* It lies in the asker's structure. A zeroed one is off. */
struct consent {
	struct context *context; /* NULL: off */
	struct consent *previous, *next;
	uint64_t id;
	bool told;     /* this daemon knows it */
	char *members; /* owned: members of its line, for the next daemon */
	void (*done)(void *arg, const struct consent_answer *a);
	void *arg;
};

/* Asks. `done` is called once, after this returns. Returns 0, -EMSGSIZE if the daemon does not read
 * or CONSENTS_MAX questions wait, or -ENOMEM. */
int consent_ask(struct context *c, struct consent *k, const struct consent_question *q);

/* Withdraws the question. judged: the policy has changed, and answers it. Does nothing if k is
 * off. */
void consent_end(struct consent *k, bool judged);

/* Tells the daemon what a request took from its budgets, after it has ended. If the message is
 * lost, the request stays charged with the most that it might take. */
void consent_settle(struct context *c, const struct exchange_charge *charge);

/* Takes the member `ask` of a message of the daemon. Returns 0 or -EINVAL. */
int consent_take(struct context *c, const json_t *message);

/* Tells a new daemon of all waiting questions, as fast as it reads, and then that there are no
 * more. */
void consent_tell(struct context *c);

#endif
