/* In mayfly-vmm's place, in its jail: one attempt to get out. `escape N [landlock|filter]` makes
 * attempt N and says on standard error "FLAGS NAME ERROR"; its exit status says whether it was
 * refused. With Landlock, or with that and the filter of mayfly-vmm's first thread while a guest
 * runs.
 *
 * The list is a table that grows: a line each, an expression that is negative when refused. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/keyctl.h>
#include <linux/perf_event.h>
#include <linux/sockios.h>
#include <linux/vm_sockets.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/reboot.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/swap.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timex.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

#include "escape.h"
#include "jail/landlock.h"
#include "vmm/thread_filter.h"

#define HUGE_BYTES (INT64_C(100) << 30)

enum { NEIGHBOURS_SHM = 0666, BOMB = 64, FILES = 4096 };

static struct escape_canaries c;
static char buffer[4096];

/* --- files --- */

static long open_at_each_descriptor(const char *path)
{
	for (int fd = 0; fd < ESCAPE_FDS; fd++)
		if (openat(fd, path, O_RDONLY) >= 0)
			return fd;
	return -1;
}

static long list(const char *path)
{
	DIR *d = opendir(path);

	for (struct dirent *x; d && (x = readdir(d));)
		if (strcmp(x->d_name, ".") != 0 && strcmp(x->d_name, "..") != 0)
			return 1;
	return -1;
}

/* The classic way out of a chroot. */
static long climb_out(void)
{
	if (mkdir("x", 0700) < 0 || chroot("x") < 0)
		(void)errno; /* climb all the same */
	for (unsigned i = 0; i < 32; i++)
		(void)!chdir("..");
	return chroot(".") == 0 ? 0 : open("etc", O_RDONLY);
}

/* The root of a file system mostly is inode 2, and always has a handle. */
static long open_by_handle(int fd)
{
	struct {
		struct file_handle h;
		char bytes[8];
	} root = {.h = {.handle_bytes = 8, .handle_type = 1}, .bytes = {2}};

	return open_by_handle_at(fd, &root.h, O_RDONLY);
}

static long mount_new(const char *type)
{
	int context = (int)syscall(SYS_fsopen, type, 0);

	if (context < 0 || syscall(SYS_fsconfig, context, 6 /* create */, NULL, NULL, 0) < 0)
		return -1;
	return syscall(SYS_fsmount, context, 0, 0);
}

static long grow(int64_t bytes)
{
	struct stat st;

	(void)!ftruncate(ESCAPE_DELTA_FD, bytes);
	(void)!pwrite(ESCAPE_DELTA_FD, "x", 1, bytes);
	(void)fallocate(ESCAPE_DELTA_FD, 0, bytes, 4096);
	return fstat(ESCAPE_DELTA_FD, &st) == 0 && st.st_size >= bytes ? 0 : -1;
}

static long set_flags(int fd, int flags)
{
	return ioctl(fd, FS_IOC_SETFLAGS, &flags);
}

static long run_memfd(void)
{
	static const char script[] = "#!/bin/sh\nexit 0\n";
	char *argv[] = {(char *)"x", NULL};
	int fd = memfd_create("x", 0);

	if (fd < 0 || write(fd, script, sizeof(script) - 1) < 0)
		return -1;
	return syscall(SYS_execveat, fd, "", argv, argv + 1, AT_EMPTY_PATH);
}

/* --- processes --- */

static long read_memory(int pid, bool write)
{
	char copy[ESCAPE_SECRET_BYTES] = "written by a guest";
	struct iovec here = {copy, sizeof(copy)},
		     there = {(void *)(uintptr_t)c.memory, sizeof(copy)};

	return write ? process_vm_writev(pid, &here, 1, &there, 1, 0)
		     : process_vm_readv(pid, &here, 1, &there, 1, 0);
}

