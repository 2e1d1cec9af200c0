/* Names in the directories of an ext4 image that is being written.
 *
 * libext2fs searches all blocks of a directory for each name. That is fast enough for a directory
 * of one block. For larger directories this module remembers which block holds each name and how
 * much room each block has, so the cost of a name does not grow with their number. A name goes
 * where libext2fs would put it: into the first block with room. If names were removed and others
 * added, a little more room may stay unused than with libext2fs.
 *
 * All names must be added and removed through this module. It uses about 16 bytes of memory per
 * name. Each process hashes names with a random key, so no archive can aim at collisions. Images do
 * not depend on that key. */
#ifndef IMAGE_EXT4_DIR_H
#define IMAGE_EXT4_DIR_H

#include <ext2fs/ext2fs.h>

struct ext4_dirs;

/* NULL when out of memory, or without random numbers. The file system stays the caller's. */
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
