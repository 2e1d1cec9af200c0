/* The proxies that flows go through (docs/network.md): the member `proxies` of a policy, parsed and
 * checked. A chain never changes. The policy and the flows that use it share it by references. */
#ifndef EGRESS_PROXY_H
#define EGRESS_PROXY_H

#include <stdbool.h>
#include <stdint.h>

#include <jansson.h>

#include "base/error.h"

enum {
	PROXY_CHAIN_MAX = 2,	    /* the operator's, then the sandbox's */
	PROXY_CREDENTIAL_MAX = 255, /* bytes of a user's name, and of a password */
	PROXY_CA_MAX = 8192,	    /* bytes of its authorities, as PEM */
};

struct proxy {
	char *host; /* a name in lower case; NULL: use the address */
	uint32_t address;
	uint16_t port;
	char *username, *password; /* or NULL. Never printed; wiped when freed */
	bool trusted;		   /* the operator's: any address is allowed */
	unsigned layers;	   /* how many of the policy's first layers judge it */
	bool tls;		   /* the connection to it is TLS */
	char *tls_name;		   /* name in its certificate; NULL: its host */
	char *tls_ca;		   /* its authorities, as PEM; NULL: those of all servers */
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
