/* Packs an agent's directory as a tar archive. Left out are `.git`, `node_modules`, `__pycache__`,
 * `.venv`, what `.dockerignore` names, and what is no file, directory or link. */
#ifndef CLI_AGENTS_PACK_H
#define CLI_AGENTS_PACK_H

#include <stdint.h>

#include "base/error.h"

enum { PACK_DEPTH_MAX = 64 };

struct packed {
	int fd; /* of a file without a name; close it */
	uint64_t bytes;
	unsigned files;
};

/* bytes_max: of the archive. ERROR_LIMIT names the entry that is too much. */
int pack_directory(const char *dir, uint64_t bytes_max, struct packed *ret, struct error *e);

#endif
