#include "agent/init/boot.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

#include "agent/disk.h"
#include "agent/guest.h"
#include "agent/net/net_setup.h"
#include "agent/setup.h"
#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/file.h"

enum {
	MODULE_LIST_MAX = 64 * 1024,
	DEVICE_WAIT_MS = 5000,
	SUPERBLOCK_OFFSET = 1024,
	EXT4_MAGIC_OFFSET = 56,
	EXT4_MAGIC = 0xef53,
};
#define EROFS_MAGIC 0xe0f5e1e2U

#define RAMFS_MAGIC_ 0x858458f6U
#define TMPFS_MAGIC_ 0x01021994U

enum fs_kind { FS_NONE, FS_EXT4, FS_EROFS };

bool boot_possible(void)
{
	struct statfs st;

	return statfs("/", &st) == 0 && access("/etc/mayfly/modules", F_OK) == 0 &&
	       ((uint32_t)st.f_type == RAMFS_MAGIC_ || (uint32_t)st.f_type == TMPFS_MAGIC_);
}

static void early_mount(const char *source, const char *target, const char *type)
{
	(void)mkdir(target, 0755); /* it exists, or mount reports the error */
	if (mount(source, target, type, MS_NOSUID, NULL) < 0 && errno != EBUSY)
		console("mounting %s: %s", target, strerror(errno));
}

