/* The client of mayfly-launcher, a small process that starts jailed ones (main.c).
 *
 * A process that starts jailed ones has one launcher for each kind of place, made once: making the
 * namespaces takes milliseconds, being born in them does not. The jailed processes are the client's
 * own children. If the launcher dies, its children live on, and the next start makes another.
 *
 * The launcher ends with the client, however that ends. Thread-safe; starts are served one after
 * the other. Blocks: milliseconds. A launcher that does not answer for 10 s is killed and made
 * again, once for each start. So a start ends within two minutes whatever the launcher does. */
#ifndef JAIL_LAUNCHER_H
#define JAIL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"

struct launcher;

/* path: of mayfly-launcher. All that it starts is in the same place; for two places make two
 * launchers. The kind of jail is JAIL_OFF for JAIL_PLACE_NONE, else JAIL_FULL, or JAIL_USER where
 * ids cannot be mapped. ERROR_HOST, with the remedy: namespaces cannot be made. */
int launcher_make(const char *path, enum jail_place place, struct launcher **ret, struct error *e);

/* Ends the launcher, not what it started. NULL is fine. */
void launcher_free(struct launcher *l);

enum jail_kind launcher_kind(struct launcher *l);
pid_t launcher_pid(struct launcher *l); /* for tests */

struct launcher_start {
	/* Everything is borrowed. The program is a static one: the jail has no libraries. Its user
	 * is nobody's (JAIL_FULL), so everybody must be allowed to execute it. */
	const char *path;
	char *const *argv, *const *env; /* each ends with NULL; request.h limits them */
	const int *fds;			/* the child has them as 3, 4 and so on, and no others */
	unsigned fd_count;
	int log_fd;    /* the child's standard error; its standard input and output are /dev/null */
	int cgroup_fd; /* directory of a cgroup v2 in which the child is born; 0 or less: ours. The
			* launcher has this process's user, so it may put it where we may */
};

/* Starts a program. The child has a session of its own, no blocked signals and default handlers.
 * Unless JAIL_OFF it is pid 1 of a pid namespace: signals from inside, its own included, reach it
 * only if it handles them. Its pid, as this process sees it, goes to *ret; the caller waits for
 * it. */
int launcher_start(struct launcher *l, const struct launcher_start *s, pid_t *ret, struct error *e);

#endif
