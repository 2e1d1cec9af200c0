#include "cli/doctor/doctor_host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/utsname.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/str.h"

#define VULNERABILITIES "/sys/devices/system/cpu/vulnerabilities"

enum { TEXT_MAX = 1 << 20 };

/* The first line of a file, "" when there is none; malloc'ed, NULL without memory. */
static char *first_line(const char *root, const char *path)
{
	_cleanup_free_ char *full = str_printf("%s%s", root, path);
	char *text = NULL;

	if (!full || file_read(AT_FDCWD, full, TEXT_MAX, &text, NULL) < 0)
		return strdup("");
	text[strcspn(text, "\n")] = '\0';
	return text;
}

static bool line_is(const char *root, const char *path, const char *wanted)
{
	_cleanup_free_ char *s = first_line(root, path);

	return s && strcmp(s, wanted) == 0;
}

/* --- isolation --- */

static int is_file_name(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

/* The names of flaws that are open, each with a comma before it. */
static void list_open_flaws(const char *root, struct buf *out)
{
	_cleanup_free_ char *dir = str_printf("%s%s", root, VULNERABILITIES);
	struct dirent **names = NULL;
	int n = dir ? scandir(dir, &names, is_file_name, alphasort) : 0;

	for (int i = 0; i < n; i++) {
		_cleanup_free_ char *path = str_printf("/%s", names[i]->d_name);
		_cleanup_free_ char *s = path ? first_line(dir, path) : NULL;

		if (s && str_starts_with(s, "Vulnerable"))
			/* a list cut short is still a list */
			(void)buf_printf(out, "%s%s", buf_len(out) ? ", " : "", names[i]->d_name);
		free(names[i]);
	}
	free(names);
}

void doctor_check_isolation(struct doctor *d, const char *root, bool core_scheduling)
{
	bool smt = line_is(root, "/sys/devices/system/cpu/smt/active", "1");
	struct buf open = BUF_INIT(DOCTOR_TEXT_MAX / 2);

	list_open_flaws(root, &open);
	if (buf_len(&open))
		doctor_set_remedy(doctor_add(d, "isolation", DOCTOR_WARN,
					  "known flaws of this CPU are open: %.*s",
					  (int)buf_len(&open), (const char *)buf_head(&open)),
			"update kernel and microcode, and boot without mitigations=off, before "
			"tenants who do not trust each other share this host");
	else if (smt && !core_scheduling)
		doctor_set_remedy(doctor_add(d, "isolation", DOCTOR_WARN,
					  "SMT is on, and sandboxes share cores"),
			"a kernel with core scheduling (Linux 5.14, CONFIG_SCHED_CORE), or boot "
			"with nosmt");
	else
		doctor_add(d, "isolation", DOCTOR_OK, "no known flaw of this CPU is open%s",
			smt ? "; SMT is on, each sandbox has its cores to itself" : "");
	buf_done(&open);
}

/* --- clocks and memory --- */

void doctor_check_clock(struct doctor *d, const char *root)
{
	_cleanup_free_ char *s = first_line(
		root, "/sys/devices/system/clocksource/clocksource0/current_clocksource");

	if (!s || !*s)
		return;
	if (strcmp(s, "tsc") == 0 || strcmp(s, "hyperv_clocksource_tsc_page") == 0)
		doctor_add(d, "clock", DOCTOR_OK, "the host's clock source is %s", s);
	else
		doctor_set_remedy(doctor_add(d, "clock", DOCTOR_WARN,
					  "the host's clock source is %s: reading the time costs "
					  "guests an exit, and their clocks drift",
					  s),
			"a virtual machine with an invariant TSC, or boot with clocksource=tsc "
			"where the TSC is known to be stable");
}

void doctor_check_overcommit(struct doctor *d, const char *root)
{
	if (line_is(root, "/proc/sys/vm/overcommit_memory", "2"))
		doctor_set_remedy(doctor_add(d, "overcommit", DOCTOR_WARN,
					  "vm.overcommit_memory is 2: each sandbox's whole memory "
					  "counts, not what it uses"),
			"sysctl -w vm.overcommit_memory=0, or a higher vm.overcommit_ratio");
}

/* --- what a start costs --- */

static bool is_at_least(const char *release, int major, int minor)
{
	int a = 0, b = 0;

	return sscanf(release, "%d.%d", &a, &b) == 2 && (a > major || (a == major && b >= minor));
}

static bool favours_moves(const char *root)
{
	_cleanup_free_ char *path = str_printf("%s/proc/mounts", root);
	_cleanup_free_ char *text = NULL;

	return path && file_read(AT_FDCWD, path, TEXT_MAX, &text, NULL) == 0 &&
	       strstr(text, "favordynmods");
}

/* The thread splits huge pages because of a flaw of some Intel CPUs (itlb_multihit). Moving it into
 * the VM's cgroup waits for a grace period. */
void doctor_check_vm_start(struct doctor *d, const char *root, const char *release)
{
	_cleanup_free_ char *now = first_line(root, "/sys/module/kvm/parameters/nx_huge_pages");
	bool affected = !line_is(root, VULNERABILITIES "/itlb_multihit", "Not affected");
	struct doctor_check *c;

	if (!now || !*now || strcmp(now, "never") == 0 || !is_at_least(release, 6, 0) ||
		favours_moves(root))
		return;
	c = doctor_add(d, "vm start", DOCTOR_OK,
		"each microVM starts a thread of KVM's first, which can take milliseconds");
	if (!affected && is_at_least(release, 6, 5))
		doctor_set_remedy(
			c, "load kvm with nx_huge_pages=never; this CPU does not need it");
	else
		doctor_set_remedy(c, "mount -o remount,favordynmods /sys/fs/cgroup");
}

void doctor_check_split_locks(struct doctor *d, const char *root)
{
	_cleanup_free_ char *s = first_line(root, "/proc/cmdline");

	if (s && strstr(s, "split_lock_detect=fatal"))
		doctor_set_remedy(doctor_add(d, "split locks", DOCTOR_WARN,
					  "this host ends a guest for a split lock"),
			"boot with split_lock_detect=warn or ratelimit:N");
}

#ifndef PR_SCHED_CORE
enum { PR_SCHED_CORE = 62, PR_SCHED_CORE_GET = 0 };
#endif

void doctor_check_host(struct doctor *d)
{
	unsigned long long cookie;
	struct utsname u;

	doctor_check_isolation(d, "", prctl(PR_SCHED_CORE, PR_SCHED_CORE_GET, 0, 0, &cookie) == 0);
	doctor_check_clock(d, "");
	doctor_check_overcommit(d, "");
	if (uname(&u) == 0)
		doctor_check_vm_start(d, "", u.release);
	doctor_check_split_locks(d, "");
}
