#include "sandbox/host.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

enum { MEMINFO_MAX = 64 * 1024 };

static uint64_t read_meminfo(const char *name)
{
	_cleanup_free_ char *text = NULL;
	const char *line;
	unsigned long long kib;

	if (file_read(AT_FDCWD, "/proc/meminfo", MEMINFO_MAX, &text, NULL) < 0)
		return UINT64_MAX;
	line = strstr(text, name);
	if (!line || sscanf(line + strlen(name), ": %llu kB", &kib) != 1)
		return UINT64_MAX;
	return (uint64_t)kib * 1024;
}

/* Without /proc. The kernel could free more than what is free now, but does not say how much. */
static uint64_t ask_kernel(bool total)
{
	struct sysinfo s;

	if (sysinfo(&s) < 0)
		return 0; /* cannot fail */
	return (uint64_t)(total ? s.totalram : s.freeram + s.bufferram) * s.mem_unit;
}

uint64_t host_memory_available(void)
{
	uint64_t bytes = read_meminfo("MemAvailable");

	return bytes == UINT64_MAX ? ask_kernel(false) : bytes;
}

uint64_t host_memory_total(void)
{
	uint64_t bytes = read_meminfo("MemTotal");

	return bytes == UINT64_MAX ? ask_kernel(true) : bytes;
}

int host_check_memory(uint64_t bytes, struct error *e)
{
	uint64_t available = host_memory_available();
	char need[16], have[16];

	if (bytes <= available)
		return 0;
	return error_set(e, ERROR_NO_SPACE, ENOMEM,
		"a sandbox with %s of memory does not fit: this host has %s available; end other "
		"sandboxes (mayfly ps) or give a smaller --memory",
		str_format_bytes(bytes, need), str_format_bytes(available, have));
}

int host_check_disk(int dirfd, const char *path, uint64_t bytes, struct error *e)
{
	struct statvfs s;
	uint64_t room;
	char need[16], have[16];

	if (fstatvfs(dirfd, &s) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "%s", path);
	room = (uint64_t)s.f_bavail * s.f_frsize;
	if (room >= bytes)
		return 0;
	return error_set(e, ERROR_NO_SPACE, ENOSPC,
		"%s has %s of free space and a sandbox needs at least %s: free some, or set "
		"MAYFLY_RUN "
		"to a directory on another disk",
		path, str_format_bytes(room, have), str_format_bytes(bytes, need));
}
