/* The client of mayfly-launcher, a small process that starts jailed ones (main.c).
 *
 * To make namespaces takes milliseconds; to start a process in existing ones does not. So a process
 * that starts jailed ones makes a launcher once for each enum jail_place. The jailed processes are
 * children of the client, not of the launcher. If the launcher dies, they live on, and the next
 * start makes a new launcher.
 *
 * The launcher ends when the client ends, however that happens. Thread-safe; starts are served one
 * after the other. A start blocks for milliseconds. A launcher that does not answer for 10 s is
 * killed and replaced, once per start. So a start returns within two minutes whatever the launcher
 * does. */
#ifndef JAIL_LAUNCHER_H
#define JAIL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"
#include "jail/kind.h"

struct launcher;

/* path: of mayfly-launcher. Everything that this launcher starts runs in `place`. The kind of jail
 * is JAIL_OFF for JAIL_PLACE_NONE, else JAIL_FULL, or JAIL_USER if ids cannot be mapped.
 * ERROR_HOST, with the remedy, if namespaces cannot be made. */
int launcher_make(const char *path, enum jail_place place, struct launcher **ret, struct error *e);

/* Ends the launcher, not what it started. NULL is fine. */
void launcher_free(struct launcher *l);

enum jail_kind launcher_kind(struct launcher *l);
pid_t launcher_pid(struct launcher *l); /* for tests */

struct launcher_start {
	/* Everything is borrowed. The program must be static, as the jail has no libraries. With
	 * JAIL_FULL its user owns nothing, so the file's mode must let everybody execute it. */
	const char *path;
	char *const *argv, *const *env; /* each ends with NULL; request.h limits them */
	const int *fds;			/* become 3, 4 and so on in the child, which gets no
					 * others */
	unsigned fd_count;
	int log_fd;    /* the child's standard error; its standard input and output are /dev/null */
	int cgroup_fd; /* directory of the cgroup (v2) that the child starts in; 0 or less: this
		        * process's. The launcher runs as this process's user, so it may use the
		        * same groups */
};

/* Starts a program. The child has a process group of its own, no terminal, no blocked signals and
 * default handlers. Unless JAIL_OFF it is pid 1 of a pid namespace: signals from inside, its own
 * included, reach it only if it handles them. Its pid, as this process sees it, goes to *ret; the
 * caller waits for it. */
int launcher_start(struct launcher *l, const struct launcher_start *s, pid_t *ret, struct error *e);

#endif
