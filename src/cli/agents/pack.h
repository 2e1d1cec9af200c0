/* Packs an agent's directory as a tar archive. It leaves out `.git`, `node_modules`, `__pycache__`,
 * `.venv`, everything that `.dockerignore` names, and anything but files, directories and links. */
#ifndef CLI_AGENTS_PACK_H
#define CLI_AGENTS_PACK_H

#include <stdint.h>

#include "base/error.h"

enum { PACK_DEPTH_MAX = 64 };

struct packed {
	int fd; /* a file without a name; the caller closes it */
	uint64_t bytes;
	unsigned files;
};

/* bytes_max: limit of the archive. Fails with ERROR_LIMIT; the message names the entry that exceeds
 * it. */
int pack_directory(const char *dir, uint64_t bytes_max, struct packed *ret, struct error *e);

#endif
