/* What the agent knows about the guest it runs in, and the sandbox's settings that an IDENTITY
 * replaces. One per process. */
#ifndef AGENT_GUEST_H
#define AGENT_GUEST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/agent_wire.h"

struct guest {
	bool init;	/* pid 1 of a microVM, else a process under test */
	uint16_t state; /* enum agent_state */
	uint32_t facts;
	char root_fs[16];
	char problem[512];

	char user[AGENT_NAME_MAX + 1];	  /* default user, "" for the agent's own */
	char workdir[AGENT_PATH_MAX + 1]; /* default working directory, "" for home */
	struct agent_strings env;	  /* packed, owned */

	int cgroup_fd;	   /* that processes are started in, -1: none; see hold_open */
	int null_fd;	   /* /dev/null; valid after guest_open, as the next */
	int random_fd;	   /* /dev/urandom, -1 when there is none */
	int machine_id_fd; /* behind /etc/machine-id, in memory; -1: write the file itself */
};

extern struct guest guest;

/* Opens what is kept open. Called once, after the root is in place. */
void guest_open(void);

/* Sets a problem: the first one is kept. */
void guest_problem(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* One line "mayfly-agent: ..." on the console. Boot and end of life only: consoles are slow. */
void console(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

#endif
