/* Answers the DNS questions of programs, to whichever resolver they are sent. The policy judges the
 * question first, so a denied name is never sent to a resolver. Only addresses (A) of names and
 * names of our own addresses (PTR) have records. Questions for other types get an empty answer. */
#ifndef EGRESS_ANSWERS_H
#define EGRESS_ANSWERS_H

#include "egress/context.h"
#include "egress/dns.h"

/* One question. It lies in the asker's structure. */
struct answers_ask {
	struct context *context;
	struct dns_question question;
	struct resolver_ask ask;
	void (*done)(void *arg, const struct dns_answer *a);
	void *arg;
};

enum answers_step {
	ANSWERS_NOW,   /* *ret is the answer */
	ANSWERS_LATER, /* `done` will be called, not before this returns */
	ANSWERS_NONE,  /* the message cannot be answered */
};

/* Takes a guest's message. *ret borrows memory that is valid until the next call. */
enum answers_step answers_begin(struct context *c, struct answers_ask *a, const void *data,
	size_t n, struct dns_answer *ret);

/* `done` will not be called any more. */
void answers_cancel(struct answers_ask *a);

#endif