/* Opens the console. The kernel does so for init only if the initramfs has /dev/console. */
static void open_console(void)
{
	int fd = open("/dev/console", O_RDWR | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		fd = open("/dev/null", O_RDWR);
	for (int i = 0; fd >= 0 && i < 3; i++)
		if (fd != i)
			(void)dup2(fd, i); /* 0 to 2 are unused */
	if (fd > 2)
		(void)close(fd); /* its duplicates stay open */
}

static int load_module(const char *path)
{
	_cleanup_close_ int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	return syscall(SYS_finit_module, fd, "", 0) < 0 && errno != EEXIST ? -errno : 0;
}

static void load_modules(void)
{
	_cleanup_free_ char *list = NULL;
	unsigned loaded = 0;
	char *save, *line;
	int r = file_read(AT_FDCWD, "/etc/mayfly/modules", MODULE_LIST_MAX, &list, NULL);

	if (r < 0) {
		console("no module list (/etc/mayfly/modules): %s", strerror(-r));
		return;
	}
	for (line = strtok_r(list, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		r = load_module(line);
		if (r < 0)
			console("module %s: %s", line,
				r == -ENOENT ? "it wants a module that is not listed before it"
					     : strerror(-r));
		else
			loaded++;
	}
	console("%u modules loaded", loaded);
}

/* --- the root disk --- */

static int wait_for_device(const char *path, unsigned ms)
{
	static const struct timespec pause = {.tv_nsec = 1000 * 1000};
	uint64_t end = clock_monotonic_ns() + ms * NS_PER_MS;
	int fd;

	while ((fd = open(path, O_RDONLY | O_CLOEXEC)) < 0 && clock_monotonic_ns() < end)
		(void)nanosleep(&pause, NULL); /* a shorter wait is fine */
	return fd;
}

static enum fs_kind detect(int fd)
{
	uint8_t sb[128];

	if (fd_pread_full(fd, sb, sizeof(sb), SUPERBLOCK_OFFSET) < 0)
		return FS_NONE;
	if (get_le32(sb) == EROFS_MAGIC)
		return FS_EROFS;
	return get_le16(sb + EXT4_MAGIC_OFFSET) == EXT4_MAGIC ? FS_EXT4 : FS_NONE;
}

static int mount_ext4(const char *device, const char *target)
{
	(void)mkdir(target, 0755); /* likewise */
	if (mount(device, target, "ext4", MS_NOATIME, NULL) < 0)
		return -errno;
	return 0;
}

/* Keeps a directory open on the file system that can grow. */
static void keep_for_growing(const char *target, const char *device)
{
	int fd = open(target, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd >= 0)
		disk_set(fd, device);
}

static bool mount_upper_disk(void)
{
	_cleanup_close_ int fd = open("/dev/vdb", O_RDONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return false;
	if (detect(fd) != FS_EXT4) {
		console("/dev/vdb holds no ext4: writing to memory instead");
		return false;
	}
	r = mount_ext4("/dev/vdb", "/upper");
	if (r < 0) {
		console("/dev/vdb: %s: writing to memory instead", strerror(-r));
		return false;
	}
	keep_for_growing("/upper", "vdb");
	return true;
}

static int mount_overlay(void)
{
	(void)mkdir("/lower", 0755); /* mount reports errors, as below */
	(void)mkdir("/upper", 0755);
	if (mount("/dev/vda", "/lower", "erofs", MS_RDONLY | MS_NOATIME, NULL) < 0)
		return -errno;
	guest.facts |= AGENT_FACT_ROOT_OVERLAY;
	if (!mount_upper_disk()) {
		guest.facts |= AGENT_FACT_ROOT_VOLATILE;
		if (mount("tmpfs", "/upper", "tmpfs", 0, "mode=0755") < 0)
			return -errno;
	}
	(void)mkdir("/upper/upper", 0755);
	(void)mkdir("/upper/work", 0755);
	if (mount("overlay", "/newroot", "overlay", MS_NOATIME,
		    "lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work") < 0)
		return -errno;
	/* The overlay holds its layers; their names are not needed. */
	(void)umount2("/lower", MNT_DETACH);
	(void)umount2("/upper", MNT_DETACH);
	return 0;
}

static bool mount_root(void)
{
	_cleanup_close_ int fd = wait_for_device("/dev/vda", DEVICE_WAIT_MS);
	enum fs_kind kind;
	int r;

	if (fd < 0) {
		guest_problem("the machine has no root disk (/dev/vda did not appear)");
		return false;
	}
	kind = detect(fd);
	if (kind == FS_NONE) {
		guest_problem("the root disk holds neither ext4 nor EROFS");
		return false;
	}
	(void)mkdir("/newroot", 0755); /* mount reports errors */
	strcpy(guest.root_fs, kind == FS_EXT4 ? "ext4" : "erofs");
	r = kind == FS_EXT4 ? mount_ext4("/dev/vda", "/newroot") : mount_overlay();
	if (r < 0) {
		guest_problem(
			"the root disk (%s) cannot be mounted: %s", guest.root_fs, strerror(-r));
		return false;
	}
	if (kind == FS_EXT4)
		keep_for_growing("/newroot", "vda");
	console("root is %s, changes go to %s", guest.root_fs,
		guest.facts & AGENT_FACT_ROOT_VOLATILE	? "memory"
		: guest.facts & AGENT_FACT_ROOT_OVERLAY ? "/dev/vdb"
							: "it");
	return true;
}

/* --- leaving the initramfs --- */

/* Removes the content of fd that is on the file system `dev`, and closes fd. Mount points stay. */
static void remove_content(int fd, dev_t dev)
{
	DIR *d = fdopendir(fd);
	struct dirent *e;
	struct stat st;

	while (d && (e = readdir(d))) {
		int child;

		if (file_is_dots(e->d_name))
			continue;
		if (fstatat(dirfd(d), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0 || st.st_dev != dev)
			continue;
		if (!S_ISDIR(st.st_mode)) {
			(void)unlinkat(dirfd(d), e->d_name, 0); /* a failure only wastes memory */
			continue;
		}
		child = openat(
			dirfd(d), e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (child >= 0)
			remove_content(child, dev);
		(void)unlinkat(dirfd(d), e->d_name, AT_REMOVEDIR); /* mount points stay */
	}
	if (d)
		(void)closedir(d); /* read-only */
}

static void carry_mount(const char *from, const char *to)
{
	(void)mkdir(to, 0755); /* most images have the directory */
	if (mount(from, to, NULL, MS_MOVE, NULL) < 0)
		console("moving %s into the root: %s", from, strerror(errno));
}

static bool switch_root(void)
{
	int old = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct stat st;

	carry_mount("/dev", "/newroot/dev");
	carry_mount("/proc", "/newroot/proc");
	carry_mount("/sys", "/newroot/sys");
	if (old >= 0 && fstat(old, &st) == 0)
		remove_content(old, st.st_dev);
	if (chdir("/newroot") < 0 || mount(".", "/", NULL, MS_MOVE, NULL) < 0 || chroot(".") < 0 ||
		chdir("/") < 0) {
		guest_problem("cannot enter the root: %s", strerror(errno));
		return false;
	}
	return true;
}

static void start_loopback(void)
{
	int r = net_setup_loopback();

	if (r < 0)
		console("loopback network: %s", strerror(-r));
}

void boot(void)
{
	(void)umask(022);
	early_mount("dev", "/dev", "devtmpfs");
	open_console();
	early_mount("proc", "/proc", "proc");
	early_mount("sysfs", "/sys", "sysfs");
	load_modules();
	guest.state = AGENT_STATE_UNUSABLE;
	if (!mount_root() || !switch_root())
		return;
	setup_mounts();
	start_loopback();
	setup_files();
	guest.state = AGENT_STATE_READY;
}
