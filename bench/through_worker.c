/* Preloaded into a client of HTTP: what it connects to 198.18.0.0/15 goes through mayfly-egress
 * (channel.h) under the same descriptor, without the client's knowing. */
#include <errno.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "channel.h"

static int goes_through(const struct sockaddr *to)
{
	const struct sockaddr_in *in = (const void *)to;

	return to->sa_family == AF_INET && (ntohl(in->sin_addr.s_addr) >> 17) == 0xc612 >> 1;
}

/* Instead of glibc's. */
__attribute__((visibility("default"))) int connect(int fd, const struct sockaddr *to, socklen_t n)
{
	int flags = fcntl(fd, F_GETFL), stream;

	if (!goes_through(to))
		return (int)syscall(SYS_connect, fd, to, n);
	stream = channel_open((const void *)to);
	if (stream < 0 || dup2(stream, fd) < 0)
		return -1;
	(void)close(stream); /* fd is it, too */
	return fcntl(fd, F_SETFL, flags);
}
