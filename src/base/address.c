#include "base/address.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

#include "base/place.h"

/* Public addresses are those of 2000::/3, without documentation and without prefixes that carry
 * IPv4 (2001::/32, 2002::/16). All other blocks are not global, nor are mapped and translated IPv4
 * addresses. */
static bool is_public_v6(const uint8_t a[16])
{
	static const uint8_t teredo[] = {0x20, 0x01, 0, 0},
			     documentation[] = {0x20, 0x01, 0x0d, 0xb8},
			     six_to_four[] = {0x20, 0x02};

	return a[0] >> 5 == 1 && memcmp(a, teredo, sizeof(teredo)) != 0 &&
	       memcmp(a, documentation, sizeof(documentation)) != 0 &&
	       memcmp(a, six_to_four, sizeof(six_to_four)) != 0;
}

bool address_is_public(const struct sockaddr *a)
{
	const struct in6_addr *six = &((const struct sockaddr_in6 *)(const void *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		return place_of(ntohl(((const struct sockaddr_in *)(const void *)a)
						->sin_addr.s_addr),
			       NULL) == PLACE_PUBLIC;
	return a->sa_family == AF_INET6 && is_public_v6(six->s6_addr);
}

static bool is_same(const struct sockaddr *a, const struct sockaddr *b)
{
	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return ((const struct sockaddr_in *)(const void *)a)->sin_addr.s_addr ==
		       ((const struct sockaddr_in *)(const void *)b)->sin_addr.s_addr;
	return a->sa_family == AF_INET6 &&
	       memcmp(&((const struct sockaddr_in6 *)(const void *)a)->sin6_addr,
		       &((const struct sockaddr_in6 *)(const void *)b)->sin6_addr,
		       sizeof(struct in6_addr)) == 0;
}

bool address_is_own(const struct sockaddr *a)
{
	struct ifaddrs *list = NULL;
	bool own = false;

	if (getifaddrs(&list) < 0)
		return true;
	for (const struct ifaddrs *i = list; i && !own; i = i->ifa_next)
		own = i->ifa_addr && is_same(i->ifa_addr, a);
	freeifaddrs(list);
	return own;
}

bool address_host_is_loopback(const char *host)
{
	struct in_addr four;
	char name[64];
	size_t n = *host == '[' ? strcspn(host, "]/") + 1 : strcspn(host, ":/");

	if (n >= sizeof(name))
		return false;
	memcpy(name, host, n);
	name[n] = '\0';
	if (strcasecmp(name, "localhost") == 0 || strcmp(name, "[::1]") == 0)
		return true;
	return inet_pton(AF_INET, name, &four) == 1 && ntohl(four.s_addr) >> 24 == 127;
}
