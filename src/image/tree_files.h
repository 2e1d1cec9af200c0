/* A sink that writes regular files into a directory of the host. They belong to this process's
 * user. Links and devices are refused. The sink itself limits the number of files and their
 * bytes. */
#ifndef IMAGE_TREE_FILES_H
#define IMAGE_TREE_FILES_H

#include <stdbool.h>

#include "image/tree.h"

struct tree_files {
	struct tree_sink sink;
	int fd; /* borrowed: a directory in which nobody else writes */
	/* if a name comes twice, the first file stays; otherwise the second is an error */
	bool keep_first;
	bool durable; /* each file is on disk once it is added */
	uint64_t files_max, bytes_max;
	uint64_t files, bytes; /* so far */
};

/* Fills in the sink; the caller has set the rest. */
void tree_files_init(struct tree_files *t);

#endif
