/* What the agent knows about its guest, and the sandbox's settings, which an IDENTITY replaces. One
 * per process. */
#ifndef AGENT_GUEST_H
#define AGENT_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/agent_wire.h"

struct guest {
	bool init;	/* pid 1 of a microVM; otherwise a process under test */
	uint16_t state; /* enum agent_state */
	uint32_t facts;
	char root_fs[16];
	char problem[512];

	char user[AGENT_NAME_MAX + 1];	  /* default user, "" for the agent's own */
	char workdir[AGENT_PATH_MAX + 1]; /* default working directory, "" for home */
	struct agent_strings env;	  /* packed, owned */

	int cgroup_fd;	   /* for new processes, -1: none; see hold_open */
	int null_fd;	   /* /dev/null; like the next, valid after guest_open */
	int random_fd;	   /* /dev/urandom, -1 when there is none */
	int machine_id_fd; /* the file in memory behind /etc/machine-id; -1: write the file
			    * itself */
};

extern struct guest guest;

/* Opens the descriptors that stay open. Called once, after the root is in place. */
void guest_open(void);

/* Sets the problem, unless there already is one. */
void guest_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* Prints "mayfly-agent: ..." on the console. Only at boot and at the end: consoles are slow. */
void console(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
