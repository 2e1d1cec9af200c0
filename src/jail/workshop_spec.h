/* What a workshop is made of (workshop.h). */
#ifndef JAIL_WORKSHOP_SPEC_H
#define JAIL_WORKSHOP_SPEC_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

enum workshop_user {
	WORKSHOP_NOBODY, /* no rights at all */
	WORKSHOP_READER, /* may read all files that it sees, whoever owns them. Root only */
	WORKSHOP_ROOT,	 /* root of a user namespace with 65,536 users, for mmdebstrap: it may
			  * mount, and change owners of its files. Root only */
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

/* Everything is borrowed. Paths are absolute, and mean the same file inside. Those that are
 * missing are left out. */
struct workshop {
	enum workshop_user user;
	bool network;
	const char *home;	    /* an empty directory that can be written; NULL: none */
	struct workshop_paths read, /* files and directories */
		copy,		    /* copied, so that private ones can be read: settings */
		write;		    /* given to the program's user while it runs */
	uint64_t bytes_max;	    /* that it may write; 0: WORKSHOP_BYTES_MAX */
	char *const *argv;	    /* argv[0] is the program's path */
};

/* What a program may have on the disk at once, in all of `write`, what was there before included;
 * three times the largest image. */
#define WORKSHOP_BYTES_MAX (UINT64_C(32) << 30)

/* The users that a workshop's program has on the host. */
struct workshop_ids {
	uid_t uid; /* who owns what it may write */
	gid_t gid;
	uid_t inside; /* the same user's number inside */
	bool mapped;  /* false: it is the caller */
};

#endif
