/* Shared parts of the requests about files. */
#ifndef AGENT_FILES_H
#define AGENT_FILES_H

#include "conn.h"
#include "users.h"

enum {
	STAT_FLAGS =
		AGENT_STAT_FOLLOW | AGENT_STAT_XATTRS | AGENT_STAT_RESOLVE | AGENT_STAT_CAPABILITY,
};

/* Finds the user and makes the path absolute. On failure answers with an ERROR and returns false. u
 * may be NULL. */
bool files_resolve(struct conn *c, enum agent_type request, const char *spec, const char *path,
	struct user *u, char out[AGENT_PATH_MAX + 1]);

/* Answers with the ENTRY of a path, or an ERROR. */
void files_reply_entry(struct conn *c, enum agent_type request, const char *path, unsigned flags);

/* Answers with the ERROR of a failed operation on path. */
void files_error(struct conn *c, enum agent_type request, int err, const char *path);

#endif
