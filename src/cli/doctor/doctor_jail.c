#include "cli/doctor/doctor_jail.h"

#include <errno.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "io/child.h"
#include "io/jailed.h"
#include "jail/landlock.h"

/* A user namespace comes first: in it, everybody may make the others. */
static const struct {
	const char *name;
	int flag;
} kinds[] = {
	{"user", CLONE_NEWUSER},
	{"mount", CLONE_NEWNS},
	{"pid", CLONE_NEWPID},
	{"network", CLONE_NEWNET},
	{"IPC", CLONE_NEWIPC},
	{"UTS", CLONE_NEWUTS},
};

/* A bit for each kind that cannot be made. */
static unsigned find_refused(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		unsigned refused = 0;

		for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
			refused |= (unsigned)(unshare(kinds[i].flag) < 0) << i;
		_exit((int)refused);
	}
	while (pid > 0 && waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return 1;
	return pid > 0 && WIFEXITED(status) ? (unsigned)WEXITSTATUS(status) : 1;
}

static void check_namespaces(struct doctor *d)
{
	unsigned refused = find_refused();
	struct buf list = BUF_INIT(DOCTOR_TEXT_MAX / 2);

	for (unsigned i = 0; i < ARRAY_SIZE(kinds); i++)
		if (refused & (1U << i))
			/* a list cut short is still a list */
			(void)buf_printf(&list, "%s%s", buf_len(&list) ? ", " : "", kinds[i].name);
	if (refused)
		doctor_set_remedy(doctor_add(d, "namespaces", DOCTOR_WARN,
					  "of these kinds cannot be made: %.*s",
					  (int)buf_len(&list), (const char *)buf_head(&list)),
			"sysctl -w user.max_user_namespaces=65536 (Debian before 11: "
			"kernel.unprivileged_userns_clone=1; Ubuntu: "
			"kernel.apparmor_restrict_unprivileged_userns=0)");
	else
		doctor_add(d, "namespaces", DOCTOR_OK,
			"user, mount, pid, network, IPC and UTS namespaces can be made");
	buf_done(&list);
}

static void check_jail(struct doctor *d)
{
	enum jail_kind kind;
	struct error e = {0};
	int r = jailed_prepare(&kind, &e);
	const char *weakness = jailed_weakness();

	if (r == 0 && weakness) {
		doctor_set_remedy(doctor_add(d, "jail", DOCTOR_WARN,
					  "jailed processes have the "
					  "number of root itself"),
			strchr(weakness, ':') + 2);
		return;
	}
	if (r == 0) {
		doctor_add(d, "jail", DOCTOR_OK, "the process of each sandbox is jailed, as %s",
			kind == JAIL_FULL ? "a user of its own" : "the user who starts it");
		return;
	}
	doctor_set_remedy(doctor_add(d, "jail", DOCTOR_FAIL, "%.*s", (int)strcspn(e.message, ":"),
				  e.message), /* no remedy twice */
		"see the line namespaces; --jail=off starts sandboxes without");
}

/* Some containers cover parts of /proc, so that none can be mounted. */
static void check_workshop(struct doctor *d)
{
	static const struct io_workshop nobody = {.user = "nobody"};
	const char *argv[] = {"true", NULL};
	struct child_options o = {.argv = argv, .workshop = &nobody, .timeout_ns = 10 * NS_PER_S};
	struct error e = {0};

	if (child_run(&o, NULL, &e) == 0)
		doctor_add(d, "workshops", DOCTOR_OK, "programs that build templates are jailed");
	else
		doctor_set_remedy(doctor_add(d, "workshops", DOCTOR_WARN, "%s", e.message),
			"--jail=off builds templates without; the jail of sandboxes is another");
}

static void check_landlock(struct doctor *d)
{
	int abi = landlock_abi();

	if (abi)
		doctor_add(d, "landlock", DOCTOR_OK, "version %d", abi);
	else
		doctor_set_remedy(doctor_add(d, "landlock", DOCTOR_WARN,
					  "this kernel has none: the empty root alone keeps "
					  "sandboxes' processes from files"),
			"Linux 5.13 or later, with landlock in the boot option lsm=");
}

static void check_seccomp(struct doctor *d)
{
	static const uint32_t kill = SECCOMP_RET_KILL_PROCESS;

	if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &kill) == 0)
		doctor_add(d, "seccomp", DOCTOR_OK, "the kernel filters system calls");
	else
		doctor_set_remedy(doctor_add(d, "seccomp", DOCTOR_WARN,
					  "this kernel cannot filter system calls"),
			"a kernel with CONFIG_SECCOMP_FILTER");
}

void doctor_check_jail(struct doctor *d)
{
	check_namespaces(d);
	check_jail(d);
	check_workshop(d);
	check_landlock(d);
	check_seccomp(d);
}
