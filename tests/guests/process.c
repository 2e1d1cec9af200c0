/* usage: test-process GUESTS PROGRAMS Bare guests in processes of their own, as the daemon starts
 * them: live and final snapshots, forks, pools, failures, over the control socket. PROGRAMS holds a
 * mayfly-vmm with fault points; the one without is in its parent's parent. One line for each test:
 * "ok - name" or "not ok - name: why"; it goes no further after the latter.
 */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/file.h"
#include "io/jailed.h"
#include "sandbox/launch.h"
#include "sandbox/vmm_request.h"
#include "sandbox/vmm_snapshot.h"
#include "vmm/control.h"
#include "vmm/kvm.h"
#include "vmm/snapshot_files.h"
#include "vmm/vsock.h"

/* --- tests --- */

static void live_and_final(void)
{
	struct machine m, resumed;

	make_parent(&m);
	snapshot(&m, "last", true, false);
	CHECK(is_paused(&m));
	CHECK(exists("last/state") && exists("last/disk0") && !exists("parent/delta3"));
	stop(&m);
	restore(&resumed, "resumed", false);
	await_start(&resumed);
	expect_running(&resumed);
	stop(&resumed);
	CHECK(file_remove_tree(work_fd, "last") == 0);
	remove_snapshots();
}

static void forks(void)
{
	static char names[CHILDREN][16];
	struct machine parent, child[CHILDREN];

	make_parent(&parent);
	for (unsigned i = 0; i < CHILDREN; i++) {
		(void)snprintf(names[i], sizeof(names[i]), "child%u", i); /* fits */
		restore(&child[i], names[i], false);
	}
	for (unsigned i = 0; i < CHILDREN; i++) {
		await_start(&child[i]);
		expect_running(&child[i]);
	}
	expect_running(&parent);
	for (unsigned i = 0; i < CHILDREN; i++)
		stop(&child[i]);
	stop(&parent);
	remove_snapshots();
}

/* Its process ends; the directory is for whoever finds it. */
static void await_end(const char *name)
{
	int fd = open_dir(name);

	for (unsigned i = 0; i < WAIT_MS && vmm_dir_is_live(fd) == 1; i++)
		(void)poll(NULL, 0, 1); /* sleeps */
	CHECK(vmm_dir_is_live(fd) == 0);
	(void)close(fd); /* only a directory */
	CHECK(exists(name) && file_remove_tree(work_fd, name) == 0);
}

/* Restored in advance, and resumed by whoever claims it. */
static void pool(void)
{
	struct machine parent, m;
	struct error e = {0};

	make_parent(&parent);
	stop(&parent);
	restore(&m, "waiting", true);
	await_start(&m);
	CHECK(is_paused(&m));
	if (vmm_resume(m.vmm, &e) < 0)
		fail("vmm_resume: %s", e.message);
	expect_running(&m);
	vmm_release(m.vmm); /* its owner is gone */
	await_end("waiting");
	remove_snapshots();
}

/* Nobody claimed one of them, and then their owner dies. */
static void pool_without_owner(void)
{
	struct machine parent, waiting, kept;
	struct error e = {0};
	int fd;

	make_parent(&parent);
	stop(&parent);
	restore(&waiting, "waiting", true);
	restore(&kept, "kept", true);
	await_start(&waiting);
	await_start(&kept);
	if (vmm_keep(kept.vmm, &e) < 0 || vmm_resume(kept.vmm, &e) < 0)
		fail("vmm_keep: %s", e.message);
	vmm_release(waiting.vmm);
	vmm_release(kept.vmm);
	await_end("waiting");
	expect_running(&kept);
	fd = open_dir("kept");
	CHECK(vmm_request(fd, "quit", NULL, 0, &e) == 0);
	(void)close(fd); /* only a directory */
	CHECK(file_remove_tree(work_fd, "kept") == 0);
	remove_snapshots();
}

