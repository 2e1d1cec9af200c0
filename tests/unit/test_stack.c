/* The directories of links that sandboxes and their states stand on, with small files in the place
 * of memories and disks: what a snapshot writes is put on top, merged layers take the place of
 * others, every step can be done again after a crash, and checksums are those of the files. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "image/verify.h"
#include "proto/snapshot.h"
#include "sandbox/stack.h"
#include "sandbox/sandbox_dir.h"

enum { LIST_BYTES = 1024 };

static char dir[64];
static int top_fd = -1; /* a sandbox's directory: layers, snapshot, deltas */

/* --- files --- */

static void put(int fd, const char *name, const char *text)
{
	assert_int_equal(file_write_atomic(fd, name, text, strlen(text), 0600), 0);
}

/* What mayfly-vmm writes last. */
static void put_state(int fd)
{
	struct snapshot_writer w;

	snapshot_writer_init(&w);
	assert_int_equal(buf_add_le32(snapshot_section(&w, SNAPSHOT_CLOCK, 0), 7), 0);
	assert_int_equal(snapshot_writer_finish(&w), 0);
	assert_int_equal(
		file_write_atomic(fd, "state", buf_head(&w.bytes), buf_len(&w.bytes), 0600), 0);
	snapshot_writer_done(&w);
}

static int make_dir(const char *name)
{
	struct error e = {0};
	int fd = stack_open(top_fd, name, true, &e);

	assert_true(fd >= 0);
	return fd;
}

static int open_dir(const char *name)
{
	struct error e = {0};
	int fd = stack_open(top_fd, name, false, &e);

	assert_true(fd >= 0);
	return fd;
}

static void assert_file(int fd, const char *name, const char *want)
{
	char *text = NULL;

	assert_int_equal(file_read(fd, name, LIST_BYTES, &text, NULL), 0);
	assert_string_equal(text, want);
	free(text);
}

