/* File descriptors: whole reads and writes, flags, and passing over Unix sockets.
 * Every function returns 0 (or a count) or -errno, and retries EINTR. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Reads exactly n bytes; -ENODATA when the file or stream ends before. Blocking descriptors. */
int fd_read_full(int fd, void *data, size_t n);
int fd_write_full(int fd, const void *data, size_t n);
int fd_pread_full(int fd, void *data, size_t n, off_t offset);
int fd_pwrite_full(int fd, const void *data, size_t n, off_t offset);

/* The same with several pieces of memory; the array is used up. */
int fd_preadv_full(int fd, struct iovec *iov, unsigned count, off_t offset);
int fd_pwritev_full(int fd, struct iovec *iov, unsigned count, off_t offset);

int fd_set_nonblock(int fd, int on);
int fd_set_cloexec(int fd, int on);

/* Whether a new descriptor is among the last that the process may have (FD_RESERVE, or a quarter of
 * a low limit). What can be refused gives it back then, so that what cannot fail finds some. */
enum { FD_RESERVE = 256 };
bool fd_is_scarce(int fd);

/* Binds a listening stream (or seqpacket, as `type` says) Unix socket `name` inside directory
 * dirfd, and connects to one. They go through /proc/self/fd, so that the length of the directory's
 * path does not matter. Return the descriptor (close-on-exec) or -errno. */
int fd_unix_listen(int dirfd, const char *name, int type, int backlog);
int fd_unix_connect(int dirfd, const char *name, int type);

#endif
