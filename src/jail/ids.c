#include "jail/ids.h"

#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

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