static long take_descriptor(int pid)
{
	int fd = (int)syscall(SYS_pidfd_open, pid, 0);

	return fd < 0 ? -1 : syscall(SYS_pidfd_getfd, fd, 0, 0);
}

/* All that it can see: itself at most. */
static long kill_all(void)
{
	return kill(-1, SIGKILL);
}

static long lower_limit(int pid)
{
	struct rlimit l = {0, 0};

	return prlimit(pid, RLIMIT_NOFILE, &l, NULL);
}

static long move_to_cpu(int pid)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	CPU_SET(0, &set);
	return sched_setaffinity(pid, sizeof(set), &set);
}

static long watch_process(int pid)
{
	struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE,
		.size = sizeof(a),
		.config = PERF_COUNT_SW_TASK_CLOCK,
		.exclude_kernel = 1};

	return syscall(SYS_perf_event_open, &a, pid, -1, -1, 0);
}

static long bomb(void)
{
	for (unsigned i = 0; i < BOMB; i++) {
		pid_t pid = fork();

		if (pid < 0)
			return -1;
		if (pid == 0) {
			(void)sleep(5);
			_exit(0);
		}
	}
	return 0;
}

static long open_many(void)
{
	for (unsigned i = 0; i < FILES; i++)
		if (dup(ESCAPE_BASE_FD) < 0)
			return -1;
	return 0;
}

/* --- sockets --- */

static long connect_unix(int fd, const char *name, bool abstract)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	size_t n = strlen(name);

	memcpy(a.sun_path + abstract, name, n);
	return connect(fd, (struct sockaddr *)&a,
		(socklen_t)(offsetof(struct sockaddr_un, sun_path) + n + 1));
}

static long connect_new(const char *name, bool abstract)
{
	return connect_unix(socket(AF_UNIX, SOCK_STREAM, 0), name, abstract);
}

static long connect_ip(int type)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(c.port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};

	return connect(socket(AF_INET, type, 0), (struct sockaddr *)&a, sizeof(a));
}

static long bring_up_loopback(void)
{
	struct ifreq r = {.ifr_name = "lo", .ifr_flags = IFF_UP};

	return ioctl(socket(AF_INET, SOCK_DGRAM, 0), SIOCSIFFLAGS, &r);
}

/* --- the kernel --- */

static long load_program(int type)
{
	struct bpf_insn code[] = {
		{.code = BPF_ALU64 | BPF_MOV | BPF_K}, {.code = BPF_JMP | BPF_EXIT}};
	union bpf_attr a = {.prog_type = (unsigned)type,
		.insn_cnt = 2,
		.insns = (uintptr_t)code,
		.license = (uintptr_t) "GPL"};

	return syscall(SYS_bpf, BPF_PROG_LOAD, &a, sizeof(a));
}

static long gain_capabilities(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct all[2] = {{~0U, ~0U, ~0U}, {~0U, ~0U, ~0U}};

	return syscall(SYS_capset, &head, all);
}

static long join_root_group(void)
{
	gid_t root = 0;

	return syscall(SYS_setgroups, 1, &root);
}

static long set_time(void)
{
	struct timespec t = {.tv_sec = 1};

	return clock_settime(CLOCK_REALTIME, &t);
}

static long adjust_time(void)
{
	struct timex t = {.modes = ADJ_TICK, .tick = 10000};

	return adjtimex(&t);
}

/* For the kernel's callers of /sbin/request-key. */
static long request_key(void)
{
	return syscall(SYS_request_key, "user", "mayfly-absent", "x", KEY_SPEC_PROCESS_KEYRING);
}

#define KEYCTL(...) syscall(SYS_keyctl, __VA_ARGS__)

/* --- the table: name, what it needs to be refused, attempt --- */

