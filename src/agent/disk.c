#include "disk.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

/* linux/ext4.h is not part of the exported headers of this kernel. */
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
	char path[64];
	unsigned long long sectors = 0;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/sys/block/%s/size", root_device); /* fits */
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (fscanf(f, "%llu", &sectors) != 1)
		sectors = 0;
	(void)fclose(f); /* read-only */
	return sectors * 512;
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
		(void)nanosleep(&pause, NULL); /* shorter is fine */
	}
	if (fstatfs(root_fd, &st) < 0)
		return -errno;
	blocks = bytes / (uint64_t)st.f_bsize;
	return ioctl(root_fd, EXT4_IOC_RESIZE_FS_, &blocks) < 0 ? -errno : 0;
}
