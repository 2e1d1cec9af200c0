/* Answers what programs ask a resolver, whichever it is. The policy is applied to the question:
 * nothing of a name that is denied leaves. Only addresses (A) of names, and names of our own
 * addresses (PTR), have an answer; there is none for other types. */
#ifndef EGRESS_ANSWERS_H
#define EGRESS_ANSWERS_H

#include "egress/context.h"
#include "egress/dns.h"

/* One question. Lies in the asker's structure. */
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
	ANSWERS_NONE,  /* nothing that could be answered */
};

/* The message is the guest's. What *ret borrows stays until the next call. */
enum answers_step answers_begin(struct context *c, struct answers_ask *a, const void *data,
	size_t n, struct dns_answer *ret);

/* `done` is not called any more. */
void answers_cancel(struct answers_ask *a);

#endif
