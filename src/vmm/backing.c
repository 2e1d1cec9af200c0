#include "vmm/backing.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

/* #calls start snapshot: fstat fcntl(F_DUPFD_CLOEXEC)
 * #calls glibc start snapshot: newfstatat
 * #calls musl start snapshot: fcntl(F_SETFD) */
int backing_take(struct backing *b, int fd)
{
	_cleanup_close_ int owned = fd;
	struct stat st;

	if (b->count == BACKING_FILES_MAX)
		return -E2BIG;
	if (fstat(owned, &st) < 0)
		return -errno;
	b->files[b->count].bytes = st.st_size;
	b->files[b->count++].fd = TAKE_FD(owned);
	return 0;
}

int backing_add(struct backing *b, int fd)
{
	int copy = fcntl(fd, F_DUPFD_CLOEXEC, 0);

	return copy < 0 ? -errno : backing_take(b, copy);
}

void backing_drop(struct backing *b, unsigned n)
{
	for (; n > 0 && b->count > 0; n--)
		(void)close(b->files[--b->count].fd); /* only looked at */
}

bool backing_is_whole(const struct backing *b)
{
	struct stat st;

	for (unsigned i = 0; i < b->count; i++)
		if (fstat(b->files[i].fd, &st) == 0 && st.st_size < b->files[i].bytes)
			return false;
	return true;
}