/* Fails at a point: the machine goes on, and with it whoever counts on its deltas. */
static void fail_at(const char *point, bool want_switched, bool final)
{
	struct vmm_snapshot_result result;
	struct error e = {0};
	struct machine m;
	char spec[64], next[32];
	bool switched;

	(void)snprintf(spec, sizeof(spec), "%s:2=%d", point, ENOSPC); /* fits */
	set_fault(spec);
	boot(&m, "parent");
	clear_fault();
	snapshot(&m, "full", false, true);
	CHECK(try_snapshot(&m, "bad", final, &result, &switched, &e) < 0);
	if (e.code != ERROR_NO_SPACE || switched != want_switched)
		fail("%s: error %d (%s), switched: %d", point, (int)e.code, e.message, switched);
	(void)snprintf(next, sizeof(next), "parent/delta%u", m.freezes + 1); /* fits */
	CHECK(!exists(next));
	CHECK(file_remove_tree(work_fd, "bad") == 0);
	expect_running(&m);
	snapshot(&m, "layer", false, false);
	expect_running(&m);
	stop(&m);
	remove_snapshots();
}

static void failures(void)
{
	fail_at("snapshot-prepared", false, false);
	fail_at("snapshot-pages-adopted", false, false);
	fail_at("snapshot-memory-complete", true, false);
	fail_at("snapshot-memory-complete", false, true);
}

/* Killed in the middle: no state, a clear error, and nothing that runs. */
static void killed(void)
{
	struct vmm_snapshot_result result;
	struct error e = {0};
	struct machine m;
	bool switched;

	set_fault("snapshot-memory-complete:2");
	boot(&m, "parent");
	clear_fault();
	snapshot(&m, "full", false, true);
	CHECK(try_snapshot(&m, "layer", false, &result, &switched, &e) < 0);
	if (e.code != ERROR_SANDBOX || !e.message[0])
		fail("error %d (%s)", (int)e.code, e.message);
	CHECK(size_of("full/state") > 0 && size_of("layer/state") == 0);
	stop(&m);
	remove_snapshots();
}

/* A client waits for its guest's agent, which is slow on a busy host. The guest runs meanwhile.
 * Then the client is gone before it could say that the guest may be stopped: it is. */
static void abandoned(void)
{
	const struct snapshot_needs needs = {.memory_full = true,
		.part = {[SNAPSHOT_PART_STATE] = true, [SNAPSHOT_PART_MEMORY] = true}};
	struct snapshot_files files;
	struct control_fds fds = {0};
	char text[CONTROL_MESSAGE_MAX] = "snapshot stepwise final";
	struct machine m;
	struct stat st;
	int fd, sock;

	boot(&m, "parent");
	CHECK(mkdirat(work_fd, "left", 0700) == 0);
	fd = open_dir("left");
	CHECK(snapshot_files_create(fd, &needs, &files, NULL) == 0);
	snapshot_files_describe(&files, text, sizeof(text), &fds);
	(void)close(fd); /* only a directory */
	fd = open_dir("parent");
	sock = fd_unix_connect(fd, "control.sock", SOCK_SEQPACKET);
	CHECK(sock >= 0 && control_send(sock, text, &fds) == 0);
	CHECK(control_receive(sock, text, NULL) == 1 && strcmp(text, "step stop") == 0);
	(void)poll(NULL, 0, SLOW_MS); /* sleeps */
	CHECK(!is_paused(&m));
	(void)close(sock); /* of a daemon that was killed */
	for (unsigned i = 0; i < WAIT_MS && !is_paused(&m); i++)
		(void)poll(NULL, 0, 1); /* sleeps */
	CHECK(is_paused(&m) && fstatat(work_fd, "left/state", &st, 0) == 0 && st.st_size > 0);
	sock = fd_unix_connect(fd, "control.sock", SOCK_SEQPACKET);
	CHECK(sock >= 0 && control_send(sock, "go", NULL) == 0); /* late, and not answered */
	CHECK(control_send(sock, "status", NULL) == 0 && control_receive(sock, text, NULL) == 1);
	CHECK(strncmp(text, "ok paused", 9) == 0);
	(void)close(sock); /* no more to ask */
	snapshot_files_close(&files);
	(void)close(fd); /* only a directory */
	stop(&m);
	CHECK(file_remove_tree(work_fd, "left") == 0);
}

