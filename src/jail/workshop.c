#include "jail/workshop.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/file.h"
#include "base/str.h"
#include "jail/confine.h"
#include "jail/deny.h"
#include "jail/hand.h"
#include "jail/ids.h"
#include "jail/landlock.h"
#include "jail/space.h"
#include "jail/subordinate.h"
#include "jail/workshop_root.h"
#include "jail/workshop_watch.h"

/* Host ids for workshops with WORKSHOP_ROOT, above those of space.h. Each has a range of its own
 * while it runs (ids_claim), from that of its pid modulo ROOT_RANGES on. */
enum { FIRST_ROOT_ID = 0x71000000, ROOT_RANGES = 3840, BUILDER_ID = 1000 };

/* The capabilities, in their user namespace, that mmdebstrap, apt, dpkg and packages' scripts
 * need. */
static const uint64_t root_rights = UINT64_C(1) << CAP_CHOWN | UINT64_C(1) << CAP_DAC_OVERRIDE |
				    UINT64_C(1) << CAP_DAC_READ_SEARCH | UINT64_C(1) << CAP_FOWNER |
				    UINT64_C(1) << CAP_FSETID | UINT64_C(1) << CAP_KILL |
				    UINT64_C(1) << CAP_SETGID | UINT64_C(1) << CAP_SETUID |
				    UINT64_C(1) << CAP_SETPCAP | UINT64_C(1) << CAP_SETFCAP |
				    UINT64_C(1) << CAP_SYS_CHROOT | UINT64_C(1) << CAP_SYS_ADMIN;

struct plan {
	const struct workshop *w;
	struct workshop_ids ids;
	char directory[PATH_MAX];
	bool subordinate; /* root of ids of its user's, in a namespace of mayfly-workshop */
	int claim_fd;	  /* of the range of ids; -1: none, or no range was free */
	int alive_fd;	  /* its other end closes when mayfly-workshop ends */
};

static int fail(const char *what, int r)
{
	(void)fprintf(stderr, "no jail: %s (%s): see mayfly doctor; --jail=off does without\n",
		what, strerror(-r));
	return WORKSHOP_FAILED;
}

static int fail_to_map(int r)
{
	(void)fprintf(stderr,
		"no jail: newuidmap and newgidmap do not map your subordinate ids (%s): this "
		"process must be one that can gain rights (not with no_new_privs) and has the "
		"user's own group, or build as root\n",
		strerror(-r));
	return WORKSHOP_FAILED;
}

/* --- who it is --- */

static bool has_all_rights(void)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

	return geteuid() == 0 && syscall(SYS_capget, &head, sets) == 0 &&
	       sets[0].effective & (1U << CAP_SYS_ADMIN) && sets[0].effective & (1U << CAP_SETUID);
}

static void choose_ids(struct plan *p)
{
	unsigned pid = (unsigned)getpid(), range = pid % ROOT_RANGES;
	struct workshop_ids *ids = &p->ids;

	if (!has_all_rights()) {
		*ids = (struct workshop_ids){geteuid(), getegid(), geteuid(), false};
	} else if (p->w->user == WORKSHOP_ROOT && p->subordinate) {
		*ids = (struct workshop_ids){1, 1, 0, true}; /* where subordinate_enter put it */
	} else if (p->w->user == WORKSHOP_ROOT) {
		p->claim_fd = ids_claim(pid % ROOT_RANGES, ROOT_RANGES, &range);
		ids->uid = FIRST_ROOT_ID + range * WORKSHOP_ROOT_IDS;
		*ids = (struct workshop_ids){ids->uid, ids->uid, 0, true};
	} else {
		ids->uid = SPACE_FIRST_ID + pid;
		*ids = (struct workshop_ids){ids->uid, ids->uid, BUILDER_ID, true};
	}
	if (p->w->user == WORKSHOP_READER)
		ids->inside = ids->uid; /* the program sees the owners of all files */
}

static int give_all(const struct plan *p, uid_t uid, gid_t gid)
{
	const struct workshop_paths *paths = &p->w->write;
	int r = 0;

	for (unsigned i = 0; p->ids.mapped && i < paths->count && r == 0; i++)
		r = hand_over(paths->items[i], uid, gid);
	return r == -ENOENT ? 0 : r;
}

