/* An empty place: namespaces that contain nothing. All processes that a launcher starts share them.
 * A process can only use what it is given as descriptors.
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

/* Host ids of jailed processes: above those that distributions, systemd and /etc/subuid hand out,
 * and below 2^31. A jailed process has the host user SPACE_FIRST_ID + its pid, so no two have the
 * same. */
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
 * Returns the kind of jail: JAIL_FULL for root if the ids can be mapped, else JAIL_USER. On failure
 * returns -errno and sets *ret_step to the step that failed; the process must then exit. */
int space_enter(enum jail_place place, enum space_step *ret_step);

#endif
