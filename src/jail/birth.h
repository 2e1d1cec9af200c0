/* Makes a jailed process: the part of mayfly-launcher that runs for each. */
#ifndef JAIL_BIRTH_H
#define JAIL_BIRTH_H

#include <sys/types.h>

#include "jail/kind.h"
#include "jail/request.h"

enum { BIRTH_FIRST_FD = 3 };

struct birth {
	enum jail_kind kind;
	const struct jail_request *request;
	int socket; /* to the client */
	/* The request's other descriptors. Those that the child keeps are open as BIRTH_FIRST_FD
	 * and up already. All have close-on-exec set. */
	int program_fd, log_fd, cgroup_fd; /* cgroup_fd: -1 without */
};

/* Starts the program as a sibling of this process, so that its parent waits for it, and as the
 * first process of a pid namespace of its own. Returns when it runs: 0, or -errno when it does not.
 * *ret_pid is the pid of the process that was made, also of one that failed and ended; 0 without
 * one. */
int birth_give(const struct birth *b, pid_t *ret_pid);

#endif
