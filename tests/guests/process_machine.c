/* Starts, asks, snapshots and ends microVM processes for tests. */
#include "process.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "io/jailed.h"
#include "sandbox/vmm_request.h"

char dir[] = "/tmp/mayfly-process-XXXXXX", image[64];
const char *test_name, *guests, *faulty;
int work_fd;

void remove_dir(void)
{
	(void)file_remove_tree(AT_FDCWD, dir); /* temporary */
}

_Noreturn void fail(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)printf("not ok - %s: ", test_name);
	(void)vprintf(format, args);
	(void)printf("\n");
	va_end(args);
	exit(1);
}

int open_dir(const char *name)
{
	int fd = openat(work_fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		fail("%s: %s", name, strerror(errno));
	return fd;
}

off_t size_of(const char *name)
{
	struct stat st;

	CHECK(fstatat(work_fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0);
	return st.st_size;
}

bool exists(const char *name)
{
	return faccessat(work_fd, name, F_OK, 0) == 0;
}

/* Only that mayfly-vmm has fault points, and it has no filters of system calls. */
void set_fault(const char *spec)
{
	CHECK(setenv("MAYFLY_LIBEXEC", faulty, 1) == 0 && setenv("MAYFLY_FAULT", spec, 1) == 0);
}

void clear_fault(void)
{
	char path[PATH_BYTES * 4];

	CHECK(unsetenv("MAYFLY_FAULT") == 0);
#ifdef SANITIZED					  /* that build has no other */
	(void)snprintf(path, sizeof(path), "%s", faulty); /* a path that is too long fails */
#else
	(void)snprintf(path, sizeof(path), "%s/../..", faulty); /* a path that is too long fails */
#endif
	CHECK(setenv("MAYFLY_LIBEXEC", path, 1) == 0);
}

/* With sanitizers mayfly-vmm needs libraries, which a jail has not. TEST_JAIL=off is for who looks
 * on. */
void use_jail(void)
{
#ifdef SANITIZED
	const char *jail = "off";
#else
	const char *jail = getenv("TEST_JAIL");
#endif

	CHECK(jailed_configure(jail ? jail : "on", NULL) == 0);
}

/* --- a microVM --- */

void await_start(struct machine *m)
{
	struct error e = {0};

	if (vmm_await_started(m->vmm, WAIT_MS, &e) < 0)
		fail("%s does not start: %s", m->name, e.message);
}

void launch(struct machine *m, const char *name, struct vmm_launch *l)
{
	struct error e = {0};

	*m = (struct machine){.name = name};
	CHECK(mkdirat(work_fd, name, 0700) == 0);
	(void)snprintf(m->dir, sizeof(m->dir), "%s/%s", dir, name); /* fits */
	l->dir = m->dir;
	l->disks[0].base = image;
	l->disks[0].delta = "delta0";
	l->disk_count = 1;
	if (vmm_launch(l, &m->vmm, &e) < 0)
		fail("vmm_launch: %s", e.message);
}

void boot_guest(
	struct machine *m, const char *name, const char *guest, const char *cmdline, int egress_fd)
{
	char kernel[PATH_BYTES * 4];
	struct vmm_launch l = {.kernel = kernel,
		.cmdline = cmdline,
		.cpus = 1,
		.memory_bytes = 64 << 20,
		.egress_fd = egress_fd};

	(void)snprintf(
		kernel, sizeof(kernel), "%s/%s", guests, guest); /* a path that is too long fails */
	launch(m, name, &l);
	await_start(m);
}

void boot(struct machine *m, const char *name)
{
	boot_guest(m, name, "snapshot", "exits", -1);
}

void status(const struct machine *m, char out[256])
{
	struct error e = {0};
	int fd = open_dir(m->name);

	if (vmm_request(fd, "status", out, 256, &e) < 0)
		fail("status of %s: %s", m->name, e.message);
	(void)close(fd); /* only a directory */
}

static unsigned long long number(const struct machine *m, const char *field)
{
	char text[256];
	const char *p;

	status(m, text);
	p = strstr(text, field);
	CHECK(p);
	return strtoull(p + strlen(field), NULL, 10);
}

bool is_paused(const struct machine *m)
{
	char text[256];

	status(m, text);
	return strncmp(text, "paused", 6) == 0;
}

void await_exits(const struct machine *m, unsigned long long n)
{
	unsigned long long end = number(m, "exits=") + n;

	for (unsigned i = 0; i < WAIT_MS && number(m, "exits=") < end; i++)
		(void)poll(NULL, 0, 1); /* sleeps */
	if (number(m, "exits=") < end)
		fail("%s does not run", m->name);
}

/* The guest leaves for the VMM all the time. */
void expect_running(const struct machine *m)
{
	await_exits(m, 1);
}

/* What vmm_snapshot told of its steps. */
struct steps {
	const struct machine *m;
	unsigned stops, goes;
};

static void before_stop(void *arg)
{
	struct steps *s = arg;

	expect_running(s->m);
	s->stops++;
}

static void after_stop(void *arg)
{
	((struct steps *)arg)->goes++;
}

int try_snapshot(struct machine *m, const char *name, bool final, struct vmm_snapshot_result *ret,
	bool *switched, struct error *e)
{
	struct steps steps = {.m = m};
	struct vmm_snapshot_options o = {.final = final,
		.before_stop = before_stop,
		.after_stop = after_stop,
		.arg = &steps};
	char delta[32], next[32];
	int fd = open_dir(m->name), r;

	CHECK(mkdirat(work_fd, name, 0700) == 0);
	(void)snprintf(delta, sizeof(delta), "delta%u", m->freezes);   /* fits */
	(void)snprintf(next, sizeof(next), "delta%u", m->freezes + 1); /* fits */
	o.dirfd = open_dir(name);
	o.disks[0].delta = delta;
	o.disks[0].next = next;
	r = vmm_snapshot(fd, &o, ret, switched, e);
	CHECK(r < 0 ? steps.goes == steps.stops : steps.stops == 1 && steps.goes == !final);
	m->freezes += *switched;
	(void)close(o.dirfd); /* only directories */
	(void)close(fd);
	return r;
}

void snapshot(struct machine *m, const char *name, bool final, bool full)
{
	struct vmm_snapshot_result result;
	struct error e = {0};
	bool switched;

	if (try_snapshot(m, name, final, &result, &switched, &e) < 0)
		fail("vmm_snapshot: %s", e.message);
	CHECK(result.memory_full == full && !result.memory_merged && switched == !final);
	CHECK(result.stop_ns > 0);
}

void stop(struct machine *m)
{
	vmm_stop(m->vmm);
	m->vmm = NULL;
	CHECK(file_remove_tree(work_fd, m->name) == 0);
}

/* What was made of the snapshots "full" and "layer" of one machine. */
void restore_with(struct machine *m, const char *name, bool paused, int egress_fd)
{
	char path[4][PATH_BYTES];
	static const char *const files[] = {
		"layer", "full/memory", "layer/memory.layer", "full/disk0"};
	struct vmm_launch l = {.snapshot = path[0],
		.memory = path[1],
		.layers = {path[2]},
		.layer_count = 1,
		.check_layers = true,
		.egress_fd = egress_fd,
		.paused = paused};
	char own[PATH_BYTES];

	for (unsigned i = 0; i < 4; i++)
		(void)snprintf(path[i], PATH_BYTES, "%s/%s", dir, files[i]); /* fits */
	(void)snprintf(own, sizeof(own), "%s/layer/disk0", dir);	     /* fits */
	l.disks[0].layers[0] = path[3];
	l.disks[0].layers[1] = own;
	l.disks[0].layer_count = 2;
	launch(m, name, &l);
}

void restore(struct machine *m, const char *name, bool paused)
{
	restore_with(m, name, paused, -1);
}

/* A machine with two live snapshots, running on. */
void make_parent(struct machine *m)
{
	int fd;

	boot(m, "parent");
	expect_running(m);
	snapshot(m, "full", false, true);
	expect_running(m);
	snapshot(m, "layer", false, false);
	expect_running(m);
	CHECK(number(m, "layers=") == 1);
	fd = open_dir("parent");
	CHECK(vmm_writes_to(fd, 0, "delta2", NULL) == 1);
	CHECK(vmm_writes_to(fd, 0, "delta1", NULL) == 0);
	CHECK(vmm_writes_to(fd, 0, "delta3", NULL) == 0);
	(void)close(fd); /* only a directory */
}

void remove_snapshots(void)
{
	CHECK(file_remove_tree(work_fd, "full") == 0 && file_remove_tree(work_fd, "layer") == 0);
}
