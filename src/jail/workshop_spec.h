/* What a workshop is made of (workshop.h). */
#ifndef JAIL_WORKSHOP_SPEC_H
#define JAIL_WORKSHOP_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum workshop_user {
	WORKSHOP_NOBODY, /* no rights at all */
	WORKSHOP_READER, /* may read all files that it sees, whoever owns them. Only if root starts
			  * it */
	WORKSHOP_ROOT,	 /* root of a user namespace with 65,536 users, for mmdebstrap: may mount,
			  * and change the owners of its files. Only if root starts it, or a user
			  * with as many subordinate ids */
	WORKSHOP_USERS_
};

enum {
	WORKSHOP_PATHS_MAX = 64, /* of a kind */
	WORKSHOP_ROOT_IDS = 65536,
	WORKSHOP_FAILED = 125, /* exit status when the program could not be started */
};

struct workshop_paths {
	const char *items[WORKSHOP_PATHS_MAX];
	unsigned count;
};

/* Everything is borrowed. Paths are absolute, and name the same files inside. Missing ones are left
 * out. */
struct workshop {
	enum workshop_user user;
	bool network;
	const char *home;	    /* an empty directory that can be written; NULL: none */
	struct workshop_paths read, /* files and directories */
		copy,		    /* copied, so that files only their owner may read can be read:
				     * settings */
		write;		    /* given to the program's user while it runs */
	uid_t first_uid; /* of the caller's subordinate ids, for WORKSHOP_ROOT; 0: none */
	gid_t first_gid;
	uint64_t bytes_max; /* the most that `write` may take on disk; 0:
				     * WORKSHOP_BYTES_MAX */
	char *const *argv;  /* argv[0] is the program's path */
};

/* The default limit of the bytes on disk of all of `write` together, including what was there
 * before: three times the largest image. */
#define WORKSHOP_BYTES_MAX (UINT64_C(32) << 30)

/* The users that a workshop's program has outside: on the host or, with subordinate ids, in the
 * user namespace of mayfly-workshop. */
struct workshop_ids {
	uid_t uid; /* the id outside that owns what the program may write */
	gid_t gid;
	uid_t inside; /* the same user's id inside */
	bool mapped;  /* false: the program runs as the caller's own user */
};

#endif
