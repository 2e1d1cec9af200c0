/* The operator's settings for the network of all sandboxes (mayfly serve). Sandboxes can only
 * narrow them.
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
	NETWORK_ALLOW_LIST /* sandboxes reach only what the operator lists */
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

/* Flows at the same time. Peers of datagrams are flows for the last two. */
enum {
	NETWORK_FLOWS = 512,	    /* of a sandbox, if the operator does not say */
	NETWORK_FLOWS_MAX = 768,    /* that may be said */
	NETWORK_KEY_FLOWS = 8192,   /* of all sandboxes of a key, likewise */
	NETWORK_HOST_FLOWS = 16384, /* of all sandboxes, likewise */
	NETWORK_ALL_FLOWS_MAX = 1 << 20,
	NETWORK_DATAGRAM_PEERS = 256, /* of a sandbox */
};

struct network_flows {
	unsigned sandbox, key, host; /* 0: as above */
};

struct network_floor {
	enum network_mode mode;
	/* Arrays as in the policy (docs/network.md). */
	json_t *rules, *hosts, *dns;
	json_t *proxy; /* as in the policy; NULL: none */
	struct network_target private
		[NETWORK_PRIVATE_MAX]; /* private ranges that the operator has opened */
	unsigned private_count;
	json_t *policy; /* the operator's document (docs/policy.md); NULL: none */
	char *roots;	/* the path of --egress-roots; NULL: none */
	struct network_flows flows;
};

/* Makes a floor with the network on and NETWORK_DNS_DEFAULT as resolver. Returns NULL when out of
 * memory. */
struct network_floor *network_floor_new(void);
void network_floor_free(struct network_floor *f);

/* The bounds that apply, none of them 0. f may be NULL. */
struct network_flows network_floor_flows(const struct network_floor *f);

/* The options of mayfly serve: --network, --egress-allow, --egress-allow-private,
 * --egress-hosts, --egress-roots, --egress-proxy, --egress-proxy-login, --policy,
 * --max-flows, --max-key-flows and --max-host-flows. */
struct network_words {
	/* NULL: not given */
	const char *mode, *hosts, *roots, *proxy, *proxy_login, *policy;
	struct option_list allow, private;
	uint64_t flows, key_flows, host_flows; /* 0: not given */
};

/* Makes a floor from these options, with this host's resolvers. The caller frees it. */
int network_floor_make(
	const struct network_words *words, struct network_floor **ret, struct error *e);

/* "on", "off" or "allow-list". */
const char *network_mode_word(enum network_mode mode);
int network_floor_set_mode(struct network_floor *f, const char *word, struct error *e);
/* Adds HOST[:PORT] or CIDR[:PORT]. */
int network_floor_allow(struct network_floor *f, const char *text, struct error *e);
int network_floor_allow_private(struct network_floor *f, const char *text, struct error *e);
/* Reads a file like hosts(5), with lines "ADDRESS[:PORT] NAME...". If there is a port, all ports of
 * the name lead to it. Errors name the line. */
int network_floor_read_hosts(struct network_floor *f, const char *path, struct error *e);
/* Sets a PEM file with authorities of TLS servers. Workers read it later. Checks that it has a
 * certificate. */
int network_floor_set_roots(struct network_floor *f, const char *path, struct error *e);
/* Sets a SOCKS5 proxy, HOST:PORT. login: NULL, or a file with one line, USER:PASSWORD. */
int network_floor_set_proxy(
	struct network_floor *f, const char *address, const char *login, struct error *e);
/* Takes the IPv4 resolvers from a file like resolv.conf(5). If it has none, nothing changes. */
void network_floor_read_resolvers(struct network_floor *f, const char *path);

/* Whether all addresses of t are private and not opened. If f is NULL, none are opened. */
bool network_floor_forbids(const struct network_floor *f, const struct network_target *t);

/* Makes a proxy of a policy, without `trusted`, `layers` and credentials. Returns NULL when out of
 * memory. */
json_t *network_proxy(const struct network_target *t);

/* Makes a rule of a policy. Returns NULL when out of memory. */
json_t *network_rule(const char *id, const char *action, const struct network_target *t);

#endif
