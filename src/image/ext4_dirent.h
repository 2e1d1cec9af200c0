/* The entries in one block of an ext4 directory: 4 KiB with a checksum at the end, without an
 * index. Specification: Documentation/filesystems/ext4, "Directory Entries". No I/O. A damaged
 * block counts as full and empty: no room, no entries. */
#ifndef IMAGE_EXT4_DIRENT_H
#define IMAGE_EXT4_DIRENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
	EXT4_DIR_BLOCK_BYTES = 4096,
	EXT4_DIRENT_MIN = 12,
	EXT4_DIRENT_MAX = 264, /* of a name of 255 bytes */
};

/* Bytes that an entry with a name of n bytes needs: a multiple of four, from 12. */
size_t ext4_dirent_bytes(size_t n);

/* The most bytes that one more entry can have. */
size_t ext4_dirent_room(const void *block);

/* Adds an entry at the first place with room for it. False when there is none. type: EXT2_FT_*. */
bool ext4_dirent_add(void *block, const char *name, uint32_t ino, unsigned type);

/* The inode that a name stands for, or 0. */
uint32_t ext4_dirent_find(const void *block, const char *name);

/* Removes a name; false when it is not there. */
bool ext4_dirent_remove(void *block, const char *name);

/* Calls `each` for every entry in use. `name` is not terminated. */
void ext4_dirent_list(
	const void *block, void (*each)(void *opaque, const char *name, size_t n), void *opaque);

#endif
