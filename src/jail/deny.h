/* A filter of system calls for programs of others, whose calls nobody can list (workshop.h): it
 * refuses what no builder needs, and lets the rest through. Refused calls fail. */
#ifndef JAIL_DENY_H
#define JAIL_DENY_H

#include <stdbool.h>

struct deny_options {
	bool may_mount; /* mount(2), umount2(2), pivot_root(2), and namespaces but of users */
	bool network;	/* sockets of IPv4, IPv6 and netlink beside those of AF_UNIX */
};

/* Holds for the calling thread and all that it starts. Needs no_new_privs. 0 or -errno. */
int deny_install(const struct deny_options *o);

#endif
