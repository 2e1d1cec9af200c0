/* Files and directories, by directory descriptor. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a whole file of at most max bytes; *ret_data is malloc'ed, NUL-terminated (the NUL is not
 * counted). -EFBIG when larger. dirfd may be AT_FDCWD. */
int file_read(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len);

/* The same of an open file, from its start and without moving its offset. */
int file_read_fd(int fd, size_t max, char **ret_data, size_t *ret_len);

/* Opens a regular file that somebody else may have made, in place of which there may be anything: a
 * symbolic link is not followed (-ELOOP), a pipe is not waited for, a device is not touched.
 * Anything but a regular file of at most max bytes is -EINVAL or -EFBIG. flags as for openat, without
 * O_CREAT. Descriptor or -errno. */
int file_open_foreign(int dirfd, const char *name, int flags, uint64_t max);
/* file_read of such a one. */
int file_read_foreign(int dirfd, const char *name, size_t max, char **ret_data, size_t *ret_len);

/* Replaces a file so that a crash leaves the old or the new content: temporary name, fsync,
 * rename, fsync of the directory. */
int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode);

/* Creates path and its missing parents; an existing directory is success. */
int file_mkdir_p(const char *path, mode_t mode);

/* Removes a file or a tree, without following symbolic links or crossing into another file system;
 * a missing path is success. */
int file_remove_tree(int dirfd, const char *path);

/* Whether there is anything of that name; symbolic links are not followed. */
bool file_exists(int dirfd, const char *path);

/* Bytes that a file occupies on disk (st_blocks), 0 when it cannot be read. */
uint64_t file_disk_bytes(int dirfd, const char *path);

#endif
