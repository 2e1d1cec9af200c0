/* The checks of `mayfly doctor`. Each adds one line. None changes the host; a user namespace and a
 * virtual machine are created and discarded. */
#include "cli/doctor/doctor.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"
#include "cli/doctor/doctor_host.h"
#include "cli/doctor/doctor_jail.h"
#include "cli/doctor/doctor_libraries.h"
#include "image/home.h"
#include "image/workdir.h"
#include "io/child.h"
#include "io/program.h"
#include "io/subordinate.h"
#include "proto/snapshot.h"
#include "sandbox/backend.h"
#include "sandbox/cgroup_tree.h"
#include "sandbox/host.h"
#include "sandbox/probe.h"
#include "sandbox/sandbox_dir.h"
#include "vmm/kvm.h"

#define GIB (UINT64_C(1) << 30)
#define MIB (UINT64_C(1) << 20)

/* Our errors read "what is wrong: what to do". */
static void add_error(
	struct doctor *d, const char *name, enum doctor_status status, const struct error *e)
{
	struct doctor_check *c = doctor_add(d, name, status, "%s", e->message);
	char *colon = strstr(c->text, ": ");

	if (!colon)
		return;
	doctor_set_remedy(c, colon + 2);
	*colon = '\0';
}

static void check_speed(struct doctor *d, int kvm_fd)
{
	struct error e = {0};
	struct probe p;

	if (probe_speed(kvm_fd, &p, &e) < 0 || probe_check(&p, &e) < 0)
		add_error(d, "kvm speed", DOCTOR_FAIL, &e);
	else
		doctor_add(d, "kvm speed", DOCTOR_OK,
			"guest kernel code runs at %.0f million instructions per second", p.mips);
}

static void check_kvm(struct doctor *d)
{
	struct error e = {0};
	_cleanup_close_ int kvm_fd = kvm_open(&e);

	if (kvm_fd < 0) {
		add_error(d, "kvm", DOCTOR_FAIL, &e);
		return;
	}
	doctor_add(d, "kvm", DOCTOR_OK, "/dev/kvm can be opened and has what is needed");
	check_speed(d, kvm_fd);
}

static void check_hypervisor(struct doctor *d)
{
	char vendor[PROBE_VENDOR_BYTES];

	if (!probe_hypervisor(vendor))
		doctor_add(d, "host", DOCTOR_OK, "real hardware, as far as CPUID tells");
	else
		doctor_add(d, "host", DOCTOR_OK, "a virtual machine itself, under %s",
			probe_hypervisor_name(vendor));
}

/* The daemon's service may have what this process has not. */
static void check_cgroups(struct doctor *d)
{
	struct error e = {0};

	if (cgroup_tree_check(NULL, &e) < 0)
		add_error(d, "cgroups", DOCTOR_WARN, &e);
	else
		doctor_add(
			d, "cgroups", DOCTOR_OK, "cgroup v2 with cpu, memory and pids can be used");
}

static const struct {
	const char *program, *package;
	bool user_only; /* root does without */
} build_programs[] = {
	{"mmdebstrap", "mmdebstrap", false},
	{"apt-get", "apt", false},
	{"mke2fs", "e2fsprogs", false},
	{"mkfs.erofs", "erofs-utils", false},
	{"newuidmap", "uidmap", true},
};

static void check_packages(struct doctor *d)
{
	struct buf missing = BUF_INIT(DOCTOR_TEXT_MAX);
	struct doctor_check *c;

	for (size_t i = 0; i < ARRAY_SIZE(build_programs); i++)
		if (!(build_programs[i].user_only && geteuid() == 0) &&
			!child_program_exists(build_programs[i].program))
			/* a list cut short is still a list */
			(void)buf_printf(&missing, " %s", build_programs[i].package);
	if (buf_len(&missing) == 0) {
		doctor_add(d, "packages", DOCTOR_OK, "programs that build templates are installed");
	} else {
		c = doctor_add(
			d, "packages", DOCTOR_WARN, "programs that build templates are missing");
		(void)snprintf(c->remedy, sizeof(c->remedy), "apt-get install%.*s",
			(int)buf_len(&missing), (const char *)buf_head(&missing));
	}
	buf_done(&missing);
}

