/* Shared by policy.c and policy_parse.c. */
#ifndef EGRESS_POLICY_INTERNAL_H
#define EGRESS_POLICY_INTERNAL_H

#include "egress/policy.h"

enum rule_kind { RULE_NET, RULE_HOST, RULE_BELOW, RULE_ANY_HOST };

struct policy_rule {
	enum rule_kind kind;
	bool allow, ask;    /* neither: deny */
	uint8_t port_count; /* 0: all */
	uint16_t host_bytes;
	struct net net;
	const char *host; /* RULE_BELOW: from the dot on; owned */
	bool between;	  /* it is for other sandboxes */
	uint16_t *ports;  /* owned */
	char *id;
};

#endif
