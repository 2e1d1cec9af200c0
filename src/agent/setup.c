#include "setup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "guest.h"

/* As in E2B's sandboxes. The host answers all DNS queries itself, whatever resolver they name. */
#define RESOLVER "8.8.8.8"

/* Mounts a file in memory over /etc/machine-id. Every sandbox gets its own id before anything else
 * runs, and that must not wait for the disk. If it fails, the identity goes into the file
 * itself. */
static void mount_machine_id(void)
{
	static const char file[] = "/run/mayfly/machine-id", target[] = "/etc/machine-id";
	int fd, under;

	(void)mkdir("/run/mayfly", 0755); /* open reports errors */
	fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0444);
	under = open(target, O_RDONLY | O_CREAT | O_NOFOLLOW | O_CLOEXEC, 0444);
	if (under >= 0)
		(void)close(under); /* it only needs to exist */
	if (fd < 0 || under < 0 || fd_write_full(fd, "uninitialized\n", 14) < 0 ||
		mount(file, target, NULL, MS_BIND, NULL) < 0) {
		console("machine id: %s; it goes to the disk", strerror(errno));
		if (fd >= 0)
			(void)close(fd); /* not used */
		return;
	}
	guest.machine_id_fd = fd;
}

void setup_mounts(void)
{
	static const struct {
		const char *source, *target, *type;
		unsigned long flags;
		const char *data;
		mode_t mode;
	} mounts[] = {
		{"devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
			"gid=5,mode=620,ptmxmode=666", 0755},
		{"tmpfs", "/dev/shm", "tmpfs", MS_NOSUID | MS_NODEV, "mode=1777", 01777},
		{"tmpfs", "/run", "tmpfs", MS_NOSUID | MS_NODEV, "mode=0755", 0755},
		{"cgroup2", "/sys/fs/cgroup", "cgroup2", MS_NOSUID | MS_NODEV | MS_NOEXEC,
			"nsdelegate", 0755},
	};

	for (size_t i = 0; i < ARRAY_SIZE(mounts); i++) {
		(void)mkdir(mounts[i].target, mounts[i].mode); /* mount reports errors */
		if (mount(mounts[i].source, mounts[i].target, mounts[i].type, mounts[i].flags,
			    mounts[i].data) < 0)
			console("mounting %s: %s", mounts[i].target, strerror(errno));
	}
	(void)!symlink(
		"/proc/self/fd", "/dev/fd"); /* devtmpfs lacks them; otherwise they exist already */
	(void)!symlink("/proc/self/fd/0", "/dev/stdin");
	(void)!symlink("/proc/self/fd/1", "/dev/stdout");
	(void)!symlink("/proc/self/fd/2", "/dev/stderr");
	(void)mkdir("/run/lock", 01777);
	(void)mkdir("/tmp", 01777);
	(void)!chmod("/tmp", 01777); /* an image may have another mode */
	mount_machine_id();
}

/* --- files and limits --- */

static void write_file(const char *path, int flags, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | flags, 0644);

	if (fd < 0)
		return; /* it exists, or this kernel or image lacks it; never fatal */
	(void)!write(fd, text, strlen(text));
	(void)close(fd); /* likewise */
}

static void set_hostname_from_image(void)
{
	char name[65];
	int fd = open("/etc/hostname", O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	ssize_t n = fd < 0 ? -1 : read(fd, name, sizeof(name) - 1);

	if (fd >= 0)
		(void)close(fd); /* read-only */
	name[n > 0 ? n : 0] = '\0';
	name[strcspn(name, "\r\n \t")] = '\0';
	if (!name[0])
		strcpy(name, "sandbox");
	(void)!sethostname(name, strlen(name)); /* an IDENTITY sets another one later */
}

void setup_files(void)
{
	static const struct {
		const char *path, *value;
	} knobs[] = {
		{"/proc/sys/fs/inotify/max_user_watches", "524288"},
		{"/proc/sys/fs/inotify/max_user_instances", "1024"},
		{"/proc/sys/vm/max_map_count", "262144"}, /* some databases require it */
		{"/proc/sys/vm/overcommit_memory",
			"1"}, /* lets large runtimes fork in small guests */
		{"/proc/sys/net/ipv4/ip_unprivileged_port_start", "0"},
		{"/proc/sys/net/ipv4/ping_group_range", "0 2147483647"},
		{"/proc/sys/kernel/printk", "1 4 1 7"}, /* the console is slow */
	};

	for (size_t i = 0; i < ARRAY_SIZE(knobs); i++)
		write_file(knobs[i].path, 0, knobs[i].value);
	set_hostname_from_image();
	write_file("/etc/hosts", O_CREAT | O_EXCL,
		"127.0.0.1 localhost\n::1 localhost ip6-localhost ip6-loopback\n");
	write_file("/etc/resolv.conf", O_CREAT | O_EXCL, "nameserver " RESOLVER "\n");
}

void setup_limits(void)
{
	struct rlimit files = {65536, 1048576}, now;

	/* Children inherit it. Without the right to raise the limit, use what there is. */
	if (setrlimit(RLIMIT_NOFILE, &files) < 0 && getrlimit(RLIMIT_NOFILE, &now) == 0) {
		now.rlim_cur = now.rlim_max < 65536 ? now.rlim_max : 65536;
		(void)setrlimit(RLIMIT_NOFILE, &now);
	}
}
