/* What the worker tells the daemon of flows: {"flow": {...}} and {"request": {...}}
 * (docs/egress-protocol.md). A guest decides how many there are, so they are limited; what is lost
 * is counted. */
#ifndef EGRESS_RECORD_H
#define EGRESS_RECORD_H

#include <stdint.h>

#include "egress/context.h"
#include "intercept/exchange.h"

enum { RECORDS_PER_SECOND = 200, RECORD_MAX = 8192, RECORD_SECRETS_MAX = 16 };

struct record {
	const char *proto;   /* "tcp", "udp", "dns" */
	const char *verdict; /* "allowed", "failed", "denied", "reset" */
	const char *rule;    /* NULL: none */
	const char *reason;  /* of a denial, for people; NULL or "" */
	const char *noted;   /* "ACTION RULE" that decided nothing; NULL or "" */
	const char *name;    /* NULL or "": none */
	const char *sandbox; /* the one that a connection leads to (between.h); NULL or "": none */
	const char *program; /* the guest's word; NULL or "" */
	uint32_t address;
	uint16_t port;
	uint32_t pid;
	int err; /* 0: none */
	/* Of a request in an intercepted flow, which is told as {"request": {...}}; else NULL and
	 * zeros. */
	const char *method, *path;  /* the path without its query */
	unsigned status;	    /* that the program got; 0: none */
	const char *const *secrets; /* names of those that went into it */
	unsigned secret_count;	    /* RECORD_SECRETS_MAX are told */
	/* Of a request to a model, or a tool that is called, told as {"model": {...}} or {"tool":
	 * {...}}; NULL. */
	const struct exchange_model *model;
	const char *tool;
	uint64_t generation, begin_ms, up, down;
};

/* Milliseconds since 1970. */
uint64_t record_now_ms(void);

/* Tells of it, or counts it as lost. What was denied is noted for the sandbox's programs, too, and
 * flows are counted (counts.h). */
void record_send(struct context *c, const struct record *r);

#endif
