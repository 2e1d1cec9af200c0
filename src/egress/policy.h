/* What a sandbox may reach (docs/network.md): parsed and checked once, then judged. The daemon
 * writes it from clients' words, so its text is not trusted.
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

/* An entry of the operator's table of hosts. */
struct policy_host {
	char *name;
	uint32_t address;
	uint16_t port; /* 0: the port that the program asked for */
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
	bool names; /* name mode: names resolve to addresses that stand for them. Set if rules have
		     * names or something is intercepted, but not for names of other sandboxes
		     * (between.h) */
	struct policy_server dns[POLICY_DNS_MAX];
	unsigned dns_count;
	bool dns_given; /* by the client, so none may be where flows may not go */
	struct net private[POLICY_PRIVATE_MAX];
	unsigned private_count;
	struct policy_host *hosts;
	unsigned host_count;
	struct policy_limits limits;
	struct proxy_chain *proxies; /* NULL: flows are dialled directly */
	struct intercept *intercept; /* owned, one reference; NULL: nothing is intercepted */
};

/* Parses the value of the member `policy`. Fails with ERROR_USAGE; the message names the member
 * that is wrong. */
int policy_make(json_t *value, struct policy **ret, struct error *e);

void policy_free(struct policy *p); /* NULL is fine */

/* The verdict of all layers together. A layer that denies wins over one that asks, that over one
 * that answers, and that over those that allow. Strings are borrowed from the policy. */
struct policy_verdict {
	bool allow;
	bool ask;		       /* a person decides; `allow` is false */
	const struct rules_rule *asks; /* then: the rule that asks; else NULL */
	bool inspect; /* the flow is allowed, and its requests are judged one by one */
	unsigned
		body; /* of a request: its body must be read as this (enum call_api), and decides */
	bool tools;   /* likewise: rules speak of tools of MCP there */
	/* Of a flow: where it goes, if it is allowed, and how many layers come before the one that
	 * says so; NULL: to its host. */
	const struct rules_forward *forward;
	unsigned forward_floors;
	/* Of a request that is allowed: rules with headers, of the first layers first. */
	const struct rules_rule *setters[POLICY_LAYERS_MAX];
	unsigned setter_count;
	const char
		*rule; /* of the layer that decides, else of the last that has one; or "default" */
	const char *reason;		   /* the rule's own, for the program; NULL: none */
	const struct rules_answer *answer; /* of a request that is allowed: in the server's place */
	/* What a layer notes, which decided nothing: the rule, and what it says. NULL: nothing. */
	const char *noted_rule, *noted;
	/* Of a request that is allowed, or asked about: rules of the layers that have a budget. */
	const struct rules_rule *budgets[POLICY_LAYERS_MAX];
	unsigned budget_count;
};

/* Any question that rules take. */
struct policy_verdict policy_judge_question(const struct policy *p, const struct rules_question *q);

/* Judges a flow to an address. name: what the program asked for, in lower case; NULL: just the
 * address. */
struct policy_verdict policy_judge(
	const struct policy *p, const char *name, uint32_t address, uint16_t port);

/* Judges a flow to a name whatever its address: only nets of all addresses match. */
struct policy_verdict policy_judge_unresolved(
	const struct policy *p, const char *name, uint16_t port);

/* Judges an opaque flow to an address, and with only the first `layers` layers. */
struct policy_verdict policy_judge_first(
	const struct policy *p, unsigned layers, const char *name, uint32_t address, uint16_t port);

/* Any question, by only the first `layers` layers: the floors of a rule of a later one. */
struct policy_verdict policy_judge_floors(
	const struct policy *p, unsigned layers, const struct rules_question *q);

/* Of two verdicts about the same, the one that counts. Headers are those of `a`. */
struct policy_verdict policy_harder(struct policy_verdict a, struct policy_verdict b);

/* Judges a DNS question for a name. In each layer the first rule decides that allows any flow to
 * the name, or that denies or covers all of them. A name that a person is asked about resolves. */
struct policy_verdict policy_judge_name(const struct policy *p, const char *name);

/* Judges a connection to a port of another sandbox (between.h). Each layer must have a rule for
 * this name, or for names below BETWEEN_DOMAIN. Neither "*" nor a default allows it. */
struct policy_verdict policy_judge_between(const struct policy *p, const char *name, uint16_t port);

/* Returns the operator's entry for a name, or NULL. */
const struct policy_host *policy_host(const struct policy *p, const char *name);

/* Whether the operator opened a private address. */
bool policy_opens(const struct policy *p, uint32_t address);

#endif
