#include "jail/kind.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"

static const char *const names[] = {[JAIL_OFF] = "off", [JAIL_USER] = "user", [JAIL_FULL] = "full"};

const char *jail_kind_name(enum jail_kind kind)
{
	return names[kind];
}

int jail_kind_parse(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(name, names[i]) == 0)
			return (int)i;
	return -EINVAL;
}
