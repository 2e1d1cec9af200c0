/* A directory of the host as a sink of regular files only: they belong to the user, and links and
 * devices are refused. The sink limits their number and bytes itself. */
#ifndef IMAGE_TREE_FILES_H
#define IMAGE_TREE_FILES_H

#include <stdbool.h>

#include "image/tree.h"

struct tree_files {
	struct tree_sink sink;
	int fd; /* borrowed: a directory in which nobody else writes */
	/* a name that comes twice: the first file stays. Otherwise it is refused */
	bool keep_first;
	bool durable; /* each file is on disk once it is added */
	uint64_t files_max, bytes_max;
	uint64_t files, bytes; /* so far */
};

/* Fills in the sink; the caller has set the rest. */
void tree_files_init(struct tree_files *t);

#endif
