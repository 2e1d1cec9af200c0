#include "policy/network_target.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <netinet/in.h>

#include "base/cleanup.h"
#include "base/place.h"
#include "base/str.h"

enum { LABEL_MAX = 63, PREFIX_MAX = 32, PREFIX6_MAX = 128 };

static uint32_t mask_of(unsigned bits)
{
	return bits ? UINT32_MAX << (PREFIX_MAX - bits) : 0;
}

static int fail(const char **ret_reason, const char *reason)
{
	*ret_reason = reason;
	return -EINVAL;
}

/* --- names --- */

static bool is_label(const char *s, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)s[i]) && s[i] != '-' && s[i] != '_')
			return false;
	return n > 0 && n <= LABEL_MAX && s[0] != '-' && s[n - 1] != '-';
}

/* If the last label is a number, resolvers read the name as an address. */
static bool is_numeric(const char *label)
{
	if (label[0] == '0' && (label[1] == 'x' || label[1] == 'X'))
		return true;
	return label[strspn(label, "0123456789")] == '\0';
}

static const char *fault_of_name(const char *s)
{
	const char *dot;

	if (!*s)
		return "it is empty";
	if (strlen(s) > NETWORK_HOST_MAX)
		return "a name has at most 128 bytes";
	for (const char *p = s; *p; p++)
		if ((unsigned char)*p > 126)
			return "a name must be ASCII: write it in its xn-- form";
	for (; (dot = strchr(s, '.')); s = dot + 1)
		if (!is_label(s, (size_t)(dot - s)))
			return "it is no host name and no address";
	if (!is_label(s, strlen(s)) || is_numeric(s))
		return "it is no host name and no address";
	return NULL;
}

static void copy_lower(const char *from, char to[NETWORK_HOST_MAX + 1])
{
	size_t n = 0;

	for (; from[n]; n++)
		to[n] = (char)(from[n] >= 'A' && from[n] <= 'Z' ? from[n] - 'A' + 'a' : from[n]);
	to[n] = '\0';
}

int network_name_parse(const char *text, char ret[NETWORK_HOST_MAX + 1], const char **ret_reason)
{
	const char *fault = fault_of_name(text);

	if (fault)
		return fail(ret_reason, fault);
	copy_lower(text, ret);
	return 0;
}

static int parse_host(const char *s, struct network_target *ret, const char **ret_reason)
{
	bool wild = str_starts_with(s, "*.");
	const char *fault = strcmp(s, "*") == 0		   ? NULL
			    : strlen(s) > NETWORK_HOST_MAX ? "a name has at most 128 bytes"
							   : fault_of_name(wild ? s + 2 : s);

	if (fault)
		return fail(ret_reason, fault);
	copy_lower(s, ret->host);
	return 0;
}

/* --- addresses --- */

static int parse_net(char *s, struct network_target *ret, const char **ret_reason)
{
	char *slash = strchr(s, '/');
	uint64_t bits = PREFIX_MAX;

	if (slash) {
		*slash = '\0';
		if (str_parse_u64(slash + 1, &bits) < 0 || bits > PREFIX_MAX)
			return fail(ret_reason, "the number after the slash must be 0 to 32");
	}
	if (net_parse_address(s, &ret->net) < 0)
		return fail(ret_reason, "it is no IPv4 address");
	ret->bits = (unsigned)bits;
	ret->net &= mask_of(ret->bits);
	return 0;
}

/* Cuts ":PORT" off. */
static int take_port(char *s, struct network_target *ret, const char **ret_reason)
{
	char *colon = strrchr(s, ':');
	uint64_t port;

	if (!colon)
		return 0;
	if (str_parse_u64(colon + 1, &port) < 0 || port == 0 || port > UINT16_MAX)
		return fail(ret_reason, "the port must be 1 to 65535");
	ret->port = (uint16_t)port;
	*colon = '\0';
	return 0;
}

static bool looks_like_address(const char *s)
{
	return strchr(s, '/') || s[strspn(s, "0123456789.")] == '\0';
}

bool network_is_ipv6(const char *text)
{
	const char *colon = strchr(text, ':');

	return *text == '[' || (colon && strchr(colon + 1, ':'));
}

int network_ipv6_check(const char *text, const char **ret_reason)
{
	const char *slash = strchr(text, '/');
	char s[INET6_ADDRSTRLEN];
	struct in6_addr a;
	uint64_t bits = PREFIX6_MAX;

	if (slash && (str_parse_u64(slash + 1, &bits) < 0 || bits > PREFIX6_MAX))
		return fail(ret_reason, "the number after the slash must be 0 to 128");
	(void)snprintf(s, sizeof(s), "%.*s", slash ? (int)(slash - text) : -1, text);
	if (strlen(s) != (slash ? (size_t)(slash - text) : strlen(text)) ||
		inet_pton(AF_INET6, s, &a) != 1)
		return fail(ret_reason, "it is no IPv6 address");
	if (IN6_IS_ADDR_V4MAPPED(&a) && bits >= PREFIX6_MAX - PREFIX_MAX)
		return fail(ret_reason, "it stands for IPv4 addresses: write those");
	return 0;
}

int network_target_parse(
	const char *text, bool with_port, struct network_target *ret, const char **ret_reason)
{
	char s[NETWORK_HOST_MAX + sizeof(":65535") + 1];
	const char *colon = strchr(text, ':');

	*ret = (struct network_target){0};
	if (!*text)
		return fail(ret_reason, "it is empty");
	if (strlen(text) >= sizeof(s))
		return fail(ret_reason, "a name has at most 128 bytes");
	if (strstr(text, "://"))
		return fail(ret_reason, "it is a URL: give its host only");
	if (network_is_ipv6(text))
		return fail(ret_reason, "IPv6 is not served");
	if (colon && !with_port)
		return fail(ret_reason, "a port cannot be given here");
	(void)snprintf(s, sizeof(s), "%s", text); /* checked above */
	if (take_port(s, ret, ret_reason) < 0)
		return -EINVAL;
	return looks_like_address(s) ? parse_net(s, ret, ret_reason)
				     : parse_host(s, ret, ret_reason);
}

const char *network_net_text(const struct network_target *t, char out[NETWORK_NET_BYTES])
{
	char address[NET_TEXT_BYTES];

	(void)snprintf(out, NETWORK_NET_BYTES, "%s/%u", net_format(t->net, address),
		t->bits & 0x3f); /* fits */
	return out;
}

bool network_net_is_within(const struct network_target *inner, const struct network_target *outer)
{
	return inner->bits >= outer->bits && (inner->net & mask_of(outer->bits)) == outer->net;
}

bool network_net_is_private(const struct network_target *t)
{
	const struct net range = {t->net, mask_of(t->bits)};

	return place_is_special(&range);
}

bool network_target_is_all(const struct network_target *t)
{
	return !t->host[0] && t->bits == 0 && t->port == 0;
}
