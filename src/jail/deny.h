/* A seccomp filter for external programs (workshop.h), and for the daemon, which starts all kinds
 * of programs. Nobody can list all calls of such programs, so it refuses what none of them needs
 * and allows the rest. Refused calls fail with an errno. */
#ifndef JAIL_DENY_H
#define JAIL_DENY_H

#include <stdbool.h>

struct deny_options {
	bool may_mount;	  /* mount(2), umount2(2), pivot_root(2), and all namespaces except user
			 * namespaces */
	bool makes_jails; /* namespaces of all kinds, mounts, keyrings, and clone3(2), for the
			   * programs that it starts */
	bool network;	  /* sockets of IPv4, IPv6 and netlink; otherwise AF_UNIX only */
};

/* Applies to the calling thread and everything it starts. The caller has set no_new_privs. 0 or
 * -errno. */
int deny_install(const struct deny_options *o);

#endif