static bool there(int fd, const char *name)
{
	return faccessat(fd, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

static void assert_same(int a_fd, const char *a, int b_fd, const char *b)
{
	struct stat x, y;

	assert_int_equal(fstatat(a_fd, a, &x, 0), 0);
	assert_int_equal(fstatat(b_fd, b, &y, 0), 0);
	assert_true(x.st_ino == y.st_ino);
}

struct listing {
	int fd;
	char text[LIST_BYTES];
};

static int add_content(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	struct listing *l = arg;
	size_t n = strlen(l->text);
	char *text = NULL;

	assert_int_equal(file_read(l->fd, name, LIST_BYTES, &text, NULL), 0);
	(void)snprintf(l->text + n, sizeof(l->text) - n, "%s%c%u=%s", n ? " " : "", "MID"[role],
		disk, text);
	free(text);
	return 0;
}

/* What a launch from the directory would stand on: role, disk and content of each file. */
static void assert_stack(int fd, bool memory, const char *want)
{
	struct listing l = {.fd = fd};

	assert_int_equal(stack_each(fd, memory, add_content, &l), 0);
	assert_string_equal(l.text, want);
}

static int check_one(void *arg, enum stack_role role, unsigned disk, const char *name)
{
	struct error e = {0};

	return verify_check(*(int *)arg, name, "it", "make it again", NULL, &e);
}

static void assert_sealed(int fd, bool memory)
{
	assert_int_equal(stack_each(fd, memory, check_one, &fd), 0);
}

/* --- a sandbox --- */

static const char *const template_files[] = {"rootfs.erofs", "scratch.ext4", "memory"};

/* Made of a template with two disks, the second of which is writable. */
static void make_sandbox(void)
{
	struct error e = {0};
	int fd = make_dir(STACK_DIR);

	for (size_t i = 0; i < 3; i++)
		put(fd, template_files[i], template_files[i]);
	put(fd, "template.json", "{}");
	put(fd, "hot", "hot");
	assert_int_equal(verify_seal(fd, -1, template_files, 3, &e), 0);
	(void)close(fd); /* read-only */
	put(top_fd, "disk1", "d0");
}

/* What vmm_snapshot leaves: a frozen delta, a layer of memory, and a fresh delta. */
static void write_snapshot(const char *delta, const char *memory)
{
	int fd = make_dir(STACK_SNAPSHOT_DIR);

	put(top_fd, "disk1", delta);
	assert_int_equal(linkat(top_fd, "disk1", fd, "disk1", 0), 0);
	put(fd, "memory.layer", memory);
	put(top_fd, "disk1.next", "fresh");
	put_state(fd);
	(void)close(fd); /* read-only */
}

static int set_up(void **state)
{
	(void)snprintf(dir, sizeof(dir), "/tmp/test-layers-XXXXXX");
	assert_non_null(mkdtemp(dir));
	top_fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	assert_true(top_fd >= 0);
	make_sandbox();
	return 0;
}

static int tear_down(void **state)
{
	(void)close(top_fd); /* read-only */
	return file_remove_tree(AT_FDCWD, dir);
}

#define BASE	  "M0=memory"
#define BASE_DISK "I0=rootfs.erofs I1=scratch.ext4"

/* --- pausing --- */

static void compose_disks(const char *want)
{
	int below = open_dir(STACK_DIR), raw = open_dir(STACK_SNAPSHOT_DIR);
	int to = make_dir("paused");
	struct error e = {0};

	assert_int_equal(stack_compose(below, raw, to, false, NULL, &e), 0);
	assert_stack(to, false, want);
	assert_sealed(to, false);
	(void)close(below), (void)close(raw), (void)close(to); /* read-only */
}

static void compose(bool memory, const char *want)
{
	int below = open_dir(STACK_DIR), raw = open_dir(STACK_SNAPSHOT_DIR);
	int to = make_dir("paused");
	struct error e = {0};
	uint64_t own = 0;

	assert_int_equal(stack_compose(below, raw, to, memory, &own, &e), 0);
	assert_true(own > 0);
	assert_stack(to, memory, want);
	assert_sealed(to, memory);
	assert_int_equal(there(to, "state"), memory);
	assert_int_equal(there(to, "hot"), memory);
	assert_int_equal(there(to, "memory"), memory);
	assert_true(there(to, "template.json"));
	assert_same(to, "scratch.ext4", below, "scratch.ext4");
	assert_stack(below, true, BASE " " BASE_DISK);	       /* as it was */
	(void)close(below), (void)close(raw), (void)close(to); /* read-only */
}

static void test_pause(void **state)
{
	write_snapshot("d1", "m1");
	compose(true, BASE " M0=m1 " BASE_DISK " D1=d1");
}

static void test_pause_of_disks(void **state)
{
	write_snapshot("d1", "m1");
	compose(false, BASE_DISK " D1=d1");
}

static void test_full_memory(void **state)
{
	int raw;

	write_snapshot("d1", "m1");
	raw = open_dir(STACK_SNAPSHOT_DIR);
	assert_int_equal(unlinkat(raw, "memory.layer", 0), 0);
	put(raw, "memory", "all");
	(void)close(raw); /* read-only */
	compose(true, "M0=all " BASE_DISK " D1=d1");
}

/* --- going on --- */

static void advance(const char *want)
{
	struct error e = {0};
	int to = make_dir("kept"), layers;
	uint64_t own = 0;

	assert_int_equal(stack_advance(top_fd, to, true, &own, &e), 0);
	layers = open_dir(STACK_DIR);
	assert_stack(layers, true, want);
	assert_stack(to, true, want);
	assert_sealed(layers, true);
	assert_sealed(to, true);
	assert_true(own > 0);
	assert_false(there(layers, "state"));
	assert_true(there(to, "state"));
	assert_file(top_fd, "disk1", "fresh");
	assert_false(there(top_fd, "disk1.next"));
	assert_false(there(top_fd, STACK_SNAPSHOT_DIR));
	assert_false(there(top_fd, "layers.next"));
	(void)close(layers), (void)close(to); /* read-only */
}

static void test_snapshots(void **state)
{
	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	write_snapshot("d2", "m2");
	advance(BASE " M0=m1 M0=m2 " BASE_DISK " D1=d1 D1=d2");
}

/* Only the disks are kept; the sandbox that goes on stands on all. */
static void test_snapshot_of_disks(void **state)
{
	struct error e = {0};
	int to = make_dir("kept"), layers;
	uint64_t own = 0;

	write_snapshot("d1", "m1");
	assert_int_equal(stack_advance(top_fd, to, false, &own, &e), 0);
	layers = open_dir(STACK_DIR);
	assert_stack(layers, true, BASE " M0=m1 " BASE_DISK " D1=d1");
	assert_stack(to, false, BASE_DISK " D1=d1");
	assert_sealed(layers, true);
	assert_sealed(to, false);
	assert_true(there(to, STACK_TEMPLATE));
	assert_false(there(to, "state") || there(to, "memory") || there(to, "hot"));
	assert_int_equal(own, file_disk_bytes(to, "disk1"));
	(void)close(layers), (void)close(to); /* read-only */
}

static void test_merged(void **state)
{
	int raw;

	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	write_snapshot("d2", "m2");
	raw = open_dir(STACK_SNAPSHOT_DIR);
	put(raw, "memory.merged", "m1'");
	put(raw, "disk1.merged", "d1'");
	(void)close(raw); /* read-only */
	advance(BASE " M0=m1' M0=m2 " BASE_DISK " D1=d1' D1=d2");
}

/* Of a template whose image has deltas: they come first, and a merged delta takes their place. */
static void test_image_deltas(void **state)
{
	static const char *const files[] = {"rootfs.ext4", "delta0", "delta1", "memory", "disk0"};
	int layers = make_dir(STACK_DIR), raw;
	struct error e = {0};
	char name[STACK_NAME_BYTES];

	for (size_t i = 0; i < ARRAY_SIZE(files); i++)
		put(layers, files[i], files[i]);
	assert_int_equal(verify_seal(layers, -1, files, ARRAY_SIZE(files), &e), 0);
	assert_stack(layers, false, "I0=rootfs.ext4 D0=delta0 D0=delta1 D0=disk0");
	raw = make_dir(STACK_SNAPSHOT_DIR);
	put(raw, "disk0", "d1");
	compose_disks("I0=rootfs.ext4 D0=delta0 D0=delta1 D0=disk0 D0=d1");
	for (unsigned n = 1; n < SNAPSHOT_LAYERS_MAX - 2; n++) {
		assert_false(stack_is_full(top_fd));
		(void)snprintf(name, sizeof(name), "disk0.%u", n); /* fits */
		put(layers, name, name);
	}
	assert_true(stack_is_full(top_fd));
	put(raw, "disk0.merged", "all");
	compose_disks("I0=rootfs.ext4 D0=all D0=d1");
	(void)close(layers), (void)close(raw); /* read-only */
}

/* No state that a microVM cannot be started with. */
static void test_full(void **state)
{
	int below = open_dir(STACK_DIR), raw, to;
	struct error e = {0};
	char name[STACK_NAME_BYTES];

	for (unsigned n = 0; n < SNAPSHOT_LAYERS_MAX; n++) {
		assert_false(stack_is_full(top_fd));
		(void)snprintf(name, sizeof(name), n ? "disk1.%u" : "disk1", n);
		put(below, name, name);
	}
	assert_true(stack_is_full(top_fd));
	write_snapshot("one more", "m");
	raw = open_dir(STACK_SNAPSHOT_DIR);
	to = make_dir("paused");
	assert_true(stack_compose(below, raw, to, false, NULL, &e) < 0);
	assert_int_equal(e.code, ERROR_LIMIT);
	(void)close(to); /* read-only */
	put(raw, "disk1.merged", "all");
	to = make_dir("paused");
	error_clear(&e);
	assert_int_equal(stack_compose(below, raw, to, false, NULL, &e), 0);
	assert_stack(to, false, BASE_DISK " D1=all D1=one more");
	(void)close(below), (void)close(raw), (void)close(to); /* read-only */
}

/* A snapshot's files stay when it is taken again, and when what it stands on is gone. */
static void test_shared(void **state)
{
	struct error e = {0};
	int kept, copy;

	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	kept = open_dir("kept");
	copy = make_dir("copy");
	assert_int_equal(stack_clone_snapshot(kept, copy, &e), 0);
	assert_same(kept, "memory.1", copy, "memory.1");
	assert_true(there(copy, "state"));
	(void)close(copy);	 /* read-only */
	copy = make_dir("copy"); /* anew */
	assert_int_equal(stack_clone(kept, copy, &e), 0);
	assert_false(there(copy, "state"));
	(void)close(kept); /* read-only */
	assert_int_equal(file_remove_tree(top_fd, "kept"), 0);
	assert_int_equal(file_remove_tree(top_fd, STACK_DIR), 0);
	assert_stack(copy, true, BASE " M0=m1 " BASE_DISK " D1=d1");
	assert_sealed(copy, true);
	(void)close(copy); /* read-only */
}

/* --- after a crash --- */

/* What advancing has done before it was cut short is put together by hand, then it is done again.
 */
static void exchange_layers(void)
{
	struct error e = {0};
	int below = open_dir(STACK_DIR), raw = open_dir(STACK_SNAPSHOT_DIR);
	int next = make_dir("layers.next");

	assert_int_equal(stack_compose(below, raw, next, true, NULL, &e), 0);
	assert_int_equal(unlinkat(next, "state", 0), 0);
	assert_int_equal(renameat2(top_fd, "layers.next", top_fd, STACK_DIR, RENAME_EXCHANGE), 0);
	(void)close(below), (void)close(raw), (void)close(next); /* read-only */
}

static void add_merged(void)
{
	int raw = open_dir(STACK_SNAPSHOT_DIR);

	put(raw, "memory.merged", "m1'");
	put(raw, "disk1.merged", "d1'");
	(void)close(raw); /* read-only */
}

static void crash_and_advance(bool merged, bool renamed, const char *want)
{
	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	write_snapshot("d2", "m2");
	if (merged)
		add_merged();
	exchange_layers();
	if (renamed)
		assert_int_equal(renameat(top_fd, "disk1.next", top_fd, "disk1"), 0);
	advance(want);
}

static void test_exchanged(void **state)
{
	crash_and_advance(false, false, BASE " M0=m1 M0=m2 " BASE_DISK " D1=d1 D1=d2");
}

static void test_exchanged_and_renamed(void **state)
{
	crash_and_advance(false, true, BASE " M0=m1 M0=m2 " BASE_DISK " D1=d1 D1=d2");
}

static void test_exchanged_merged(void **state)
{
	crash_and_advance(true, false, BASE " M0=m1' M0=m2 " BASE_DISK " D1=d1' D1=d2");
}

/* It failed after the disks were switched: there is a frozen delta, and no memory of that time. */
static void test_disks_only(void **state)
{
	struct error e = {0};
	int raw, layers;

	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	write_snapshot("d2", "m2");
	raw = open_dir(STACK_SNAPSHOT_DIR);
	assert_int_equal(unlinkat(raw, "state", 0), 0);
	(void)close(raw); /* read-only */
	assert_int_equal(stack_advance(top_fd, -1, true, NULL, &e), 0);
	layers = open_dir(STACK_DIR);
	assert_stack(layers, true, BASE " M0=m1 " BASE_DISK " D1=d1 D1=d2");
	assert_sealed(layers, true);
	assert_true(there(layers, "hot"));
	assert_file(top_fd, "disk1", "fresh");
	(void)close(layers); /* read-only */
}

/* A directory of the try before does no harm. */
static void test_remains(void **state)
{
	int next = make_dir("layers.next");

	put(next, "memory.1", "old");
	put(next, "memory.2", "old");
	(void)close(next); /* read-only */
	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
}

/* --- checksums --- */

static void damage(int fd, const char *name)
{
	int file = openat(fd, name, O_WRONLY | O_CLOEXEC);

	assert_true(file >= 0);
	assert_int_equal(pwrite(file, "X", 1, 0), 1);
	assert_int_equal(close(file), 0);
}

static void test_damage(void **state)
{
	static const char *const names[] = {"memory", "memory.1", "disk1", "scratch.ext4"};
	struct error e = {0};
	int kept;

	write_snapshot("d1", "m1");
	advance(BASE " M0=m1 " BASE_DISK " D1=d1");
	kept = open_dir("kept");
	for (size_t i = 0; i < 4; i++) {
		damage(kept, names[i]);
		assert_true(verify_check(kept, names[i], "it", "make it again", NULL, &e) < 0);
		assert_int_equal(e.code, ERROR_BAD_SNAPSHOT);
		error_clear(&e);
	}
	(void)close(kept); /* read-only */
}

/* Damage below is not taken for good when something is put on top: the notes are the old ones. */
static void test_damage_below(void **state)
{
	struct error e = {0};
	int layers = open_dir(STACK_DIR), kept;

	damage(layers, "memory");
	write_snapshot("d1", "m1");
	kept = make_dir("kept");
	assert_int_equal(stack_advance(top_fd, kept, true, NULL, &e), 0);
	assert_true(verify_check(kept, "memory", "it", "make it again", NULL, &e) < 0);
	assert_int_equal(verify_check(kept, "memory.1", "it", "make it again", NULL, &e), 0);
	(void)close(layers), (void)close(kept); /* read-only */
}

static void test_missing(void **state)
{
	struct error e = {0};
	int layers = open_dir(STACK_DIR);

	assert_true(stack_open(top_fd, "nothing", false, &e) < 0);
	error_clear(&e);
	assert_int_equal(stack_take(layers, "nothing", top_fd, "x", &e), -ENOENT);
	error_clear(&e);
	assert_true(stack_advance(top_fd, -1, true, NULL, &e) < 0); /* no snapshot */
	assert_stack(layers, true, BASE " " BASE_DISK);
	(void)close(layers); /* read-only */
}

/* One that mayfly-vmm did not get to the end of: the files are there, the state is not intact. */
static void test_unfinished_state(void **unused)
{
	int layers, raw;
	struct error e = {0};

	write_snapshot("d1", "m1");
	raw = open_dir("snapshot");
	assert_int_equal(ftruncate(openat(raw, "state", O_WRONLY | O_CLOEXEC), 20), 0);
	assert_int_equal(stack_advance(top_fd, -1, true, NULL, &e), 0);
	layers = open_dir("layers");
	assert_stack(layers, true, BASE " " BASE_DISK " D1=d1");
	(void)close(layers); /* read-only */
	(void)close(raw);
}

enum hostile { LINK, PIPE, DEVICE, DIRECTORY, HUGE_FILE, HOSTILES };

static bool make_hostile(int fd, const char *name, enum hostile kind)
{
	int file;

	(void)unlinkat(fd, name, 0); /* the good one */
	switch (kind) {
	case LINK:
		return symlinkat("/etc/passwd", fd, name) == 0;
	case PIPE:
		return mkfifoat(fd, name, 0600) == 0;
	case DEVICE: /* root only */
		return mknodat(fd, name, S_IFCHR | 0600, makedev(1, 5)) == 0;
	case DIRECTORY:
		return mkdirat(fd, name, 0700) == 0;
	default:
		file = openat(fd, name, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
		return file >= 0 && ftruncate(file, (off_t)(VMM_FILE_MAX + 1)) == 0 &&
		       close(file) == 0;
	}
}

/* What a microVM may have put in the place of its files is neither followed nor waited for, nor
 * linked into a snapshot. */
static void test_hostile_files(void **unused)
{
	for (int kind = 0; kind < HOSTILES; kind++) {
		struct error e = {0};
		int to = make_dir("to"), from = make_dir("from");
		char *text;

		if (!make_hostile(from, "file", (enum hostile)kind)) {
			(void)close(to); /* not as this user */
			(void)close(from);
			continue;
		}
		assert_true(stack_take(from, "file", to, "file", &e) < 0);
		assert_false(there(to, "file"));
		if (kind != HUGE_FILE && kind != DIRECTORY)
			assert_int_equal(e.code, ERROR_BAD_SNAPSHOT);
		error_clear(&e);
		assert_true(verify_record(from, "file", &e) < 0);
		assert_true(verify_check(from, "file", "it", "do", NULL, NULL) < 0);
		assert_true(verify_seal(from, -1, (const char *const[]){"file"}, 1, NULL) < 0);
		assert_true(file_open_foreign(from, "file", O_RDONLY, VMM_FILE_MAX) < 0);
		assert_true(file_read_foreign(from, "file", 1000, &text, NULL) < 0);
		(void)close(to); /* only directories */
		(void)close(from);
	}
}

/* Its notes are read as its files are. */
static void test_hostile_notes(void **unused)
{
	static const char *const notes[] = {"checksums", "verified", "state", "sandbox.json"};

	for (unsigned i = 0; i < 4 * HUGE_FILE; i++) {
		struct sandbox_record record;
		int fd = make_dir("from");

		put(fd, "file", "x");
		if (make_hostile(fd, notes[i % 4], (enum hostile)(i / 4))) {
			assert_false(verify_is_recorded(fd, "file"));
			assert_true(sandbox_record_read(fd, "i", &record, NULL) < 0);
		}
		(void)close(fd); /* only a directory */
	}
}

/* Killed is the process that was started for the sandbox, and none that has its number. */
static void test_kill(void **unused)
{
	const char *id = "i0123456789abcdefghi";
	const struct sandbox_dirs dirs = {.fd = top_fd, .path = dir};
	struct sandbox_record r = {0};

	(void)signal(SIGCHLD, SIG_IGN); /* nobody waits for it */
	for (int genuine = 0; genuine < 2; genuine++) {
		struct error e = {0};
		pid_t pid = fork();
		int fd, lock;

		if (pid == 0) {
			(void)pause();
			_exit(0);
		}
		fd = make_dir(id);
		lock = openat(fd, "lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
		assert_int_equal(flock(lock, LOCK_EX), 0);
		(void)snprintf(r.id, sizeof(r.id), "%s", id); /* fits */
		r.vmm_pid = pid;
		r.vmm_start = process_start_ticks(pid) - !genuine;
		assert_int_equal(sandbox_record_write(fd, &r, &e), 0);
		assert_int_equal(sandbox_kill(&dirs, id, &e), 0);
		assert_int_equal(kill(pid, 0), genuine ? -1 : 0);
		if (!genuine)
			assert_int_equal(kill(pid, SIGKILL), 0); /* our own child */
		(void)close(lock);				 /* held until here */
		(void)close(fd);				 /* only a directory */
	}
	(void)signal(SIGCHLD, SIG_DFL);
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_pause),
		TEST(test_pause_of_disks),
		TEST(test_full_memory),
		TEST(test_snapshots),
		TEST(test_snapshot_of_disks),
		TEST(test_merged),
		TEST(test_full),
		TEST(test_image_deltas),
		TEST(test_shared),
		TEST(test_exchanged),
		TEST(test_exchanged_and_renamed),
		TEST(test_exchanged_merged),
		TEST(test_disks_only),
		TEST(test_remains),
		TEST(test_damage),
		TEST(test_damage_below),
		TEST(test_missing),
		TEST(test_unfinished_state),
		TEST(test_hostile_files),
		TEST(test_hostile_notes),
		TEST(test_kill),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
