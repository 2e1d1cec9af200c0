#include "agent/net/net_host.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/vm_sockets.h>

#include "base/cleanup.h"
#include "base/fd.h"

int net_host_connect(void)
{
	struct sockaddr_vm sa = {
		.svm_family = AF_VSOCK, .svm_cid = VMADDR_CID_HOST, .svm_port = EGRESS_PORT};
	_cleanup_close_ int fd = socket(AF_VSOCK, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0)
		return -errno;
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0 && errno != EINPROGRESS)
		return -errno;
	return TAKE_FD(fd);
}

int net_host_connected(int fd)
{
	socklen_t n = sizeof(int);
	int err = 0;

	return getsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &n) < 0 ? errno : err;
}

struct egress_endpoint net_endpoint(const struct sockaddr_in *sa)
{
	struct egress_endpoint e = {.port = ntohs(sa->sin_port)};

	memcpy(e.address, &sa->sin_addr, sizeof(e.address));
	return e;
}

struct sockaddr_in net_sockaddr(const struct egress_endpoint *e)
{
	struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(e->port)};

	memcpy(&sa.sin_addr, e->address, sizeof(e->address));
	return sa;
}
