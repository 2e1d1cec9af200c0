/* Files and directories, by directory descriptor. */
#ifndef BASE_FILE_H
#define BASE_FILE_H

#include <dirent.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* Reads a whole file of at most max bytes; -EFBIG when it is larger. *ret_data is malloc'ed and
 * NUL-terminated; *ret_len does not count the NUL. dirfd may be AT_FDCWD. */
int file_read(int dirfd, const char *path, size_t max, char **ret_data, size_t *ret_len);

/* The same for an open file, from its start; its offset does not move. */
int file_read_fd(int fd, size_t max, char **ret_data, size_t *ret_len);

/* Opens a regular file that somebody else may have made or replaced. It does not follow a symbolic
 * link (-ELOOP), wait for a pipe or touch a device. Anything but a regular file is -EINVAL; one of
 * more than max bytes is -EFBIG. flags as for openat, without O_CREAT. Returns a descriptor or
 * -errno. */
int file_open_foreign(int dirfd, const char *name, int flags, uint64_t max);
/* file_read for such a file. */
int file_read_foreign(int dirfd, const char *name, size_t max, char **ret_data, size_t *ret_len);

/* Writes text into an existing file, such as one in /proc, /sys or a cgroup. Does not follow a
 * symbolic link. 0 or -errno. */
int file_write_text(int dirfd, const char *name, const char *text);

/* Replaces a file so that a crash leaves either the old or the new content: temporary name, fsync,
 * rename, fsync of the directory. */
int file_write_atomic(int dirfd, const char *name, const void *data, size_t len, mode_t mode);

/* Opens a new file without a name in a directory, to read and write. It goes when it is closed. Not
 * all file systems have such files (virtiofs, NFS): there it has a name for a moment, which a kill
 * leaves behind. Returns the descriptor or -errno. */
int file_open_unnamed(int dirfd, const char *path);

/* Creates path and its missing parents; an existing directory is success. */
int file_mkdir_p(const char *path, mode_t mode);

/* Removes a file or a tree. Does not follow symbolic links or cross into another file system. A
 * missing path is success. */
int file_remove_tree(int dirfd, const char *path);
/* The same for a tree that this user owns but other programs wrote. If a directory's mode locks
 * even its owner out, this function changes the mode. */
int file_remove_own_tree(int dirfd, const char *path);

/* Opens a directory for readdir(3), with a read position of its own even for ".", which is dirfd
 * itself. Does not follow a symbolic link. Returns NULL with errno set on failure. The caller calls
 * closedir. */
DIR *file_open_dir(int dirfd, const char *name);

/* Whether a directory's entry is the directory itself or its parent. */
bool file_is_dots(const char *name);

/* Whether anything with that name exists; symbolic links are not followed. */
bool file_exists(int dirfd, const char *path);

/* The bytes that this process may still use on the file system of fd. Returns 0 or -errno. */
int file_free_bytes(int fd, uint64_t *ret);

/* Bytes that a file occupies on disk (st_blocks), 0 when it cannot be read. */
uint64_t file_disk_bytes(int dirfd, const char *path);

/* Copies a file into an empty one of the same size. Holes stay holes. Returns 0 or -errno. */
int file_copy_sparse(int from, int to);

#endif
