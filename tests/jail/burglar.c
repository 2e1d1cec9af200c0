/* In the place of npm, mvn, mmdebstrap and other programs that build templates: tries to get out of
 * its workshop, says in one line what it got, and fails.
 *
 * Where there is no jail it tries nothing: it would do harm. The file `plan` beside it has three
 * lines: the path of a canary, the number of a process of the host, and a directory of the host.
 * */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/bpf.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { LINGER_S = 5, NR_MEMFD_SECRET = 447, NR_MSEAL = 462 };

#define HUGE (INT64_C(1) << 40)

static char canary[PATH_MAX], directory[PATH_MAX];
static pid_t stranger;

/* --- files --- */

static bool write_canary(void)
{
	int fd = open(canary, O_WRONLY | O_APPEND);

	return fd >= 0 && write(fd, "dead\n", 5) == 5;
}

static bool make_beside(void)
{
	char path[PATH_MAX + 8];

	(void)snprintf(path, sizeof(path), "%s.new", canary); /* fits */
	return open(path, O_WRONLY | O_CREAT, 0600) >= 0;
}

static bool see_directory(void)
{
	return access(directory, F_OK) == 0;
}

static bool read_shadow(void)
{
	return open("/etc/shadow", O_RDONLY) >= 0;
}

static bool write_programs(void)
{
	static const char path[] = "/usr/of-a-burglar";

	(void)mount(NULL, "/usr", NULL, MS_REMOUNT | MS_BIND, NULL);
	if (open(path, O_WRONLY | O_CREAT, 0600) < 0)
		return false;
	(void)unlink(path);
	return true;
}

static bool write_root(void)
{
	static const char path[] = "/of-a-burglar";

	(void)mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL);
	if (mkdir(path, 0700) < 0)
		return false;
	(void)rmdir(path);
	return true;
}

static bool make_disk(void)
{
	static const char path[] = "/tmp/burglar-disk";
	bool made = mknod(path, S_IFBLK | 0600, makedev(7, 0)) == 0;

	(void)unlink(path);
	return made;
}

/* --- processes --- */

static bool see_stranger(void)
{
	char path[64];

	(void)umount2("/proc", MNT_DETACH); /* what is below? */
	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)stranger);
	return access(path, F_OK) == 0;
}

static bool signal_stranger(void)
{
	return kill(stranger, 0) == 0;
}

static bool is_root_of_host(void)
{
	unsigned inside = 1, outside = 1;
	FILE *f = fopen("/proc/self/uid_map", "r");
	bool root =
		!f || fscanf(f, "%u %u", &inside, &outside) != 2 || (outside == 0 && getuid() == 0);

	if (f)
		(void)fclose(f);
	return root;
}

static bool keep_variables(void)
{
	return getenv("SECRET_OF_THE_USER") != NULL;
}

/* Ends soon by itself where nothing ends it. */
static bool linger(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		(void)setsid();
		(void)prctl(PR_SET_NAME, "burglar-stays");
		for (int fd = 0; fd < 64; fd++)
			(void)close(fd);
		(void)sleep(LINGER_S);
		_exit(0);
	}
	return false;
}

/* --- the kernel: what the filter refuses has its error --- */

static bool refused(long r, int err)
{
	return r < 0 && errno == err;
}

static bool use_keys(void)
{
	return !refused(syscall(SYS_keyctl, KEYCTL_GET_KEYRING_ID, -3, 0), EPERM) ||
	       !refused(syscall(SYS_add_key, "user", "a", "b", 1, -3), EPERM);
}

static bool use_programs_of_kernel(void)
{
	union bpf_attr attr = {.map_type = BPF_MAP_TYPE_ARRAY};
	struct perf_event_attr event = {.size = sizeof(event)};

	return !refused(syscall(SYS_bpf, BPF_MAP_CREATE, &attr, sizeof(attr)), EPERM) ||
	       !refused(syscall(SYS_perf_event_open, &event, 0, -1, -1, 0), EPERM) ||
	       !refused(syscall(SYS_userfaultfd, 1), EPERM) ||
	       !refused(syscall(SYS_io_uring_setup, 1, NULL), ENOSYS) ||
	       !refused(syscall(SYS_finit_module, -1, "", 0), EPERM) ||
	       !refused(syscall(SYS_kexec_load, 0, 0, NULL, 0), EPERM);
}

static bool look_into_processes(void)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(ptrace(PTRACE_TRACEME, 0, NULL, NULL) < 0 ? 0 : 1);
	int status = -1;
	(void)waitpid(pid, &status, 0);
	return status != 0 ||
	       !refused(syscall(SYS_process_vm_readv, 1, NULL, 0, NULL, 0, 0), EPERM) ||
	       !refused(syscall(SYS_pidfd_getfd, -1, 0, 0), EPERM);
}

