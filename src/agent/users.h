/* Reads users and groups from the guest's /etc/passwd and /etc/group. The files are untrusted: they
 * must be regular, at most USERS_FILE_MAX bytes are read, and malformed lines are skipped. The text
 * is cached, and read again when a file changes. */
#ifndef AGENT_USERS_H
#define AGENT_USERS_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "proto/agent_wire.h"

enum { USERS_FILE_MAX = 256 * 1024, USER_GROUPS_MAX = 64 };

struct user {
	uid_t uid;
	gid_t gid;
	gid_t groups[USER_GROUPS_MAX]; /* supplementary groups, including gid */
	unsigned group_count;
	char name[AGENT_NAME_MAX + 1];
	char home[AGENT_PATH_MAX + 1];
	char shell[AGENT_NAME_MAX + 1];
};

/* spec is name, uid, name:group or uid:gid; numbers need no entry in the files. "" is the sandbox's
 * default user. 0 or -ENOENT. */
int user_find(const char *spec, struct user *ret);

/* Finds uid and gid for "owner" or "owner:group"; a missing half is (uid_t)-1. 0 or -ENOENT. */
int user_find_ids(const char *spec, uid_t *ret_uid, gid_t *ret_gid);

/* Find the name of an id; decimal if it has none. */
void user_name(uid_t uid, char out[AGENT_NAME_MAX + 1]);
void group_name(gid_t gid, char out[AGENT_NAME_MAX + 1]);

#endif