/* Root has other ids to give. */
static void check_subordinate_ids(struct doctor *d)
{
	struct subordinate ids;
	struct error e = {0};

	if (geteuid() == 0)
		return;
	if (subordinate_find(&ids, &e) < 0)
		add_error(d, "subordinate ids", DOCTOR_WARN, &e);
	else
		doctor_add(d, "subordinate ids", DOCTOR_OK, "you have those for Debian images");
}

/* The nearest directory of the path that exists already. */
static int statvfs_above(const char *path, struct statvfs *s)
{
	_cleanup_free_ char *p = strdup(path);

	while (p && *p) {
		char *slash;

		if (statvfs(p, s) == 0)
			return 0;
		slash = strrchr(p, '/');
		if (errno != ENOENT || !slash)
			return -errno;
		slash[slash == p ? 1 : 0] = '\0';
	}
	return -ENOENT;
}

static void check_disk(struct doctor *d)
{
	_cleanup_free_ char *home = home_default_path();
	struct doctor_check *c;
	struct statvfs s;
	uint64_t room;
	char text[16];

	if (!home || statvfs_above(home, &s) < 0) {
		doctor_set_remedy(
			doctor_add(d, "disk", DOCTOR_FAIL, "no place for Mayfly's state (%s)",
				home ? home : "no MAYFLY_HOME and no HOME"),
			"set MAYFLY_HOME to a directory that you can write");
		return;
	}
	room = (uint64_t)s.f_bavail * s.f_frsize;
	c = doctor_add(d, "disk", room < 5 * GIB ? DOCTOR_WARN : DOCTOR_OK, "%s free for %s",
		str_format_bytes(room, text), home);
	if (c->status == DOCTOR_WARN)
		doctor_set_remedy(c,
			"templates need some GB: free space, or set MAYFLY_HOME to a larger disk");
}

static void check_memory(struct doctor *d)
{
	uint64_t available = host_memory_available();
	struct doctor_check *c;
	char text[16];

	c = doctor_add(d, "memory", available < 512 * MIB ? DOCTOR_WARN : DOCTOR_OK, "%s available",
		str_format_bytes(available, text));
	if (c->status == DOCTOR_WARN)
		doctor_set_remedy(c,
			"a sandbox needs what its template says, 512 MB by default: end "
			"something else");
}

static void check_programs(struct doctor *d)
{
	struct error e = {0};
	char path[PATH_MAX];

	if (program_path("mayfly-vmm", path, sizeof(path), &e) < 0)
		add_error(d, "programs", DOCTOR_FAIL, &e);
	else if (program_path("mayfly-agent", path, sizeof(path), &e) < 0)
		add_error(d, "programs", DOCTOR_WARN, &e);
	else
		doctor_add(d, "programs", DOCTOR_OK, "mayfly-vmm and mayfly-agent are installed");
}

/* Whether a snapshot's guest was made by a version that showed it more of the CPU than it
 * should. */
static bool snapshot_is_due(int snapshots_fd, const char *name)
{
	_cleanup_free_ char *path = str_printf("%s/state", name), *data = NULL;
	struct snapshot_reader r;
	size_t n;

	return path && file_read(snapshots_fd, path, SNAPSHOT_STATE_MAX, &data, &n) == 0 &&
	       snapshot_reader_open(&r, data, n, NULL) == 0 &&
	       snapshot_find(&r, SNAPSHOT_CPU, 0).bad;
}

