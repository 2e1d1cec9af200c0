#include "base/place.h"

#include <stddef.h>

#include "base/cleanup.h"

#define ADDRESS(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (c) << 8 | (d))
#define NET(a, b, c, d, prefix)                                                                    \
	{                                                                                          \
		ADDRESS(a, b, c, d), UINT32_MAX << (32 - (prefix))                                 \
	}

/* The first that matches counts: services on single addresses come before the ranges around
 * them. */
static const struct {
	struct net net;
	enum place place;
	const char *what;
} table[] = {
	{NET(169, 254, 169, 254, 32), PLACE_CLOSED, "a metadata service"},
	{NET(169, 254, 170, 2, 32), PLACE_CLOSED, "a metadata service"},   /* ECS: credentials */
	{NET(169, 254, 170, 23, 32), PLACE_CLOSED, "a metadata service"},  /* EKS: the same */
	{NET(100, 100, 100, 200, 32), PLACE_CLOSED, "a metadata service"}, /* Alibaba */
	{NET(168, 63, 129, 16, 32), PLACE_CLOSED, "a metadata service"},   /* Azure */
	{NET(192, 0, 0, 192, 32), PLACE_CLOSED, "a metadata service"},	   /* Oracle */
	{NET(0, 0, 0, 0, 8), PLACE_CLOSED, "this host"},
	{NET(127, 0, 0, 0, 8), PLACE_CLOSED, "loopback"},
	{NET(198, 18, 0, 0, 15), PLACE_CLOSED, "an address that stands for a name"},
	{NET(224, 0, 0, 0, 3), PLACE_CLOSED, "multicast or reserved"}, /* broadcast, too */
	{NET(192, 88, 99, 0, 24), PLACE_CLOSED, "a relay of 6to4"},
	{NET(10, 0, 0, 0, 8), PLACE_PRIVATE, "private"},
	{NET(172, 16, 0, 0, 12), PLACE_PRIVATE, "private"},
	{NET(192, 168, 0, 0, 16), PLACE_PRIVATE, "private"},
	{NET(100, 64, 0, 0, 10), PLACE_PRIVATE, "a provider's shared range"},
	{NET(169, 254, 0, 0, 16), PLACE_PRIVATE, "link-local"},
	{NET(192, 0, 0, 0, 24), PLACE_PRIVATE, "reserved"},
	{NET(192, 0, 2, 0, 24), PLACE_DOCUMENTATION, "reserved for documentation"},
	{NET(198, 51, 100, 0, 24), PLACE_DOCUMENTATION, "reserved for documentation"},
	{NET(203, 0, 113, 0, 24), PLACE_DOCUMENTATION, "reserved for documentation"},
};

enum place place_of(uint32_t address, const char **ret_what)
{
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++) {
		if (!net_has(&table[i].net, address))
			continue;
		if (ret_what)
			*ret_what = table[i].what;
		return table[i].place;
	}
	if (ret_what)
		*ret_what = NULL;
	return PLACE_PUBLIC;
}

bool place_is_special(const struct net *range)
{
	for (unsigned i = 0; i < ARRAY_SIZE(table); i++)
		if (table[i].place != PLACE_DOCUMENTATION && net_is_within(range, &table[i].net))
			return true;
	return false;
}

bool place_is_synthetic(uint32_t address)
{
	static const struct net synthetic = NET(198, 18, 0, 0, 15);

	return net_has(&synthetic, address);
}
