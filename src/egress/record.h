/* What the worker tells the daemon of flows: {"flow": {...}} (docs/egress-protocol.md). A guest decides how
 * many there are, so they are limited; what is lost is counted. */
#ifndef EGRESS_RECORD_H
#define EGRESS_RECORD_H

#include <stdint.h>

#include "egress/context.h"

enum { RECORDS_PER_SECOND = 200, RECORD_MAX = 2048 };

struct record {
	const char *proto;   /* "tcp", "udp", "dns" */
	const char *verdict; /* "allowed", "failed", "denied", "reset" */
	const char *rule;    /* NULL: none */
	const char *reason;  /* of a denial, for people; NULL or "" */
	const char *name;    /* NULL or "": none */
	const char *program; /* the guest's word; NULL or "" */
	uint32_t address;
	uint16_t port;
	uint32_t pid;
	int err; /* 0: none */
	uint64_t generation, begin_ms, up, down;
};

/* Milliseconds since 1970. */
uint64_t record_now_ms(void);

void record_send(struct context *c, const struct record *r);

/* "ECONNREFUSED", for the five errors that a program may get. */
const char *record_error_name(int err);

#endif
