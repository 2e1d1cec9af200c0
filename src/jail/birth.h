/* Makes one jailed process: what mayfly-launcher does for each request. */
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
	/* The other descriptors of the request. Those for the child already have the numbers from
	 * BIRTH_FIRST_FD on. All have close-on-exec set. */
	int program_fd, log_fd, cgroup_fd; /* cgroup_fd: -1 without */
};

/* Starts the program as the first process of a new pid namespace. It becomes a sibling of this
 * process (CLONE_PARENT), so this process's parent waits for it. Returns 0 once the program runs,
 * else -errno. *ret_pid is the pid of the new process, even if that failed and has ended; 0 if none
 * was made. */
int birth_give(const struct birth *b, pid_t *ret_pid);

#endif