static void bad_requests(void)
{
	static const char *const requests[] = {"snapshot final", "snapshot live 0",
		"snapshot later", "save", "hot", "grow 0 4096", "no such"};
	struct machine m;
	char reply[64];
	int fd;

	boot(&m, "parent");
	fd = open_dir("parent");
	for (size_t i = 0; i < sizeof(requests) / sizeof(requests[0]); i++) {
		struct error e = {0};

		if (vmm_request(fd, requests[i], reply, sizeof(reply), &e) == 0 ||
			e.code != ERROR_USAGE)
			fail("\"%s\": error %d (%s)", requests[i], (int)e.code, e.message);
	}
	(void)close(fd); /* only a directory */
	expect_running(&m);
	stop(&m);
}

/* --- what the process has --- */

static unsigned count_fds(pid_t pid, int *ret_last_is_dir)
{
	char path[64];
	struct dirent *de;
	unsigned n = 0;
	DIR *d;

	*ret_last_is_dir = 0;
	(void)snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid); /* fits */
	d = opendir(path);
	CHECK(d);
	while ((de = readdir(d))) {
		struct stat st;

		if (de->d_name[0] == '.')
			continue;
		n++;
		if (fstatat(dirfd(d), de->d_name, &st, 0) == 0 && S_ISDIR(st.st_mode))
			*ret_last_is_dir = 1;
	}
	(void)closedir(d); /* only read */
	return n;
}

/* Neither our environment nor a descriptor that we happen to have, nor a directory. */
static void bare_process(void)
{
	static const char expected[] = "MAYFLY_LOG=error";
	char path[64], *environment;
	int inherited, directories;
	struct machine m;
	unsigned before;
	size_t n;

	boot(&m, "before");
	before = count_fds(vmm_pid(m.vmm), &directories);
	CHECK(!directories);
	stop(&m);
	CHECK(setenv("SECRET", "of the daemon", 1) == 0 && setenv("MAYFLY_LOG", "error", 1) == 0);
	inherited = open(image, O_RDONLY); /* without O_CLOEXEC: as a careless parent left it */
	CHECK(inherited >= 0);
	boot(&m, "parent");
	CHECK(count_fds(vmm_pid(m.vmm), &directories) == before && !directories);
	(void)snprintf(path, sizeof(path), "/proc/%d/environ", (int)vmm_pid(m.vmm)); /* fits */
	CHECK(file_read(AT_FDCWD, path, 65536, &environment, &n) == 0);
	CHECK(n == sizeof(expected) && strcmp(environment, expected) == 0);
	free(environment);
	(void)close(inherited); /* only read */
	CHECK(unsetenv("SECRET") == 0 && unsetenv("MAYFLY_LOG") == 0);
	stop(&m);
}

/* A process that lets go of its owner, and goes on: nobody waits for its end. */
static void silent_process(void)
{
	char program[PATH_BYTES], silent[PATH_BYTES * 4];
	const char *libexec = getenv("MAYFLY_LIBEXEC");
	char *old = strdup(libexec);
	struct error e = {0};
	struct vmm_launch l = {.kernel = image, .cmdline = "", .cpus = 1, .memory_bytes = 64 << 20};
	struct machine m;

	(void)snprintf(program, sizeof(program), "%s/mayfly-vmm", dir);	 /* fits */
	(void)snprintf(silent, sizeof(silent), "%s/silent-vmm", guests); /* as in boot */
	CHECK(symlink(silent, program) == 0);
	CHECK(old && setenv("MAYFLY_LIBEXEC", dir, 1) == 0);
	launch(&m, "silent", &l);
	CHECK(setenv("MAYFLY_LIBEXEC", old, 1) == 0);
	free(old);
	CHECK(vmm_await_started(m.vmm, WAIT_MS, &e) < 0);
	if (e.code != ERROR_SANDBOX || !strstr(e.message, "killed"))
		fail("error %d (%s)", (int)e.code, e.message);
	stop(&m);
	CHECK(unlink(program) == 0);
}

/* Where it would write to, there are links, pipes and devices: it is refused, and none of them is
 * followed, waited for or opened. */