static int map_ids(const struct plan *p, pid_t pid)
{
	char map[64];
	int r;

	if (!p->ids.mapped)
		return ids_map_one(pid, p->ids.uid, p->ids.gid);
	(void)snprintf(map, sizeof(map), "%u %u %u\n", p->ids.inside, p->ids.uid,
		p->w->user == WORKSHOP_ROOT ? WORKSHOP_ROOT_IDS : 1); /* fits */
	if (p->w->user == WORKSHOP_READER)
		(void)snprintf(map, sizeof(map), "0 0 %u\n", UINT32_MAX); /* fits */
	r = ids_write(pid, "uid_map", map);
	return r < 0 ? r : ids_write(pid, "gid_map", map);
}

/* --- the program --- */

static int give_up_rights(enum workshop_user user)
{
	int r;

	switch (user) {
	case WORKSHOP_ROOT:
		return confine_to(root_rights);
	case WORKSHOP_READER:
		return confine_to_one(CAP_DAC_READ_SEARCH);
	default:
		r = confine_gains();
		return r < 0 ? r : confine_capabilities();
	}
}

static int become_builder(const struct plan *p)
{
	unsigned id = p->ids.inside;

	if (!p->ids.mapped)
		return 0;
	if (p->w->user == WORKSHOP_READER &&
		prctl(PR_SET_SECUREBITS, SECBIT_NO_SETUID_FIXUP, 0, 0, 0) < 0)
		return -errno; /* its rights are kept until confine_to_one */
	return confine_identity(id);
}

/* /dev is read-only, but its devices can be written to. */
static int allow_paths(const struct workshop *w)
{
	static const char *const own[] = {"/tmp", "/dev"};
	const char *paths[WORKSHOP_PATHS_MAX + ARRAY_SIZE(own) + 1];
	size_t n = 0;

	for (size_t i = 0; i < ARRAY_SIZE(own); i++)
		paths[n++] = own[i];
	if (w->home)
		paths[n++] = w->home;
	for (unsigned i = 0; i < w->write.count; i++)
		paths[n++] = w->write.items[i];
	return landlock_allow(paths, n, w->user == WORKSHOP_ROOT);
}

static int confine(const struct plan *p)
{
	bool root = p->w->user == WORKSHOP_ROOT;
	int r;

	/* as in space.c: if this fails, only the filter refuses further user namespaces */
	(void)file_write_text(AT_FDCWD, "/proc/sys/user/max_user_namespaces", "0");
	r = become_builder(p);
	if (r == 0 && root &&
		mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, NULL) < 0)
		r = -errno;
	if (r == 0)
		r = confine_keys();
	if (r == 0)
		r = confine_builder();
	if (r == 0)
		r = give_up_rights(p->w->user);
	if (r == 0)
		r = allow_paths(p->w);
	return r < 0 ? r
		     : deny_install(
			       &(struct deny_options){.may_mount = root, .network = p->w->network});
}

static _Noreturn void be_program(const struct plan *p, int go_fd)
{
	char *const *argv = p->w->argv;
	char go;
	int r = fd_read_full(go_fd, &go, 1);

	if (r < 0)
		_exit(WORKSHOP_FAILED); /* what made it says why */
	confine_terminal();
	r = confine(p);
	if (r < 0)
		_exit(fail("its rights cannot be taken away", r));
	if (chdir(p->directory) < 0)
		(void)chdir("/"); /* not a place of this workshop */
	(void)execv(argv[0], argv);
	(void)fprintf(stderr,
		"no jail for %s (%s): install it below /usr or /opt, or use --jail=off\n", argv[0],
		strerror(errno));
	_exit(WORKSHOP_FAILED);
}

/* --- the first process of its pid namespace --- */

/* When it ends, so do all others. */
static int await_program(pid_t program)
{
	int status;
	pid_t pid;

	for (;;) {
		pid = wait(&status);
		if (pid == program)
			return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
		if (pid < 0 && errno != EINTR)
			return WORKSHOP_FAILED;
	}
}

