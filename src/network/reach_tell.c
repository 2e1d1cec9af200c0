#include "network/reach_tell.h"

#include <errno.h>
#include <sys/socket.h>

#include "base/cleanup.h"
#include "base/fd.h"

int reach_tell(int dirfd, const struct egress_reach *reach)
{
	_cleanup_close_ int fd =
		fd_unix_connect(dirfd, EGRESS_REACH_SOCKET, SOCK_SEQPACKET | SOCK_NONBLOCK);

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	return send(fd, reach, sizeof(*reach), MSG_NOSIGNAL) == sizeof(*reach) ? 0 : -EIO;
}
