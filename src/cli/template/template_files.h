/* Unpacks archives that clients uploaded for COPY into the directory of a build. A jailed process
 * reads them (image/unpack.h). Files and directories belong to this user, whatever the archive
 * says. Device nodes and extended attributes are left out. */
#ifndef CLI_TEMPLATE_FILES_H
#define CLI_TEMPLATE_FILES_H

#include "build/disk_budget.h"

#define TEMPLATE_FILES_BYTES_MAX (UINT64_C(8) << 30) /* of an archive, unpacked */

enum { TEMPLATE_FILES_MAX = 200000 };

/* Makes the directory `name` with the content of the archive. Fails if that exceeds the budget. */
int template_files_unpack(int dirfd, const char *name, const char *archive,
	struct disk_budget *budget, struct error *e);

#endif
