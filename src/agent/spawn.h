/* Starts a program as a user. vfork makes the child: no page tables are copied, and the exact
 * reason of a failing exec comes back through memory, without a pipe. The price: the agent stops
 * until the exec is done. A file system served by a hung process could make that long. */
#ifndef AGENT_SPAWN_H
#define AGENT_SPAWN_H

#include <stdbool.h>
#include <sys/types.h>

#include "users.h"

struct spawn {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;
	const char *search_path; /* value of the child's PATH */
	const char *cwd;
	bool cwd_optional; /* fall back to / if cwd fails */
	const struct user *user;
	int in, out, err; /* become 0, 1, 2; each must exceed 2 */
	bool tty;	  /* `in` is the controlling terminal */
};

enum spawn_stage { SPAWN_FORK, SPAWN_TTY, SPAWN_USER, SPAWN_CWD, SPAWN_EXEC };

struct spawn_failure {
	enum spawn_stage stage;
	int err;
	bool exists; /* for SPAWN_EXEC: the file exists */
};

/* Returns the pid, or -1 with ret filled. */
pid_t spawn(const struct spawn *s, struct spawn_failure *ret);

#endif