#define ATTEMPTS(X)                                                                                \
	X(open_secret, ANY, open(c.secret, O_RDONLY))                                              \
	X(write_secret, ANY, open(c.secret, O_WRONLY | O_TRUNC))                                   \
	X(create_file, ANY, open("/planted", O_WRONLY | O_CREAT, 0600))                            \
	X(create_here, ANY, open("planted", O_WRONLY | O_CREAT, 0600))                             \
	X(temporary_file, ANY, open("/", O_TMPFILE | O_RDWR, 0600))                                \
	X(climb_by_dots, ANY, open("../../../../etc/passwd", O_RDONLY))                            \
	X(climb_out, ANY, climb_out())                                                             \
	X(list_root, ANY, list("/"))                                                               \
	X(list_directory, ANY, list(c.directory))                                                  \
	X(list_proc, ANY, list("/proc"))                                                           \
	X(list_sys, ANY, list("/sys"))                                                             \
	X(list_dev, ANY, list("/dev"))                                                             \
	X(dots_of_descriptors, ANY, open_at_each_descriptor(".."))                                 \
	X(dot_of_descriptors, ANY, open_at_each_descriptor("."))                                   \
	X(handle_of_root, ANY, open_by_handle(ESCAPE_DELTA_FD))                                    \
	X(stat_secret, ANY, stat(c.secret, &(struct stat){0}))                                     \
	X(statfs_directory, ANY, statvfs(c.directory, &(struct statvfs){0}))                       \
	X(access_secret, ANY, access(c.secret, F_OK))                                              \
	X(readlink_proc, ANY, readlink("/proc/self/exe", buffer, sizeof(buffer)))                  \
	X(own_memory, ANY, open("/proc/self/mem", O_RDWR))                                         \
	X(root_of_init, ANY, open("/proc/1/root/etc", O_RDONLY))                                   \
	X(dev_kvm, ANY, open("/dev/kvm", O_RDWR))                                                  \
	X(dev_mem, ANY, open("/dev/mem", O_RDWR))                                                  \
	X(dev_tty, ANY, open("/dev/tty", O_RDWR))                                                  \
	X(trigger_sysrq, ANY, open("/proc/sysrq-trigger", O_WRONLY))                               \
	X(core_pattern, ANY, open("/proc/sys/kernel/core_pattern", O_WRONLY))                      \
	X(unlink_secret, ANY, unlink(c.secret))                                                    \
	X(rename_secret, ANY, rename(c.secret, "/renamed"))                                        \
	X(chmod_secret, ANY, chmod(c.secret, 0777))                                                \
	X(chown_secret, ANY, chown(c.secret, 1, 1))                                                \
	X(truncate_secret, ANY, truncate(c.secret, 0))                                             \
	X(xattr_of_secret, ANY, setxattr(c.secret, "user.x", "x", 1, 0))                           \
	X(watch_secret, ANY, inotify_add_watch(inotify_init(), c.secret, IN_OPEN))                 \
	X(make_directory, ANY, mkdir("/planted", 0700))                                            \
	X(make_device, ANY, mknod("/planted", S_IFBLK | 0600, 0x800))                              \
	X(make_fifo, ANY, mknod("/planted", S_IFIFO | 0600, 0))                                    \
	X(make_symlink, ANY, symlink("/etc/passwd", "/planted"))                                   \
	X(link_descriptor, ANY, linkat(ESCAPE_DELTA_FD, "", AT_FDCWD, "/planted", AT_EMPTY_PATH))  \
	X(bind_socket_file, ANY,                                                                   \
		bind(ESCAPE_VSOCK_FD,                                                              \
			(struct sockaddr *)&(struct sockaddr_un){AF_UNIX, "/planted"},             \
			sizeof(struct sockaddr_un)))                                               \
	X(run_shell, ANY, execl("/bin/sh", "sh", NULL))                                            \
	X(run_script, ANY, run_memfd())                                                            \
	X(huge_file, ANY, grow(HUGE_BYTES))                                                        \
	X(write_image, ANY, pwrite(ESCAPE_BASE_FD, "x", 1, 0))                                     \
	X(truncate_image, ANY, ftruncate(ESCAPE_BASE_FD, 0))                                       \
	X(map_image, ANY,                                                                          \
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, ESCAPE_BASE_FD, 0) ==         \
				MAP_FAILED                                                         \
			? -1                                                                       \
			: 0)                                                                       \
	X(protect_delta, ANY, set_flags(ESCAPE_DELTA_FD, FS_IMMUTABLE_FL))                         \
	X(freeze_disk, ANY, ioctl(ESCAPE_DELTA_FD, FIFREEZE, 0))                                   \
	X(setuid_delta, NEEDS_FULL, fchmod(ESCAPE_DELTA_FD, 06777))                                \
	X(chown_delta, ANY, fchown(ESCAPE_DELTA_FD, 0, 0) < 0 ? -1 : geteuid() == 0 ? -1 : 0)      \
	X(mount_tmpfs, ANY, mount("x", "/", "tmpfs", 0, NULL))                                     \
	X(mount_proc, ANY, mount("x", "/", "proc", 0, NULL))                                       \
	X(mount_writable, ANY, mount(NULL, "/", NULL, MS_REMOUNT | MS_BIND, NULL))                 \
	X(unmount_root, ANY, umount2("/", MNT_DETACH))                                             \
	X(new_tmpfs, ANY, mount_new("tmpfs"))                                                      \
	X(new_proc, ANY, mount_new("proc"))                                                        \
	X(clone_tree, ANY, syscall(SYS_open_tree, AT_FDCWD, "/", 1 /* clone */))                   \
	X(pivot_root, ANY, syscall(SYS_pivot_root, ".", "."))                                      \
	X(change_root, ANY, chroot("/"))                                                           \
	X(kill_process, ANY, kill(c.process, SIGKILL))                                             \
	X(kill_neighbour, ANY, kill(c.neighbour, SIGKILL))                                         \
	X(kill_all, ANY, kill_all())                                                               \
	X(kill_group, ANY, kill(-c.process, SIGKILL))                                              \
	X(kill_thread, ANY, syscall(SYS_tgkill, c.process, c.process, SIGKILL))                    \
	X(queue_signal, ANY, sigqueue(c.process, SIGUSR1, (union sigval){0}))                      \
	X(open_process, ANY, syscall(SYS_pidfd_open, c.process, 0))                                \
	X(open_neighbour, ANY, syscall(SYS_pidfd_open, c.neighbour, 0))                            \
	X(take_descriptor, ANY, take_descriptor(c.process))                                        \
	X(neighbours_descriptor, ANY, take_descriptor(c.neighbour))                                \
	X(trace_process, ANY, ptrace(PTRACE_ATTACH, c.process, 0, 0))                              \
	X(seize_neighbour, ANY, ptrace(PTRACE_SEIZE, c.neighbour, 0, 0))                           \
	X(read_memory, ANY, read_memory(c.process, false))                                         \
	X(write_memory, ANY, read_memory(c.process, true))                                         \
	X(read_neighbour, ANY, read_memory(c.neighbour, false))                                    \
	X(write_neighbour, ANY, read_memory(c.neighbour, true))                                    \
	X(compare_process, ANY, syscall(SYS_kcmp, c.process, getpid(), 0, 0, 0))                   \
	X(lower_limit, ANY, lower_limit(c.process))                                                \
	X(slow_process, ANY, setpriority(PRIO_PROCESS, (id_t)c.process, 19))                       \
	X(hurry, ANY, setpriority(PRIO_PROCESS, 0, -20))                                           \
	X(realtime, ANY, sched_setscheduler(0, SCHED_FIFO, &(struct sched_param){1}))              \
	X(move_process, ANY, move_to_cpu(c.process))                                               \
	X(move_pages, ANY, syscall(SYS_move_pages, c.process, 0, NULL, NULL, NULL, 0))             \
	X(watch_process, ANY, watch_process(c.process))                                            \
	X(watch_host, ANY, watch_process(-1))                                                      \
	X(wait_for_process, ANY, waitpid(c.process, NULL, WNOHANG))                                \
	X(own_signals, ANY, fcntl(ESCAPE_OWNER_FD, F_SETOWN, c.process))                           \
	X(fork_bomb, NEEDS_FULL, bomb())                                                           \
	X(many_files, ANY, open_many())                                                            \
	X(lock_memory, ANY, mlockall(MCL_CURRENT | MCL_FUTURE))                                    \
	X(raise_limit, ANY,                                                                        \
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){RLIM_INFINITY, RLIM_INFINITY}))           \
	X(unix_socket, ANY, connect_new(c.socket, false))                                          \
	X(abstract_socket, ANY, connect_new(c.abstract, true))                                     \
	X(abstract_of_owner, ANY, connect_unix(ESCAPE_OWNER_FD, c.abstract, true))                 \
	X(abstract_of_listener, ANY, connect_unix(ESCAPE_VSOCK_FD, c.abstract, true))              \
	X(tcp, ANY, connect_ip(SOCK_STREAM))                                                       \
	X(udp, ANY, connect_ip(SOCK_DGRAM))                                                        \
	X(raw_socket, ANY, socket(AF_INET, SOCK_RAW, 1))                                           \
	X(packet_socket, ANY, socket(AF_PACKET, SOCK_RAW, 0))                                      \
	X(loopback_up, ANY, bring_up_loopback())                                                   \
	X(network_of_socket, ANY, ioctl(ESCAPE_OWNER_FD, SIOCGSKNS))                               \
	X(any_inet, NEEDS_FILTER, socket(AF_INET, SOCK_STREAM, 0))                                 \
	X(any_unix, NEEDS_FILTER, socket(AF_UNIX, SOCK_STREAM, 0))                                 \
	X(any_netlink, NEEDS_FILTER, socket(AF_NETLINK, SOCK_RAW, 0))                              \
	X(any_vsock, NEEDS_FILTER, socket(AF_VSOCK, SOCK_STREAM, 0))                               \
	X(any_crypto, NEEDS_FILTER, socket(38 /* AF_ALG */, SOCK_SEQPACKET, 0))                    \
	X(user_namespace, ANY, unshare(CLONE_NEWUSER))                                             \
	X(mount_namespace, ANY, unshare(CLONE_NEWNS))                                              \
	X(pid_namespace, ANY, unshare(CLONE_NEWPID))                                               \
	X(network_namespace, ANY, unshare(CLONE_NEWNET))                                           \
	X(ipc_namespace, ANY, unshare(CLONE_NEWIPC))                                               \
	X(uts_namespace, ANY, unshare(CLONE_NEWUTS))                                               \
	X(cgroup_namespace, ANY, unshare(CLONE_NEWCGROUP))                                         \
	X(join_namespace, ANY, setns(ESCAPE_OWNER_FD, 0))                                          \
	X(shared_memory, ANY, shmget(c.shm_key, 4096, NEIGHBOURS_SHM))                             \
	X(messages, ANY, msgget(c.msg_key, NEIGHBOURS_SHM))                                        \
	X(find_key, ANY,                                                                           \
		KEYCTL(KEYCTL_SEARCH, KEY_SPEC_SESSION_KEYRING, "user", "mayfly-canary", 0))       \
	X(read_key, ANY, KEYCTL(KEYCTL_READ, c.key, buffer, sizeof(buffer), 0))                    \
	X(revoke_key, ANY, KEYCTL(KEYCTL_REVOKE, c.key, 0, 0, 0))                                  \
	X(request_key, ANY, request_key())                                                         \
	X(add_key, NEEDS_FILTER,                                                                   \
		syscall(SYS_add_key, "user", "x", "x", 1, KEY_SPEC_PROCESS_KEYRING))               \
	X(become_root, ANY, setresuid(0, 0, 0) < 0 ? -1 : geteuid() == getuid() ? -1 : 0)          \
	X(other_user, ANY, setresuid(12345, 12345, 12345))                                         \
	X(groups, ANY, join_root_group())                                                          \
	X(capabilities, ANY, gain_capabilities())                                                  \
	X(ambient, ANY, prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_SYS_ADMIN, 0, 0))          \
	X(socket_filter, NEEDS_FILTER, load_program(BPF_PROG_TYPE_SOCKET_FILTER))                  \
	X(kernel_program, ANY, load_program(BPF_PROG_TYPE_KPROBE))                                 \
	X(io_uring, NEEDS_FILTER, syscall(SYS_io_uring_setup, 1, buffer))                          \
	X(userfaultfd, NEEDS_FILTER, syscall(SYS_userfaultfd, 1))                                  \
	X(kernels_faults, ANY, syscall(SYS_userfaultfd, 0))                                        \
	X(descriptors_table, NEEDS_FILTER, syscall(SYS_modify_ldt, 0, buffer, 16))                 \
	X(executable_memory, NEEDS_FILTER,                                                         \
		mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,  \
			-1, 0) == MAP_FAILED                                                       \
			? -1                                                                       \
			: 0)                                                                       \
	X(load_module, ANY, syscall(SYS_init_module, buffer, 1, ""))                               \
	X(load_module_file, ANY, syscall(SYS_finit_module, ESCAPE_BASE_FD, "", 0))                 \
	X(remove_module, ANY, syscall(SYS_delete_module, "kvm", O_NONBLOCK))                       \
	X(new_kernel, ANY, syscall(SYS_kexec_load, 0, 0, NULL, 0))                                 \
	X(restart, ANY, syscall(SYS_reboot, 0xfee1dead, 672274793, 0 /* no Ctrl-Alt-Del */, NULL)) \
	X(swap, ANY, swapoff("/swap"))                                                             \
	X(kernel_log, ANY, syscall(SYS_syslog, 5 /* clear */, NULL, 0))                            \
	X(host_name, ANY, sethostname("taken", 5))                                                 \
	X(set_time, ANY, set_time())                                                               \
	X(adjust_time, ANY, adjust_time())                                                         \
	X(ports, ANY, syscall(SYS_iopl, 3))                                                        \
	X(accounting, ANY, acct(NULL))                                                             \
	X(hang_up, ANY, vhangup())

