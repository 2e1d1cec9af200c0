#include "jail/space.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "jail/ids.h"

const char *space_step_name(enum space_step step)
{
	static const char *const names[] = {
		[SPACE_USER] = "a user namespace",
		[SPACE_IDS_MAP] = "the ids of a user namespace",
		[SPACE_BECOME] = "an empty list of groups",
		[SPACE_MOUNT] = "a mount namespace",
		[SPACE_NETWORK] = "a network namespace",
		[SPACE_IPC] = "an IPC namespace",
		[SPACE_UTS] = "a UTS namespace",
		[SPACE_ROOT] = "an empty root",
	};

	return names[step];
}

/* Only a process that is still outside may map ids that are not the caller's own. So a child stays
 * behind, and maps the ids when it reads a byte. Its exit status is an errno. */
struct mapper {
	pid_t pid;
	int go_fd;
};

static void __attribute__((noreturn)) map_ids(int go_fd)
{
	pid_t parent = getppid();
	char go, map[64];
	int r = fd_read_full(go_fd, &go, 1);

	(void)snprintf(map, sizeof(map), "0 %u %u\n%u 0 1\n", SPACE_FIRST_ID, SPACE_IDS,
		SPACE_IDS); /* fits */
	if (r == 0)
		r = ids_write(parent, "uid_map", map);
	if (r == 0)
		r = ids_write(parent, "gid_map", map);
	_exit(-r);
}

static int mapper_start(struct mapper *m)
{
	int ends[2];

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	m->pid = fork();
	if (m->pid == 0) {
		(void)close(ends[1]); /* its end ends this process, too */
		map_ids(ends[0]);
	}
	(void)close(ends[0]); /* the child's */
	m->go_fd = ends[1];
	return m->pid < 0 ? -errno : 0;
}

static int mapper_finish(struct mapper *m)
{
	int status = 0, r = fd_write_full(m->go_fd, "", 1);

	(void)close(m->go_fd); /* the byte is written */
	while (waitpid(m->pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return r < 0 ? r : WIFEXITED(status) ? -WEXITSTATUS(status) : -ECHILD;
}

/* Returns the kind. */
static int make_user_namespace(enum space_step *step)
{
	struct mapper m = {0};
	uid_t uid = geteuid();
	gid_t gid = getegid();
	bool root = uid == 0 && mapper_start(&m) == 0;
	int r;

	*step = SPACE_USER;
	if (unshare(CLONE_NEWUSER) < 0)
		return -errno;
	*step = SPACE_IDS_MAP;
	if (root && mapper_finish(&m) == 0) {
		*step = SPACE_BECOME;
		return syscall(SYS_setgroups, 0, NULL) < 0 ? -errno : JAIL_FULL;
	}
	r = ids_map_one(0, uid, gid);
	return r < 0 ? r : JAIL_USER;
}

static int make_other_namespaces(enum jail_place place, enum space_step *step)
{
	static const struct {
		enum space_step step;
		int flag;
	} kinds[] = {
		{SPACE_MOUNT, CLONE_NEWNS},
		{SPACE_NETWORK, CLONE_NEWNET},
		{SPACE_IPC, CLONE_NEWIPC},
		{SPACE_UTS, CLONE_NEWUTS},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++) {
		*step = kinds[i].step;
		if (*step == SPACE_NETWORK && place == JAIL_PLACE_NETWORK)
			continue;
		if (unshare(kinds[i].flag) < 0)
			return -errno;
	}
	return 0;
}

/* Replaces the root by a tmpfs that has room for one inode, its root directory, and no block. */
static int empty_root(void)
{
	static const char place[] = "/proc"; /* any directory will do: its files cannot be seen
					      * afterwards */
	static const unsigned long flags = MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY;

	if (mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mount("none", place, "tmpfs", flags, "nr_inodes=1,size=4k,mode=0555") < 0 ||
		chdir(place) < 0 || syscall(SYS_pivot_root, ".", ".") < 0 ||
		umount2(".", MNT_DETACH) < 0 || chdir("/") < 0)
		return -errno;
	return 0;
}

int space_enter(enum jail_place place, enum space_step *ret_step)
{
	int r, kind = make_user_namespace(ret_step);

	if (kind < 0)
		return kind;
	/* Another user namespace would give access to more of the kernel. If /proc/sys is
	 * read-only, only the seccomp filter prevents that. */
	(void)file_write_text(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0");
	r = make_other_namespaces(place, ret_step);
	if (r < 0)
		return r;
	*ret_step = SPACE_ROOT;
	r = empty_root();
	return r < 0 ? r : kind;
}
