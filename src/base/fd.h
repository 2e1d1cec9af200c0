/* File descriptors: whole reads and writes, flags, and passing over Unix sockets.
 * Every function returns 0 (or a count) or -errno, and retries EINTR. */
#ifndef BASE_FD_H
#define BASE_FD_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>
#include <sys/uio.h>

/* Reads exactly n bytes; -ENODATA when the file or stream ends earlier. For blocking
 * descriptors. */
int fd_read_full(int fd, void *data, size_t n);
int fd_write_full(int fd, const void *data, size_t n);
/* The same to a socket, without SIGPIPE. */
int fd_send_full(int fd, const void *data, size_t n);
int fd_pread_full(int fd, void *data, size_t n, off_t offset);
/* Calls pwritev, so filters need not let pwrite64 through. */
int fd_pwrite_full(int fd, const void *data, size_t n, off_t offset);

/* The same into several pieces of memory. Modifies the array. */
int fd_preadv_full(int fd, struct iovec *iov, unsigned count, off_t offset);
int fd_pwritev_full(int fd, struct iovec *iov, unsigned count, off_t offset);

/* Sends as much as the socket takes at once, without SIGPIPE. Returns how much, or -1 with errno
 * set. It calls sendmsg, so filters need not let sendto through. */
ssize_t fd_send_peer(int fd, const void *data, size_t n);
ssize_t fd_send(int fd, const void *data, size_t n);

int fd_set_nonblock(int fd, int on);

/* Whether fd is among the last descriptors that the process may open: the last FD_RESERVE, or the
 * last quarter if the limit is low. Work that can be refused should then close fd and fail. The
 * reserve is for work that must not fail. */
enum { FD_RESERVE = 256 };
bool fd_is_scarce(int fd);

/* fd_unix_listen binds a listening Unix socket `name` inside directory dirfd; `type` says stream or
 * seqpacket. fd_unix_connect connects to one. Both go through /proc/self/fd, so the length of the
 * directory's path does not matter. Both return the descriptor (close-on-exec) or -errno. */
int fd_unix_listen(int dirfd, const char *name, int type, int backlog);
int fd_unix_connect(int dirfd, const char *name, int type);

#endif
