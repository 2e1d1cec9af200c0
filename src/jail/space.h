/* An empty place: namespaces that hold nothing, shared by all processes that are born in them. What
 * a process may use comes as descriptors.
 *
 *	user	  no right outside. JAIL_FULL: ids 0 to SPACE_IDS - 1 map to SPACE_FIRST_ID and up.
 *		  The id SPACE_IDS maps to host root; only the launcher has it, to place processes
 *		  in cgroups. JAIL_USER: the caller's own id only. No further user namespace can
 *		  be made in it where /proc/sys can be written
 *	mount	  the root is an empty tmpfs, read-only, without room for an inode
 *	network	  no device is up, loopback included; JAIL_PLACE_NETWORK: the host's, without any
 *		  right to configure it
 *	IPC, UTS  empty
 *
 * A pid namespace is not among them: each process gets its own when it is born (birth.h). */
#ifndef JAIL_SPACE_H
#define JAIL_SPACE_H

#include "jail/kind.h"

/* Above what distributions, systemd and /etc/subuid hand out, below 2^31. On the host, a jailed
 * process has the user SPACE_FIRST_ID + its pid, so no two have the same. */
enum { SPACE_FIRST_ID = 0x70000000, SPACE_IDS = (1 << 22) + 1 };

enum space_step {
	SPACE_USER,
	SPACE_IDS_MAP,
	SPACE_BECOME,
	SPACE_MOUNT,
	SPACE_NETWORK,
	SPACE_IPC,
	SPACE_UTS,
	SPACE_ROOT,
	SPACE_STEPS_
};

/* What a step makes: "a user namespace". */
const char *space_step_name(enum space_step step);

/* Moves the calling process, which has one thread, into an empty place (not JAIL_PLACE_NONE).
 * Returns the kind reached: JAIL_FULL for root where the ids can be mapped, else JAIL_USER. On
 * failure -errno and the step that failed; the process is then fit for nothing but to end. */
int space_enter(enum jail_place place, enum space_step *ret_step);

#endif