static int start_program(const struct plan *p)
{
	unsigned long flags = CLONE_NEWUSER | SIGCHLD;
	int go[2], r;
	pid_t pid;

	if (p->w->user == WORKSHOP_ROOT) /* it may only mount in namespaces of its own */
		flags |= CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	if (pipe2(go, O_CLOEXEC) < 0)
		return fail("pipe", -errno);
	pid = (pid_t)syscall(SYS_clone, flags, 0, 0, 0, 0);
	if (pid < 0)
		return fail("this host refuses a user namespace", -errno);
	if (pid == 0) {
		(void)close(go[1]); /* its end ends this process, too */
		be_program(p, go[0]);
	}
	(void)close(go[0]); /* the program's */
	r = map_ids(p, pid);
	if (r == 0 && !p->ids.mapped && p->ids.uid == 0)
		r = workshop_root_close_proc();	  /* root of the host could write to switches in
						   * /proc */
	(void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0); /* the program cannot look into it */
	if (r == 0)
		r = fd_write_full(go[1], "", 1);
	(void)close(go[1]); /* the byte is written */
	return r < 0 ? fail("the ids of a user namespace", r) : await_program(pid);
}

static bool is_abandoned(int alive_fd)
{
	struct pollfd p = {.fd = alive_fd, .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

static _Noreturn void be_first(const struct plan *p)
{
	char where[WORKSHOP_WHERE_MAX], what[WORKSHOP_WHERE_MAX + 64];
	int r;

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (is_abandoned(p->alive_fd))
		_exit(WORKSHOP_FAILED); /* before prctl */
	if (unshare(CLONE_NEWNS) < 0)
		_exit(fail("this host refuses a mount namespace", -errno));
	r = workshop_root_enter(p->w, &p->ids, where);
	(void)snprintf(what, sizeof(what), "%s cannot be put into its root", where); /* fits */
	_exit(r < 0 ? fail(what, r) : start_program(p));
}

/* --- outside --- */

static int leave(const struct plan *p)
{
	static const int flags = CLONE_NEWPID | CLONE_NEWIPC | CLONE_NEWUTS;
	int r = 0;

	if (!p->ids.mapped) {
		if (unshare(CLONE_NEWUSER) < 0)
			return -errno;
		r = ids_map_one(0, p->ids.uid, p->ids.gid);
	}
	if (r == 0 && unshare(flags | (p->w->network ? 0 : CLONE_NEWNET)) < 0)
		r = -errno;
	return r;
}

static int tell_excess(const struct workshop *w, int r)
{
	char most[16];

	if (r == -EFBIG)
		(void)fprintf(stderr, "it was ended: it writes more than a build may (%s)\n",
			str_format_bytes(workshop_watch_limit(w), most));
	else
		(void)fprintf(stderr, "it was ended: %s\n",
			r == -E2BIG ? "it makes more files, or deeper directories, than a build may"
				    : "it makes directories that cannot be read");
	return WORKSHOP_FAILED;
}

static int run_first(struct plan *p)
{
	int alive[2], status, r;
	pid_t pid;

	if (pipe2(alive, O_CLOEXEC) < 0)
		return fail("pipe", -errno);
	p->alive_fd = alive[0];
	pid = fork();
	if (pid == 0) {
		(void)close(alive[1]); /* its end tells of our end */
		be_first(p);
	}
	if (pid < 0)
		return fail("fork", -errno);
	r = workshop_watch(p->w, pid, &status);
	if (r == -EFBIG || r == -E2BIG || r == -EACCES)
		return tell_excess(p->w, r);
	if (r < 0)
		return fail("it cannot be waited for", r);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/* Root of the host has other ids for its workshops. */
static int become_root(struct plan *p)
{
	const struct workshop *w = p->w;

	p->subordinate = w->user == WORKSHOP_ROOT && w->first_uid && geteuid() != 0;
	return p->subordinate ? subordinate_enter(w->first_uid, w->first_gid, WORKSHOP_ROOT_IDS)
			      : 0;
}

int workshop_run(const struct workshop *w)
{
	struct plan p = {.w = w, .claim_fd = -1};
	int r = become_root(&p), status;

	if (r < 0)
		return fail_to_map(r);
	choose_ids(&p);
	if (w->user != WORKSHOP_NOBODY && !p.ids.mapped)
		return fail("it needs root with CAP_SYS_ADMIN and CAP_SETUID", -EPERM);
	if (!getcwd(p.directory, sizeof(p.directory)))
		(void)snprintf(p.directory, sizeof(p.directory), "/"); /* fits */
	r = give_all(&p, p.ids.uid, p.ids.gid);
	if (r == 0)
		r = leave(&p);
	status = r < 0 ? fail("this host refuses namespaces", r) : run_first(&p);
	r = give_all(&p, geteuid(), getegid());
	return r < 0 ? fail("what it wrote cannot be taken back", r) : status;
}