static void hostile_directory(void)
{
	static const char *const names[] = {"console.log", "vmm.log", "lock", "delta0"};
	char victim[PATH_BYTES], kernel[PATH_BYTES * 4];
	struct vmm_launch l = {
		.kernel = kernel, .cmdline = "exits", .cpus = 1, .memory_bytes = 64 << 20};

	(void)snprintf(kernel, sizeof(kernel), "%s/snapshot", guests); /* as in boot */
	(void)snprintf(victim, sizeof(victim), "%s/victim", dir);      /* fits */
	for (unsigned i = 0; i < 3 * sizeof(names) / sizeof(names[0]); i++) {
		struct error e = {0};
		char path[PATH_BYTES], sandbox[PATH_BYTES];
		struct vmm *vmm = NULL;
		int r;

		(void)snprintf(sandbox, sizeof(sandbox), "%s/hostile", dir); /* fits */
		(void)snprintf(path, sizeof(path), "hostile/%s", names[i / 3]);
		CHECK(mkdir(sandbox, 0700) == 0);
		if (i % 3 == 0)
			r = symlinkat(victim, work_fd, path);
		else if (i % 3 == 1)
			r = mkfifoat(work_fd, path, 0600);
		else
			r = mkdirat(work_fd, path, 0700);
		CHECK(r == 0);
		l.dir = sandbox;
		l.disks[0].base = image;
		l.disks[0].delta = "delta0";
		l.disk_count = 1;
		if (vmm_launch(&l, &vmm, &e) == 0)
			fail("%s is of kind %u, and was used", names[i / 3], i % 3);
		CHECK(e.message[0] && !exists("victim"));
		CHECK(file_remove_tree(work_fd, "hostile") == 0);
	}
}

/* --- pages that cannot be had --- */

static void expect_end(struct machine *m, const char *reason)
{
	struct error e = {0};

	for (unsigned i = 0; i < WAIT_MS && !vmm_is_over(m->vmm, &e); i++)
		(void)poll(NULL, 0, 1); /* sleeps */
	if (e.code != ERROR_SANDBOX || !strstr(e.message, reason))
		fail("error %d (%s)", (int)e.code, e.message);
	stop(m);
}

static void expect_no_page(struct machine *m)
{
	expect_end(m, "file system is full");
}

/* Signals it as the kernel does when a filter ends it. Not in its jail: there it is process 1,
 * which the kernel can end so, and nobody else. */
static void forbidden_call(void)
{
	struct machine m;

	CHECK(jailed_configure("off", NULL) == 0);
	boot(&m, "forbidden");
	use_jail();
	CHECK(kill(vmm_pid(m.vmm), SIGSYS) == 0);
	expect_end(&m, "made a system call that it is not allowed to make");
}

/* The process reads all of the guest's memory. */
static void expect_unreadable(struct machine *m)
{
	int fd;

	CHECK(mkdirat(work_fd, "again", 0700) == 0);
	fd = open_dir("again");
	CHECK(vmm_save(m->vmm, fd, NULL) < 0);
	(void)close(fd); /* only a directory */
	expect_no_page(m);
	CHECK(file_remove_tree(work_fd, "again") == 0);
}

static void truncate_file(const char *name)
{
	int fd = openat(work_fd, name, O_RDWR | O_CLOEXEC);

	CHECK(fd >= 0 && ftruncate(fd, 0) == 0 && close(fd) == 0);
}

static void truncated_memory(void)
{
	struct machine parent, m;

	make_parent(&parent);
	stop(&parent);
	restore(&m, "process", true);
	await_start(&m);
	truncate_file("full/memory");
	expect_unreadable(&m);
	remove_snapshots();
}

/* The guest is the first to miss a page: of the file that it was restored from, and of the one that
 * a live snapshot of it wrote. */
static void truncated_while_running(void)
{
	struct machine parent, m;

	make_parent(&parent);
	restore(&m, "process", false);
	await_start(&m);
	expect_running(&m);
	expect_running(&parent);
	truncate_file("full/memory");
	expect_no_page(&m);
	expect_no_page(&parent);
	remove_snapshots();
}

static void run(const char *command)
{
	if (system(command) != 0)
		fail("%s", command);
}

