/* What the operator says about the network of all sandboxes (mayfly serve). Sandboxes can only
 * narrow it.
 *
 * The functions that add return ERROR_USAGE or ERROR_LIMIT, and the message quotes the text. */
#ifndef POLICY_NETWORK_FLOOR_H
#define POLICY_NETWORK_FLOOR_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/options.h"
#include "policy/network_target.h"

enum network_mode {
	NETWORK_ON,	   /* sandboxes decide */
	NETWORK_OFF,	   /* no sandbox has a network */
	NETWORK_ALLOW_LIST /* nothing but what the operator lists */
};

#define NETWORK_DNS_DEFAULT "8.8.8.8"

enum {
	NETWORK_ALLOW_MAX = 256,
	NETWORK_PRIVATE_MAX = 64,
	NETWORK_HOSTS_MAX = 256,
	NETWORK_DNS_MAX = 10,
	NETWORK_HOSTS_BYTES_MAX = 256 * 1024, /* of the file */
	NETWORK_ROOTS_BYTES_MAX = 4 << 20,    /* likewise */
};

struct network_floor {
	enum network_mode mode;
	/* Arrays as in the policy (docs/network.md). */
	json_t *rules, *hosts, *dns;
	json_t *proxy; /* as in the policy; NULL: none */
	struct network_target private
		[NETWORK_PRIVATE_MAX]; /* ranges that are open though private */
	unsigned private_count;
	json_t *policy; /* the operator's document (docs/policy.md); NULL: none */
	char *roots;	/* the path of --egress-roots; NULL: none */
};

/* The network is on, and names are asked of NETWORK_DNS_DEFAULT. NULL: out of memory. */
struct network_floor *network_floor_new(void);
void network_floor_free(struct network_floor *f);

/* The options of mayfly serve: --network, --egress-allow, --egress-allow-private,
 * --egress-hosts, --egress-roots, --egress-proxy, --egress-proxy-login and --policy. */
struct network_words {
	/* NULL: not given */
	const char *mode, *hosts, *roots, *proxy, *proxy_login, *policy;
	struct option_list allow, private;
};

/* A floor of these options, which asks this host's resolvers. The caller frees it. */
int network_floor_make(
	const struct network_words *words, struct network_floor **ret, struct error *e);

/* "on", "off" or "allow-list". */
const char *network_mode_word(enum network_mode mode);
int network_floor_set_mode(struct network_floor *f, const char *word, struct error *e);
/* HOST[:PORT] or CIDR[:PORT] */
int network_floor_allow(struct network_floor *f, const char *text, struct error *e);
int network_floor_allow_private(struct network_floor *f, const char *text, struct error *e);
/* A file as hosts(5): "ADDRESS[:PORT] NAME...". With a port, all ports of the name lead to it.
 * Errors name the line. */
int network_floor_read_hosts(struct network_floor *f, const char *path, struct error *e);
/* A file of certificates in PEM, which workers read later: authorities of TLS servers. Checks that
 * it has one. */
int network_floor_set_roots(struct network_floor *f, const char *path, struct error *e);
/* HOST:PORT of a SOCKS5 proxy. login: NULL, or a file with one line, USER:PASSWORD. */
int network_floor_set_proxy(
	struct network_floor *f, const char *address, const char *login, struct error *e);
/* Takes the IPv4 resolvers of a file as resolv.conf(5). If there is none, nothing changes. */
void network_floor_read_resolvers(struct network_floor *f, const char *path);

/* Whether all that t stands for is private, and not open. f may be NULL: nothing is open. */
bool network_floor_forbids(const struct network_floor *f, const struct network_target *t);

/* A proxy of a policy, without `trusted`, `layers` and credentials; NULL: out of memory. */
json_t *network_proxy(const struct network_target *t);

/* A rule of a policy; NULL: out of memory. */
json_t *network_rule(const char *id, const char *action, const struct network_target *t);

#endif
