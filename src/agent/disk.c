#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* The kernel does not export linux/ext4.h. */
#define EXT4_IOC_RESIZE_FS_ _IOW('f', 16, uint64_t)

static int root_fd = -1;
static char root_device[16];

void disk_set(int fd, const char *device)
{
	root_fd = fd;
	(void)snprintf(root_device, sizeof(root_device), "%s", device); /* "vda", "vdb" */
}

int disk_fd(void)
{
	return root_fd;
}

static uint64_t device_bytes(void)
{
	char path[64], text[32];
	ssize_t n = 0;
	int fd;

	(void)snprintf(path, sizeof(path), "/sys/block/%s/size", root_device); /* fits */
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0) {
		n = read(fd, text, sizeof(text) - 1);
		(void)close(fd); /* read-only */
	}
	text[n > 0 ? n : 0] = '\0';
	return strtoull(text, NULL, 10) * 512;
}

int disk_trim(void)
{
	struct fstrim_range all = {.len = UINT64_MAX};

	return ioctl(root_fd, FITRIM, &all) < 0 ? -errno : 0;
}

int disk_grow(uint64_t bytes)
{
	static const struct timespec pause = {.tv_nsec = 2 * 1000 * 1000};
	uint64_t end = clock_monotonic_ns() + DISK_WAIT_MS * NS_PER_MS, blocks;
	struct statfs st;

	if (root_fd < 0)
		return -EOPNOTSUPP;
	while (device_bytes() < bytes) {
		if (clock_monotonic_ns() >= end)
			return -ETIMEDOUT;
		(void)nanosleep(&pause, NULL); /* a shorter wait is fine */
	}
	if (fstatfs(root_fd, &st) < 0)
		return -errno;
	blocks = bytes / (uint64_t)st.f_bsize;
	return ioctl(root_fd, EXT4_IOC_RESIZE_FS_, &blocks) < 0 ? -errno : 0;
}
