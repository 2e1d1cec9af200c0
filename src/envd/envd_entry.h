/* Writes EntryInfo, envd's description of a file, from the agent's report. */
#ifndef ENVD_ENTRY_H
#define ENVD_ENTRY_H

#include <stdint.h>

#include "base/buf.h"
#include "proto/agent_wire.h"

/* What to ask the agent for to get complete entries. */
enum { ENVD_ENTRY_FLAGS = AGENT_STAT_XATTRS | AGENT_STAT_RESOLVE };

#define ENVD_METADATA_PREFIX "user.e2b."

enum { ENVD_PERMISSIONS_BYTES = 16 };

/* "-rw-r--r--", "dtrwxrwxrwx", "Lrwxrwxrwx": as Go writes st_mode. */
void envd_permissions(uint32_t mode, char out[ENVD_PERMISSIONS_BYTES]);

/* The last component of an absolute path; "/" for the root. */
const char *envd_base_name(const char *path);

/* These append to out. They return 0, -EMSGSIZE or -ENOMEM. */
int envd_entry_write(struct buf *out, const struct agent_entry *e);
/* {"key":"value"} of the attributes that begin with ENVD_METADATA_PREFIX; *ret_count is their
 * number. */
int envd_metadata_write(struct buf *out, const struct agent_strings *xattrs, unsigned *ret_count);
int envd_json_string(struct buf *out, const char *s); /* in quotes, escaped */

#endif