/* The snapshot moves to a small tmpfs, which then is filled: to read a hole takes a page of it. */
static bool move_to_full_tmpfs(void)
{
	static char block[65536];
	char full[PATH_BYTES], command[4 * PATH_BYTES];
	struct statfs fs;
	int fd;

	(void)snprintf(full, sizeof(full), "%s/full", dir); /* fits */
	if (unshare(CLONE_NEWNS) < 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return false;
	(void)snprintf(command, sizeof(command), "mv %s %s.before", full, full); /* fits */
	run(command);
	CHECK(mkdir(full, 0700) == 0);
	if (mount("small", full, "tmpfs", 0, "size=8m" /* SMALL_MB */) < 0)
		return false;
	(void)snprintf(command, sizeof(command), "cp --sparse=always %s.before/* %s/", full, full);
	run(command);
	(void)close(work_fd); /* of a tree without the tmpfs */
	work_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	fd = openat(work_fd, "full/filler", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	CHECK(work_fd >= 0 && fd >= 0 && fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC);
	for (unsigned i = 0; i < SMALL_MB * 16 && write(fd, block, sizeof(block)) > 0; i++)
		;
	CHECK(write(fd, block, 1) < 0 && errno == ENOSPC && close(fd) == 0);
	return true;
}

/* The last test: what it mounts is gone with this process. */
static void full_tmpfs(void)
{
	char full[PATH_BYTES];
	struct machine parent, m;
	struct error e = {0};

	(void)snprintf(full, sizeof(full), "%s/full", dir); /* fits */
	make_parent(&parent);
	stop(&parent);
	if (!move_to_full_tmpfs()) {
		(void)printf("skip - %s: no tmpfs can be mounted here\n", test_name);
		exit(0);
	}
	restore(&m, "small", true);
	if (vmm_await_started(m.vmm, WAIT_MS, &e) == 0) { /* the start needs such a page, too */
		expect_unreadable(&m);
	} else {
		if (e.code != ERROR_SANDBOX || !strstr(e.message, "file system is full"))
			fail("error %d (%s)", (int)e.code, e.message);
		stop(&m);
	}
	CHECK(umount(full) == 0);
}

static const struct {
	const char *name;
	void (*run)(void);
} tests[] = {
	{"process: live and final snapshots", live_and_final},
	{"process: forks of a running machine", forks},
	{"process: claimed from a pool", pool},
	{"process: a pool whose owner dies", pool_without_owner},
	{"process: a failed snapshot leaves it as it was", failures},
	{"process: killed while it takes a snapshot", killed},
	{"process: a snapshot that nobody waits for", abandoned},
	{"process: bad requests", bad_requests},
	{"process: streams that the guest opens", guest_streams},
	{"process: a guest without an egress channel", no_guest_streams},
	{"process: as many streams of a guest as there may be", many_guest_streams},
	{"process: snapshots of open streams", guest_streams_and_snapshots},
	{"process: no environment, no descriptors but its own", bare_process},
	{"process: one that lets go of its owner is not waited for", silent_process},
	{"process: links, pipes and directories in place of its files", hostile_directory},
	{"process: a truncated file ends it with the reason", truncated_memory},
	{"process: a file truncated under a running guest ends it with the reason",
		truncated_while_running},
	{"process: a system call that is not allowed ends it with the reason", forbidden_call},
	{"process: a full tmpfs ends it with the reason", full_tmpfs},
};

int main(int argc, char **argv)
{
	struct error e = {0};
	int fd = argc == 3 ? kvm_open(&e) : -1;

	if (argc != 3) {
		(void)fprintf(stderr, "usage: test-process GUESTS PROGRAMS\n");
		return 2;
	}
	if (fd < 0) {
		(void)printf("skip - microVM processes: %s\n", e.message);
		return SKIPPED;
	}
	(void)close(fd); /* only tried */
	guests = argv[1];
	test_name = "process";
	faulty = argv[2];
	clear_fault();
	CHECK(mkdtemp(dir));
	use_jail();
	(void)atexit(remove_dir); /* failing, it stays behind */
	work_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	(void)snprintf(image, sizeof(image), "%s/image", dir); /* fits */
	fd = open(image, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	CHECK(work_fd >= 0 && fd >= 0 && ftruncate(fd, 8 << 20) == 0);
	(void)close(fd); /* empty */
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		test_name = tests[i].name;
		tests[i].run();
		(void)printf("ok - %s\n", test_name);
	}
	return 0;
}
