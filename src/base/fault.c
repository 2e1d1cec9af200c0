#ifndef FAULT_POINTS
#define FAULT_POINTS
#endif
#include "base/fault.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *spec;
static bool is_read;
static unsigned long passed; /* how often the point was reached */

void fault_set(const char *s)
{
	spec = s;
	passed = 0;
	is_read = true;
}

int fault_point(const char *name)
{
	size_t n = strlen(name);
	unsigned long wanted = 1;
	char *end;

	if (!is_read)
		fault_set(getenv("MAYFLY_FAULT"));
	if (!spec || strncmp(spec, name, n) != 0 || !strchr(":=", spec[n]))
		return 0;
	end = (char *)spec + n;
	if (*end == ':')
		wanted = strtoul(end + 1, &end, 10);
	if (++passed != wanted)
		return 0;
	if (*end == '=')
		return -(int)strtoul(end + 1, NULL, 10);
	(void)kill(getpid(), SIGKILL);
	_exit(128 + SIGKILL); /* the first process of a pid namespace cannot kill itself */
}
