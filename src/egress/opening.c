#include "egress/opening.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "base/fd.h"

int opening_read(int fd, uint8_t *head, unsigned *bytes, struct egress_open *ret)
{
	size_t wanted = *bytes < EGRESS_OPEN_HEADER ? EGRESS_OPEN_HEADER
						    : (size_t)EGRESS_OPEN_HEADER + head[2];
	ssize_t n = recv(fd, head + *bytes, wanted - *bytes, 0);

	if (n <= 0)
		return n == 0 ? -EPIPE : -errno;
	*bytes += (unsigned)n;
	return egress_get_open(head, *bytes, ret);
}

int opening_answer(int fd, enum egress_verdict verdict, int err, const char *reason)
{
	struct egress_answer a = {.verdict = verdict, .err = err};
	struct buf b = BUF_INIT(EGRESS_ANSWER_MAX);
	int r;

	(void)strncpy(a.reason, reason, sizeof(a.reason) - 1); /* zeroed */
	r = egress_put_answer(&b, &a);
	if (r == 0 && fd_send_peer(fd, buf_head(&b), buf_len(&b)) != (ssize_t)buf_len(&b))
		r = -EIO; /* the first bytes on a socket always fit */
	buf_done(&b);
	return r;
}
