#include "jail/landlock.h"

#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

/* <linux/landlock.h>, of which the build host may have an older one. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

enum { QUERY_VERSION = 1, NET_BIND = 1, NET_CONNECT = 2 };

struct ruleset {
	uint64_t paths, net, scoped;
};

/* How many rights to paths each version knows: 13 at first, then refer, truncate, and ioctls of
 * devices. */
static uint64_t rights_to_paths(int abi)
{
	unsigned count = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;

	return (UINT64_C(1) << count) - 1;
}

static size_t ruleset_bytes(int abi)
{
	return abi >= 6	  ? sizeof(struct ruleset)
	       : abi >= 4 ? offsetof(struct ruleset, scoped)
			  : offsetof(struct ruleset, net);
}

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, QUERY_VERSION);

	return abi > 0 ? (int)abi : 0;
}

int landlock_forbid_all(enum landlock_ports ports)
{
	int abi = landlock_abi(), r = 0;
	struct ruleset rules = {.paths = rights_to_paths(abi),
		.net = ports == LANDLOCK_CONNECT ? NET_BIND : NET_BIND | NET_CONNECT,
		.scoped = 3}; /* abstract sockets and signals */
	long fd;

	if (abi == 0)
		return 0;
	fd = syscall(SYS_landlock_create_ruleset, &rules, ruleset_bytes(abi), 0);
	if (fd < 0)
		return -errno;
	if (syscall(SYS_landlock_restrict_self, (int)fd, 0) < 0)
		r = -errno;
	(void)close((int)fd); /* the thread holds it */
	return r;
}
