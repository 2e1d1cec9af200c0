/* A directory of the host as a sink, for image makers that need a directory (mkfs.erofs). Paths are
 * resolved inside it, whatever links an archive contains. Giving files their owners needs root. */
#ifndef IMAGE_TREE_DIR_H
#define IMAGE_TREE_DIR_H

#include "image/tree.h"

struct tree_dir;

/* dirfd: an empty directory, borrowed. */
int tree_dir_new(int dirfd, int64_t epoch, struct tree_dir **ret, struct error *e);
struct tree_sink *tree_dir_sink(struct tree_dir *d);

/* Sets the times of directories, which adding files has changed. Call it last. */
int tree_dir_finish(struct tree_dir *d, struct error *e);
void tree_dir_free(struct tree_dir *d); /* NULL is fine; the files stay */

#endif
