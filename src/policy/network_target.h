/* The target of a rule: names or IPv4 addresses, perhaps with a port. */
#ifndef POLICY_NETWORK_TARGET_H
#define POLICY_NETWORK_TARGET_H

#include <stdbool.h>
#include <stdint.h>

enum {
	NETWORK_HOST_MAX = 128, /* bytes of a name */
	NETWORK_NET_BYTES = 20, /* "255.255.255.255/32" */
};

struct network_target {
	/* In lower case: "example.com", "*.example.com" (any depth, not the name itself) or "*". ""
	 * if the target is addresses. */
	char host[NETWORK_HOST_MAX + 1];
	uint32_t net;  /* in host byte order; bits beyond the prefix are zero */
	unsigned bits; /* of the prefix */
	uint16_t port; /* 0: all */
};

/* Parses a name, an address or a range in CIDR form. with_port: ":PORT" may follow. On failure
 * returns -EINVAL, and *ret_reason is a static clause ("IPv6 is not served"). */
int network_target_parse(
	const char *text, bool with_port, struct network_target *ret, const char **ret_reason);

/* Whether the text has two colons or begins with a bracket, so only IPv6 can be meant. */
bool network_is_ipv6(const char *text);

/* Checks an IPv6 address or range in CIDR form. One that only stands for IPv4 addresses (RFC 4291,
 * section 2.5.5.2) is refused, because it would have to be matched. Fails like
 * network_target_parse(). */
int network_ipv6_check(const char *text, const char **ret_reason);

/* Parses a name without wildcards and writes it in lower case. Fails like
 * network_target_parse(). */
int network_name_parse(const char *text, char ret[NETWORK_HOST_MAX + 1], const char **ret_reason);

const char *network_net_text(const struct network_target *t, char out[NETWORK_NET_BYTES]);

/* Whether all addresses of `inner` are in `outer`. Both must be addresses. */
bool network_net_is_within(const struct network_target *inner, const struct network_target *outer);

/* Whether sandboxes reach none of its addresses by default (docs/network.md): loopback, private,
 * link-local, shared, reserved, multicast and those of metadata services. */
bool network_net_is_private(const struct network_target *t);

/* Whether it stands for every address at every port. */
bool network_target_is_all(const struct network_target *t);

#endif
