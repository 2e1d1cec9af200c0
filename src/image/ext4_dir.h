/* Names in the directories of an ext4 image that is being written.
 *
 * libext2fs looks through all blocks of a directory for each name. That is fine for a directory
 * of one block. Of larger ones this keeps which block each name is in, and how much room each
 * block has, so that a name costs the same however many there are. Names go where libext2fs
 * would put them: the first block with room. An exception are directories in which names were
 * replaced by others; there a little more room may stay unused.
 *
 * All names must be added and removed here. It takes about 16 bytes for each name. What names
 * hash to is random in each process, so no archive can aim at collisions; images do not depend
 * on it. */
#ifndef IMAGE_EXT4_DIR_H
#define IMAGE_EXT4_DIR_H

#include <ext2fs/ext2fs.h>

struct ext4_dirs;

/* NULL without memory or random numbers. The file system stays the caller's. */
struct ext4_dirs *ext4_dirs_new(ext2_filsys fs);
void ext4_dirs_free(struct ext4_dirs *x); /* accepts NULL */

/* The inode of a name; EXT2_ET_FILE_NOT_FOUND. Does not follow links. */
errcode_t ext4_dirs_lookup(struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t *ret);

/* Adds a name that is not there, of at most 255 bytes; the directory grows if it must. type:
 * EXT2_FT_*. */
errcode_t ext4_dirs_link(
	struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t ino, int type);

/* Removes a name that stands for ino. Leaves the inode alone. */
errcode_t ext4_dirs_unlink(struct ext4_dirs *x, ext2_ino_t dir, const char *name, ext2_ino_t ino);

#endif