static bool template_is_due(int templates_fd, const char *name)
{
	_cleanup_free_ char *path = str_printf("%s/snapshots", name);
	_cleanup_close_ int fd =
		path ? openat(templates_fd, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	char **names = NULL;
	bool due = false;

	if (fd >= 0 && workdir_list(fd, &names) == 0 && names)
		for (char **n = names; *n && !due; n++)
			due = snapshot_is_due(fd, *n);
	workdir_list_free(names);
	return due;
}

static void check_due_templates(struct doctor *d, int templates_fd, char *const *names)
{
	struct buf list = BUF_INIT(DOCTOR_TEXT_MAX / 2);

	for (; names && *names; names++)
		if (template_is_due(templates_fd, *names))
			/* a list cut short is still a list */
			(void)buf_printf(&list, "%s%s", buf_len(&list) ? ", " : "", *names);
	if (buf_len(&list))
		doctor_set_remedy(doctor_add(d, "rebuild", DOCTOR_WARN,
					  "made by an earlier version, whose guests are slower "
					  "and run on fewer hosts: %.*s",
					  (int)buf_len(&list), (const char *)buf_head(&list)),
			"mayfly template build NAME --force");
	buf_done(&list);
}

static void check_templates(struct doctor *d)
{
	_cleanup_free_ char *home = home_default_path();
	_cleanup_free_ char *path =
		home ? str_printf("%s/%s", home, home_area_name(HOME_TEMPLATES)) : NULL;
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	struct buf list = BUF_INIT(DOCTOR_TEXT_MAX - 64);
	char **names = NULL;

	if (fd >= 0 && workdir_list(fd, &names) == 0 && names)
		for (char **n = names; *n; n++)
			/* a list cut short is still a list */
			(void)buf_printf(&list, "%s%s", n == names ? "" : ", ", *n);
	if (buf_len(&list) > 0)
		doctor_add(d, "templates", DOCTOR_OK, "%.*s", (int)buf_len(&list),
			(const char *)buf_head(&list));
	else
		doctor_set_remedy(doctor_add(d, "templates", DOCTOR_WARN, "none is built yet"),
			"mayfly template build base");
	check_due_templates(d, fd, names);
	buf_done(&list);
	workdir_list_free(names);
}

/* Directories that a daemon moved aside because its database does not know them (fleet/aside.h). */
static void check_aside(struct doctor *d)
{
	_cleanup_free_ char *home = home_default_path();
	_cleanup_free_ char *path =
		home ? str_printf("%s/%s", home, home_area_name(HOME_ASIDE)) : NULL;
	_cleanup_close_ int fd = path ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	char **names = NULL;
	unsigned n = 0;

	if (fd >= 0 && workdir_list(fd, &names) == 0)
		while (names[n])
			n++;
	workdir_list_free(names);
	if (n)
		doctor_set_remedy(
			doctor_add(d, "database", DOCTOR_WARN,
				"does not know %u paused sandboxes or snapshots, kept in %s", n,
				path),
			"put the newer database back, or remove them");
}

/* Running sandboxes that a daemon's database does not know (backend.h). */
static void check_unknown(struct doctor *d)
{
	_cleanup_free_ char *home = home_default_path();
	_cleanup_free_ char *database = home ? str_printf("%s/mayfly.db", home) : NULL;
	_cleanup_(buf_done) struct buf ids = BUF_INIT(DOCTOR_TEXT_MAX / 2);
	_cleanup_(sandbox_dirs_close) struct sandbox_dirs dirs = SANDBOX_DIRS_INIT;
	struct sandbox_record *records = NULL;
	size_t count = 0;

	/* where no daemon ever was, the directory would be made */
	if (!database || access(database, F_OK) < 0 || sandbox_dirs_open(home, &dirs, NULL) < 0 ||
		sandbox_list(&dirs, &records, &count, NULL) < 0)
		return;
	for (size_t n = 0; n < count; n++) {
		_cleanup_close_ int fd = sandbox_open_dir(&dirs, records[n].id, NULL);

		if (fd >= 0 && file_exists(fd, BACKEND_UNKNOWN)) /* what does not fit is cut off */
			(void)buf_printf(&ids, "%s%s", buf_len(&ids) ? " " : "", records[n].id);
	}
	sandbox_list_free(records, count);
	if (buf_len(&ids))
		doctor_set_remedy(doctor_add(d, "database", DOCTOR_WARN,
					  "does not know sandboxes that run: %.*s",
					  (int)buf_len(&ids), (const char *)buf_head(&ids)),
			"put the newer database back, or end them: mayfly kill ID");
}

void doctor_run(struct doctor *d)
{
	static void (*const checks[])(struct doctor *) = {check_kvm, check_hypervisor,
		doctor_check_host, doctor_check_jail, check_cgroups, check_memory, check_disk,
		check_programs, doctor_check_libraries, check_packages, check_subordinate_ids,
		check_templates, check_aside, check_unknown};

	_Static_assert(ARRAY_SIZE(checks) + 10 < DOCTOR_CHECKS_MAX,
		"room for all: the host adds five, the jail four, two others two");
	d->count = 0;
	for (size_t i = 0; i < ARRAY_SIZE(checks); i++)
		checks[i](d);
}

enum doctor_status doctor_worst(const struct doctor *d)
{
	enum doctor_status worst = DOCTOR_OK;

	for (unsigned i = 0; i < d->count; i++)
		if (d->checks[i].status > worst)
			worst = d->checks[i].status;
	return worst;
}
