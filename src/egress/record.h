/* Records of flows and requests, which the worker sends to the daemon: {"flow": {...}} and
 * {"request": {...}} (docs/egress-protocol.md). A guest decides how many there are, so their rate
 * is limited. Lost records are counted. */
#ifndef EGRESS_RECORD_H
#define EGRESS_RECORD_H

#include <stdint.h>

#include "egress/context.h"
#include "intercept/exchange.h"

enum {
	RECORDS_PER_SECOND = 200,
	RECORD_MAX = 24 << 10, /* of a model: 48 names, the path and the model, all escaped */
	RECORD_SECRETS_MAX = 16,
};

struct record {
	const char *proto;   /* "tcp", "udp", "dns" */
	const char *verdict; /* "allowed", "failed", "denied", "reset" */
	const char *rule;    /* NULL: none */
	const char *reason;  /* why it was denied, for people; NULL or "" */
	const char *noted;   /* "ACTION RULE" of a rule that only notes; NULL or "" */
	const char *name;    /* NULL or "": none */
	const char *sandbox; /* target of a connection (between.h); NULL or "": none */
	const char *program; /* the guest's word; NULL or "" */
	uint32_t address;
	uint16_t port;
	uint32_t pid;
	int err; /* 0: none */
	/* For a request of an intercepted flow, sent as {"request": {...}}. Otherwise NULL and
	 * 0. */
	const char *method, *path;  /* the path without its query */
	unsigned status;	    /* status that the program got; 0: none */
	const char *const *secrets; /* names of secrets that went into it */
	unsigned secret_count;	    /* at most RECORD_SECRETS_MAX are sent */
	/* For a request to a model, or the call of a tool, sent as {"model": {...}} or {"tool":
	 * {...}}. Otherwise NULL. */
	const struct exchange_model *model;
	const char *tool;
	const char *mcp;    /* of a request: as in struct exchange_record; NULL: none */
	const char *budget; /* of a request: how much of its budget is used; NULL: it has none */
	uint64_t generation, begin_ms, up, down;
};

/* Milliseconds since 1970. */
uint64_t record_now_ms(void);

/* Sends a record, or counts it as lost. Also notes denials for the sandbox's programs (denials.h),
 * and counts flows (counts.h). */
void record_send(struct context *c, const struct record *r);

#endif
