#include "jail/landlock.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

/* From <linux/landlock.h>; that of the build host may be too old. */
#ifndef SYS_landlock_create_ruleset
#define SYS_landlock_create_ruleset 444
#endif
#ifndef SYS_landlock_add_rule
#define SYS_landlock_add_rule 445
#endif
#ifndef SYS_landlock_restrict_self
#define SYS_landlock_restrict_self 446
#endif

enum { QUERY_VERSION = 1, NET_BIND = 1, NET_CONNECT = 2, BELOW = 1 };

/* Rights to paths. */
enum {
	EXECUTE = 1 << 0,
	WRITE_FILE = 1 << 1,
	READ_FILE = 1 << 2,
	READ_DIR = 1 << 3,
	TRUNCATE = 1 << 14,
	IOCTL_DEV = 1 << 15,
	FOR_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV,
	FOR_READERS = EXECUTE | READ_FILE | READ_DIR | IOCTL_DEV
};

struct below {
	uint64_t rights;
	int32_t fd;
} __attribute__((packed));

struct ruleset {
	uint64_t paths, net, scoped;
};

enum { SCOPED = 3 }; /* abstract sockets and signals */

/* The rights to paths that a version of Landlock knows: 13 in the first, then also refer, truncate,
 * and ioctls of devices. */
static uint64_t rights_to_paths(int abi)
{
	unsigned count = abi >= 5 ? 16 : abi >= 3 ? 15 : abi == 2 ? 14 : 13;

	return (UINT64_C(1) << count) - 1;
}

static size_t ruleset_bytes(int abi)
{
	return abi >= 6	  ? sizeof(struct ruleset)
	       : abi >= 4 ? offsetof(struct ruleset, scoped)
			  : offsetof(struct ruleset, net);
}

int landlock_abi(void)
{
	long abi = syscall(SYS_landlock_create_ruleset, NULL, 0, QUERY_VERSION);

	return abi > 0 ? (int)abi : 0;
}

/* Applies the ruleset to this thread, and closes its descriptor. */
static int restrict_to(long fd)
{
	int r = syscall(SYS_landlock_restrict_self, (int)fd, 0) < 0 ? -errno : 0;

	(void)close((int)fd);
	return r;
}

int landlock_forbid_all(enum landlock_ports ports)
{
	int abi = landlock_abi();
	struct ruleset rules = {.paths = rights_to_paths(abi),
		.net = ports == LANDLOCK_CONNECT ? NET_BIND : NET_BIND | NET_CONNECT,
		.scoped = SCOPED};
	long fd;

	if (abi == 0)
		return 0;
	fd = syscall(SYS_landlock_create_ruleset, &rules, ruleset_bytes(abi), 0);
	return fd < 0 ? -errno : restrict_to(fd);
}

static int add_below(long ruleset, const char *path, uint64_t rights)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	const struct below rule = {.rights = rights, .fd = fd};
	struct below for_file = {.rights = rights & FOR_FILES, .fd = fd};
	struct stat st;

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	if (fstat(fd, &st) < 0)
		return -errno;
	return syscall(SYS_landlock_add_rule, (int)ruleset, BELOW,
		       S_ISDIR(st.st_mode) ? &rule : &for_file, 0) < 0
		       ? -errno
		       : 0;
}

int landlock_allow(const char *const *write, size_t n, bool mounts)
{
	int abi = landlock_abi(), r = 0;
	uint64_t all = rights_to_paths(abi);
	struct ruleset rules = {.paths = mounts ? 0 : all, .scoped = SCOPED};
	long fd;

	if (abi < 2 || (mounts && abi < 6))
		return 0;
	fd = syscall(SYS_landlock_create_ruleset, &rules, ruleset_bytes(abi), 0);
	if (fd < 0)
		return -errno;
	if (!mounts)
		r = add_below(fd, "/", FOR_READERS & all);
	for (size_t i = 0; i < n && r == 0 && !mounts; i++)
		r = add_below(fd, write[i], all);
	if (r < 0)
		(void)close((int)fd); /* nothing holds it */
	return r < 0 ? r : restrict_to(fd);
}
