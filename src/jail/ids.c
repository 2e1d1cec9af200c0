#include "jail/ids.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

int ids_write(pid_t pid, const char *name, const char *map)
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name); /* fits */
	return file_write_text(AT_FDCWD, path, map);
}

int ids_map_one(pid_t pid, uid_t uid, gid_t gid)
{
	char map[64];
	int r;

	pid = pid ? pid : getpid();
	r = ids_write(pid, "setgroups", "deny");
	(void)snprintf(map, sizeof(map), "%u %u 1\n", uid, uid); /* fits */
	if (r == 0)
		r = ids_write(pid, "uid_map", map);
	(void)snprintf(map, sizeof(map), "%u %u 1\n", gid, gid); /* fits */
	return r == 0 ? ids_write(pid, "gid_map", map) : r;
}

static int claim(int fd, unsigned n)
{
	struct sockaddr_un name = {.sun_family = AF_UNIX};
	int length = snprintf(name.sun_path + 1, sizeof(name.sun_path) - 1, "mayfly-ids-%u", n);
	socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)length);

	return bind(fd, (const struct sockaddr *)&name, size) < 0 ? -errno : 0;
}

int ids_claim(unsigned first, unsigned count, unsigned *ret)
{
	_cleanup_close_ int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int r = fd < 0 ? -errno : -EADDRINUSE;

	for (unsigned i = 0; i < count && r == -EADDRINUSE; i++) {
		*ret = (first + i) % count;
		r = claim(fd, *ret);
	}
	return r < 0 ? r : TAKE_FD(fd);
}
