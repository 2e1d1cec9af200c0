/* Decides where a flow goes, and whether it may. It finds the name behind the address that the
 * guest asked for, and the addresses to dial. Each is judged by the rules, by the table of special
 * addresses, and by the host's own addresses. */
#ifndef EGRESS_TARGET_H
#define EGRESS_TARGET_H

#include "egress/context.h"
#include "intercept/exchange.h"
#include "rules/between_name.h"

enum { TARGET_REASON_MAX = 159, TARGET_NOTED_MAX = POLICY_ID_MAX + 8 };

enum target_step {
	TARGET_DIAL,	/* dial `addresses`, in this order */
	TARGET_ASK,	/* the same, after a person has allowed it (`rule`) and `consented` is
			 * set */
	TARGET_RESOLVE, /* resolve `name`, then call target_resolved() */
	TARGET_BETWEEN, /* ask the daemon for a port of the sandbox `to` (between.h) */
	TARGET_DENIED,	/* rule, reason */
	TARGET_FAILED,	/* err */
};

/* Where a flow goes in place of its host, as a rule says (rules_forward). */
struct target_via {
	char name[NAME_BYTES]; /* "": to its host */
	uint16_t port;
	char path[RULES_FORWARD_PATH_MAX + 1];
	unsigned floors; /* the layers that judge it there, too */
};

struct target {
	uint32_t asked; /* by the guest */
	uint16_t port;	/* the guest's; rules judge this one */
	uint16_t dial_port;
	char name[NAME_BYTES]; /* "" without */
	struct target_via via; /* whose addresses these are, if it has a name */
	uint32_t addresses[DNS_ADDRESSES_MAX];
	unsigned count;
	bool opaque;		      /* not HTTP, so rules cannot judge its requests */
	bool inspect;		      /* its requests must be judged */
	bool asks;		      /* `rule` asks a person */
	bool consented;		      /* the person has allowed it */
	bool own;		      /* a name of the operator's table: no proxy is used */
	char to[BETWEEN_LABEL_BYTES]; /* another sandbox, and `port` is its port; "": none */
	int err;
	char rule[POLICY_ID_MAX + 1];	    /* the rule that decided */
	char reason[TARGET_REASON_MAX + 1]; /* why it was denied, for people */
	char noted[TARGET_NOTED_MAX + 1];   /* a rule that only notes: "deny default"; "": none */
};

/* The name of the server that is dialled; "" without. */
const char *target_server(const struct target *t);

/* opaque: the flow is of datagrams. */
enum target_step target_begin(
	struct context *c, uint32_t address, uint16_t port, bool opaque, struct target *t);
enum target_step target_resolved(struct context *c, struct target *t, const struct dns_answer *a);

/* Fills rule, reason and err of a flow that is denied at a later stage. `what` becomes the end of
 * the reason. */
void target_deny(struct target *t, const char *rule, const char *what);

/* Whether an address is of a kind that may be dialled; otherwise *ret_why says why not. */
bool target_place_open(struct context *c, uint32_t address, const char **ret_why);

/* Whether the flow goes through the policy's proxies. */
bool target_is_proxied(const struct context *c, const struct target *t);

/* Whether a flow to the address is still allowed after it was dialled. Sets `inspect`. */
bool target_holds(struct context *c, struct target *t, uint32_t dialled);

/* Whether only its name lets the flow through: by the address alone it would not be allowed. Then
 * the server must not take it for another name that it serves at this address. */
bool target_is_by_name(const struct context *c, const struct target *t, uint32_t dialled);

/* Judges a flow that turned out to be opaque. Returns whether it may go on; otherwise t says why
 * not. */
bool target_is_opaque(struct context *c, struct target *t, uint32_t dialled);

/* Judges a request of a flow that was dialled to the address. */
struct policy_verdict target_judge_request(struct context *c, const struct target *t,
	uint32_t dialled, bool tls, const struct exchange_request *q);

/* Whether a tool of MCP may be called there with some arguments, perhaps once a person has allowed
 * it. */
bool target_shows_tool(struct context *c, const struct target *t, uint32_t dialled, bool tls,
	const char *path, const char *tool);

#endif