static bool make_namespaces(void)
{
	return unshare(CLONE_NEWUSER) == 0 || unshare(CLONE_NEWNET) == 0 ||
	       !refused(syscall(SYS_clone3, NULL, 0), ENOSYS) ||
	       !refused(syscall(SYS_setns, -1, 0), EPERM);
}

static bool mount_otherwise(void)
{
	return !refused(syscall(SYS_fsopen, "tmpfs", 0), ENOSYS) ||
	       !refused(syscall(SYS_open_tree, AT_FDCWD, "/", 0), ENOSYS) ||
	       !refused(syscall(SYS_open_by_handle_at, AT_FDCWD, NULL, 0), EPERM);
}

static bool mount_plainly(void)
{
	return mount("none", "/tmp", "tmpfs", 0, NULL) == 0;
}

static bool open_odd_sockets(void)
{
	static const int families[] = {AF_VSOCK, AF_PACKET, AF_ALG, AF_KEY, AF_BLUETOOTH};
	int pair[2];

	for (size_t i = 0; i < sizeof(families) / sizeof(families[0]); i++)
		if (!refused(socket(families[i], SOCK_RAW, 0), EAFNOSUPPORT) ||
			!refused(socketpair(families[i], SOCK_RAW, 0, pair), EAFNOSUPPORT))
			return true;
	return false;
}

/* Calls that nobody has judged yet do not exist. */
static bool use_new_calls(void)
{
	return !refused(syscall(NR_MSEAL, 0, 0, 0), ENOSYS) ||
	       !refused(syscall(NR_MEMFD_SECRET, 0), ENOSYS) ||
	       !refused(syscall(SYS_sysfs, 3), ENOSYS) ||
	       !refused(syscall(SYS_set_mempolicy, 0, NULL, 0), EPERM);
}

static bool make_huge_file(void)
{
	int fd = open("/tmp/burglar-huge", O_WRONLY | O_CREAT, 0600);
	bool made;

	(void)signal(SIGXFSZ, SIG_IGN);
	made = ftruncate(fd, HUGE) == 0;
	(void)unlink("/tmp/burglar-huge");
	return made;
}

/* The host's, which are in its network. */
static bool reach_abstract_socket(void)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int n = snprintf(a.sun_path + 1, sizeof(a.sun_path) - 1, "burglar-%d", (int)stranger),
	    fd = socket(AF_UNIX, SOCK_STREAM, 0);

	return connect(fd, (struct sockaddr *)&a,
		       (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) == 0;
}

static bool reach_network(void)
{
	return socket(AF_INET, SOCK_STREAM, 0) >= 0;
}

static const struct {
	const char *name;
	bool (*got)(void);
} attempts[] = {
	{"write", write_canary},
	{"make", make_beside},
	{"see", see_directory},
	{"shadow", read_shadow},
	{"programs", write_programs},
	{"root", write_root},
	{"disk", make_disk},
	{"variables", keep_variables},
	{"keys", use_keys},
	{"kernel", use_programs_of_kernel},
	{"look", look_into_processes},
	{"namespaces", make_namespaces},
	{"mounts", mount_otherwise},
	{"sockets", open_odd_sockets},
	{"new", use_new_calls},
	{"huge", make_huge_file},
	{"abstract", reach_abstract_socket},
	{"network", reach_network},
	{"linger", linger},
	{"mount", mount_plainly},
	{"signal", signal_stranger},
	{"stranger", see_stranger},
};

static bool read_plan(void)
{
	char path[PATH_MAX + 8];
	ssize_t n = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;
	FILE *f;
	bool good;

	path[n > 0 ? n : 0] = '\0';
	slash = strrchr(path, '/');
	if (!slash)
		return false;
	(void)strcpy(slash, "/plan"); /* NOLINT: there is room */
	f = fopen(path, "r");
	good = f && fscanf(f, "%4095s %d %4095s", canary, &stranger, directory) == 3;
	if (f)
		(void)fclose(f);
	return good;
}

/* Some attempts would do harm: not as root of the host, and not where its files are. */
static bool is_jailed(void)
{
	return !is_root_of_host() && access(canary, F_OK) < 0;
}

int main(void)
{
	if (!read_plan() || !is_jailed()) {
		(void)fprintf(stderr, "Could not find a plan and a jail\n");
		return 1;
	}
	(void)fprintf(stderr, "Could not find more than [");
	for (size_t i = 0; i < sizeof(attempts) / sizeof(attempts[0]); i++)
		if (attempts[i].got())
			(void)fprintf(stderr, " %s", attempts[i].name);
	(void)fprintf(stderr, " ]\n");
	return 1;
}
