/* Starts a process that inherits only what it is given: mayfly-vmm. */
#ifndef SANDBOX_LAUNCH_SPAWN_H
#define SANDBOX_LAUNCH_SPAWN_H

#include <sys/types.h>

struct launch_spawn {
	const char *path;		/* of the program */
	char *const *argv, *const *env; /* each ends with NULL */
	const int *fds; /* the child keeps these, under the same numbers, all above 2 */
	unsigned fd_count;
	int cgroup_fd; /* of the control group in which the child begins; 0 or less: ours */
	int log_fd;    /* the child's standard error; its standard input and output are /dev/null */
};

/* The child has a process group of its own, no blocked signals and the default handlers. Its pid
 * goes to *ret; the caller waits for it. All descriptors are borrowed. Marks all descriptors of this
 * process above 2 close-on-exec. Returns 0 or -errno, also when the program cannot be executed. */
int launch_spawn(const struct launch_spawn *s, pid_t *ret);

#endif
