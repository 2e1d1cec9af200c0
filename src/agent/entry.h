/* Describes one file, as an ENTRY. */
#ifndef AGENT_ENTRY_H
#define AGENT_ENTRY_H

#include "proto/agent_wire.h"

#define ENTRY_CAPABILITY "security.capability"

/* Memory for an entry's strings. */
struct entry_text {
	char owner[AGENT_NAME_MAX + 1];
	char group[AGENT_NAME_MAX + 1];
	char target[AGENT_PATH_MAX + 1];
	char resolved[AGENT_PATH_MAX + 1];
	uint8_t xattrs[AGENT_XATTR_BYTES_MAX];
};

/* Fills ret from the file at an absolute path; flags as AGENT_STAT. 0 or -errno. */
int entry_fill(const char *path, unsigned flags, struct entry_text *t, struct agent_entry *ret);

#endif