#define FUNCTION(name, flags, call)                                                                \
	static long try_##name(void)                                                               \
	{                                                                                          \
		return (long)(call);                                                               \
	}
ATTEMPTS(FUNCTION)

#define ENTRY(name, flags, call) {#name, ESCAPE_##flags, try_##name},
static const struct {
	const char *name;
	unsigned flags;
	long (*attempt)(void);
} attempts[] = {ATTEMPTS(ENTRY)};

static int confine(const char *with)
{
	int r = landlock_forbid_all(LANDLOCK_NO_PORT);

	if (r < 0 || strcmp(with, "filter") != 0)
		return r;
	filter_set_mode(FILTER_KILL);
	return filter_install(thread_filter(THREAD_MAIN), NULL);
}

int main(int argc, char **argv)
{
	unsigned long i = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	long r;

	if (i >= sizeof(attempts) / sizeof(attempts[0]))
		return ESCAPE_NO_SUCH;
	if (pread(ESCAPE_CANARIES_FD, &c, sizeof(c), 0) != sizeof(c))
		return 1;
	(void)close(ESCAPE_CANARIES_FD); /* read */
	fprintf(stderr, "%u %s ", attempts[i].flags, attempts[i].name);
	if (argc > 2 && confine(argv[2]) < 0)
		return 1;
	errno = 0;
	r = attempts[i].attempt();
	fprintf(stderr, "%s\n", r >= 0 ? "reached" : strerrorname_np(errno));
	return r >= 0 ? ESCAPE_REACHED : ESCAPE_REFUSED;
}
