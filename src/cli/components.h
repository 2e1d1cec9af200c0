/* The libraries of others that Mayfly's programs were linked with, and their versions at that time.
 * The build makes the table from packaging/components. */
#ifndef CLI_COMPONENTS_H
#define CLI_COMPONENTS_H

#include <stdbool.h>
#include <stddef.h>

struct component {
	const char *program, *library;
	const char *version;	  /* of Debian's package; "unknown" where the build found none */
	const char *host_package; /* Debian's package with the same code on a host; or NULL */
	bool is_static; /* the distribution's updates do not reach it: it must be linked anew */
};

extern const struct component components[];
extern const size_t component_count;

#endif
