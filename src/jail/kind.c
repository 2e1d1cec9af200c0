#include "jail/kind.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const names[] = {[JAIL_OFF] = "off", [JAIL_USER] = "user", [JAIL_FULL] = "full"};

static const char *const places[JAIL_PLACES_] = {
	[JAIL_PLACE_NONE] = "off", [JAIL_PLACE_EMPTY] = "on", [JAIL_PLACE_NETWORK] = "network"};

static int parse(const char *name, const char *const *words, unsigned count)
{
	for (unsigned i = 0; i < count; i++)
		if (strcmp(name, words[i]) == 0)
			return (int)i;
	return -EINVAL;
}

const char *jail_place_name(enum jail_place place)
{
	return places[place];
}

int jail_place_parse(const char *name)
{
	return parse(name, places, ARRAY_SIZE(places));
}

const char *jail_kind_name(enum jail_kind kind)
{
	return names[kind];
}

int jail_kind_parse(const char *name)
{
	return parse(name, names, ARRAY_SIZE(names));
}
