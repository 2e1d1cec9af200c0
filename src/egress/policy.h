/* What a sandbox may reach (docs/network.md): parsed and checked once, then judged. The daemon
 * writes it of what clients say, so its text is not trusted.
 *
 * Immutable once made. Judging walks the rules: a microsecond or two for 1,024. */
#ifndef EGRESS_POLICY_H
#define EGRESS_POLICY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"
#include "base/net.h"
#include "intercept/intercept.h"
#include "rules/rules.h"

enum {
	POLICY_VERSION = 1,
	POLICY_LAYERS_MAX = 8,
	POLICY_RULES_MAX = 2048, /* of all layers */
	POLICY_ID_MAX = RULES_ID_MAX,
	POLICY_DNS_MAX = 10,
	POLICY_PRIVATE_MAX = 64,
	POLICY_HOSTS_MAX = 256,
	POLICY_FLOWS_MAX = 768,
};

struct policy_server {
	uint32_t address;
	uint16_t port;
};

/* A name of the operator's own. */
struct policy_host {
	char *name;
	uint32_t address;
	uint16_t port; /* 0: the program's */
};

struct policy_limits {
	unsigned flows, flows_per_second, datagram_peers, dns_per_second;
	unsigned connect_seconds, datagram_seconds;
};

struct proxy_chain;

struct policy {
	uint64_t generation;
	struct rules layers[POLICY_LAYERS_MAX];
	unsigned layer_count;
	bool names; /* name mode: names resolve to addresses that stand for them. Also if there is
		     * something to intercept, but not for rules of other sandboxes (between.h) */
	struct policy_server dns[POLICY_DNS_MAX];
	unsigned dns_count;
	struct net private[POLICY_PRIVATE_MAX];
	unsigned private_count;
	struct policy_host *hosts;
	unsigned host_count;
	struct policy_limits limits;
	struct proxy_chain *proxies; /* NULL: flows are dialled directly */
	struct intercept *intercept; /* owned, one reference; NULL: nothing is intercepted */
};

/* Takes the value of the member `policy`. ERROR_USAGE names the member that is
 * wrong. */
int policy_make(json_t *value, struct policy **ret, struct error *e);

void policy_free(struct policy *p); /* NULL is fine */

/* What all layers say together: one that denies beats one that asks, which beats one that answers,
 * which beats those that allow. Text is the policy's. */
struct policy_verdict {
	bool allow;
	bool ask;     /* a person decides; `allow` is false */
	bool inspect; /* of a flow that is allowed: its requests decide */
	unsigned
		body; /* of a request: its body must be read as this (enum call_api), and decides */
	const char
		*rule; /* of the layer that decides, else of the last that has one; or "default" */
	const char *reason;		   /* the rule's own, for the program; NULL: none */
	const struct rules_answer *answer; /* of a request that is allowed: in the server's place */
	/* What a layer notes, which decided nothing: the rule, and what it says. NULL: nothing. */
	const char *noted_rule, *noted;
};

/* Any question that rules take. */
struct policy_verdict policy_judge_question(const struct policy *p, const struct rules_question *q);

/* A flow to an address. name: what the program asked for, in lower case; NULL: just the address. */
struct policy_verdict policy_judge(
	const struct policy *p, const char *name, uint32_t address, uint16_t port);

/* As an opaque one, with only the first `layers` layers. */
struct policy_verdict policy_judge_first(
	const struct policy *p, unsigned layers, const char *name, uint32_t address, uint16_t port);

/* Whether a DNS question for the name is allowed. In each layer the first rule decides that lets
 * flows to it through, or denies or covers all of them. What a person is asked about resolves. */
struct policy_verdict policy_judge_name(const struct policy *p, const char *name);

/* A connection to another sandbox (between.h): a name of it, and the port there. Each layer must
 * have a rule for this name or for names below BETWEEN_DOMAIN: neither "*" nor a default allows
 * it. */
struct policy_verdict policy_judge_between(const struct policy *p, const char *name, uint16_t port);

/* The operator's own entry for a name, or NULL. */
const struct policy_host *policy_host(const struct policy *p, const char *name);

/* Whether the operator opened a private address. */
bool policy_opens(const struct policy *p, uint32_t address);

#endif
