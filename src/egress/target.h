/* Where a flow goes, and whether it may: what the guest asked for, the name it stands for, the
 * addresses to dial, each judged by the rules, the table of places and the host's own addresses. */
#ifndef EGRESS_TARGET_H
#define EGRESS_TARGET_H

#include "egress/between_name.h"
#include "egress/context.h"
#include "intercept/exchange.h"

enum { TARGET_REASON_MAX = 159, TARGET_NOTED_MAX = POLICY_ID_MAX + 8 };

enum target_step {
	TARGET_DIAL,	/* addresses, in this order */
	TARGET_ASK,	/* likewise, once a person has allowed it: rule; then set `consented` */
	TARGET_RESOLVE, /* ask the resolver for the name, then target_resolved */
	TARGET_BETWEEN, /* ask the daemon for a port of the sandbox `to` (between.h) */
	TARGET_DENIED,	/* rule, reason */
	TARGET_FAILED,	/* err */
};

struct target {
	uint32_t asked; /* by the guest */
	uint16_t port;	/* the guest's; the rules are about this one */
	uint16_t dial_port;
	char name[NAME_BYTES]; /* "" without */
	uint32_t addresses[DNS_ADDRESSES_MAX];
	unsigned count;
	bool opaque;		      /* it is no HTTP that rules could judge request by request */
	bool inspect;		      /* its requests are to be judged */
	bool asks;		      /* a rule asks a person about it: `rule` */
	bool consented;		      /* who has allowed it */
	bool own;		      /* a name of the operator's own: no proxy stands before it */
	char to[BETWEEN_LABEL_BYTES]; /* another sandbox, whose port `port` is then; "": none */
	int err;
	char rule[POLICY_ID_MAX + 1];	    /* that decided */
	char reason[TARGET_REASON_MAX + 1]; /* of a denial, for people */
	char noted[TARGET_NOTED_MAX + 1];   /* what decided nothing: "deny default"; "": nothing */
};

/* opaque: of datagrams. */
enum target_step target_begin(
	struct context *c, uint32_t address, uint16_t port, bool opaque, struct target *t);
enum target_step target_resolved(struct context *c, struct target *t, const struct dns_answer *a);

/* Fills rule, reason and err of a flow that is denied later: `what` ends the reason. */
void target_deny(struct target *t, const char *rule, const char *what);

/* Whether the place of an address may be dialled; else why not. */
bool target_place_open(struct context *c, uint32_t address, const char **ret_why);

/* Whether the flow goes through the policy's proxies. */
bool target_is_proxied(const struct context *c, const struct target *t);

/* Whether a flow that was dialled to the address is still allowed. Sets `inspect`. */
bool target_holds(struct context *c, struct target *t, uint32_t dialled);

/* Judges a flow that turned out to be opaque. Whether it may go on; else t has why not. */
bool target_is_opaque(struct context *c, struct target *t, uint32_t dialled);

/* Judges a request of a flow that was dialled to the address. */
struct policy_verdict target_judge_request(struct context *c, const struct target *t,
	uint32_t dialled, bool tls, const struct exchange_request *q);

#endif
