/* The proxies that flows go through (docs/network.md): the member `proxies` of a policy, parsed and
 * checked. Immutable once made, and shared by the policy and the flows that are on their way
 * through it. */
#ifndef EGRESS_PROXY_H
#define EGRESS_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

enum {
	PROXY_CHAIN_MAX = 2,	    /* the operator's, and behind it the sandbox's */
	PROXY_CREDENTIAL_MAX = 255, /* bytes of a user's name, and of a password */
	PROXY_CA_MAX = 8192,	    /* of authorities, as PEM */
};

struct proxy {
	char *host; /* a name in lower case; NULL: the address */
	uint32_t address;
	uint16_t port;
	char *username, *password; /* NULL: none. Never printed, wiped when freed */
	bool trusted;		   /* the operator's: it may be anywhere */
	unsigned layers;	   /* the first ones of the policy, which judge it */
	bool tls;		   /* it is spoken with over TLS */
	char *tls_name;		   /* that its certificate is for; NULL: its host */
	char *tls_ca;		   /* who vouches for it, as PEM; NULL: who does for all servers */
};

struct proxy_chain {
	unsigned references;
	unsigned count;
	struct proxy hops[PROXY_CHAIN_MAX];
};

/* Takes the value of the member. ERROR_USAGE names the member that is wrong. */
int proxy_chain_make(json_t *value, struct proxy_chain **ret, struct error *e);

struct proxy_chain *proxy_chain_ref(struct proxy_chain *c);
void proxy_chain_unref(struct proxy_chain *c); /* NULL is fine */

#endif
