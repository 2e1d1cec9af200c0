#include "jail/confine.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/keyctl.h>
#include <linux/securebits.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"

enum {
	CAPABILITIES_MAX = 64,
	FILES_MAX = 2048,	   /* 1,024 vsock connections, 80 given at start, CPUs, snapshots */
	PROCESSES_MAX = 32,	   /* threads of a VMM: 4 CPUs, a snapshot, helpers of KVM */
	BUILDER_FILES_MAX = 16384, /* npm opens many at once */
	BUILDER_PROCESSES_MAX = 16384, /* Java's threads; as a user, all that the user has */
};

/* A disk's delta of 64 GiB with its head (VMM_FILE_MAX). */
#define FILE_BYTES_MAX (UINT64_C(65) << 30)

static int drop_bounding_set(uint64_t kept)
{
	for (unsigned i = 0; i < CAPABILITIES_MAX; i++)
		if (!(kept >> i & 1) && prctl(PR_CAPBSET_READ, i, 0, 0, 0) > 0 &&
			prctl(PR_CAPBSET_DROP, i, 0, 0, 0) < 0 && errno != EPERM)
			return -errno; /* EPERM: no rights to lose, as no_new_privs is set */
	return 0;
}

/* bits: securebits (capabilities(7)) to set besides those that forbid ambient capabilities. */
static int lock_gains(unsigned long bits, uint64_t kept)
{
	bits |= SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) < 0)
		return -errno;
	/* without CAP_SETPCAP the process has no rights that these would take */
	if (prctl(PR_SET_SECUREBITS, bits, 0, 0, 0) < 0 && errno != EPERM)
		return -errno;
	return drop_bounding_set(kept);
}

int confine_gains(void)
{
	return lock_gains(SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0);
}

static int keep_capabilities(uint64_t kept)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};

	if (kept && syscall(SYS_capget, &head, sets) < 0)
		return -errno;
	for (unsigned i = 0; i < ARRAY_SIZE(sets); i++) {
		sets[i].permitted &= (uint32_t)(kept >> (32 * i));
		sets[i].effective &= sets[i].permitted;
		sets[i].inheritable = 0;
	}
	return syscall(SYS_capset, &head, sets) < 0 ? -errno : 0;
}

int confine_to(uint64_t capabilities)
{
	int r = lock_gains(0, capabilities);

	return r == 0 ? keep_capabilities(capabilities) : r;
}

/* A program without file capabilities gets only the ambient ones. */
int confine_to_one(unsigned capability)
{
	struct __user_cap_header_struct head = {.version = _LINUX_CAPABILITY_VERSION_3};
	struct __user_cap_data_struct sets[_LINUX_CAPABILITY_U32S_3] = {{0}};
	uint32_t bit = 1U << capability % 32;
	int r = drop_bounding_set(UINT64_C(1) << capability);

	sets[capability / 32] = (struct __user_cap_data_struct){bit, bit, bit};
	if (r < 0)
		return r;
	if (prctl(PR_SET_SECUREBITS, SECBIT_NOROOT | SECBIT_NOROOT_LOCKED, 0, 0, 0) < 0 ||
		syscall(SYS_capset, &head, sets) < 0 ||
		prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) < 0 ||
		prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
		return -errno;
	return 0;
}

int confine_capabilities(void)
{
	return keep_capabilities(0);
}

/* A limit that is already lower stays. */
static int limit(int resource, rlim_t most)
{
	struct rlimit l;

	if (getrlimit(resource, &l) < 0)
		return -errno;
	if (l.rlim_max > most)
		l.rlim_max = most;
	if (l.rlim_cur > l.rlim_max || resource == RLIMIT_NOFILE)
		l.rlim_cur = l.rlim_max;
	return setrlimit(resource, &l) < 0 ? -errno : 0;
}

struct limit {
	int resource;
	rlim_t most;
};

static int limit_all(const struct limit *limits, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++)
		r = limit(limits[i].resource, limits[i].most);
	return r;
}

int confine_resources(enum jail_kind kind)
{
	static const struct limit limits[] = {
		{RLIMIT_CORE, 0},		/* no guest's memory in a core file */
		{RLIMIT_FSIZE, FILE_BYTES_MAX}, /* sparse files have an end, too */
		{RLIMIT_NOFILE, FILES_MAX},
		{RLIMIT_MEMLOCK, 0}, /* nothing is locked */
		{RLIMIT_MSGQUEUE, 0},
		{RLIMIT_RTPRIO, 0},
	};

	int r = limit_all(limits, ARRAY_SIZE(limits));

	return r == 0 && kind == JAIL_FULL ? limit(RLIMIT_NPROC, PROCESSES_MAX) : r;
}

int confine_builder(void)
{
	static const struct limit limits[] = {
		{RLIMIT_CORE, 0},
		{RLIMIT_FSIZE, FILE_BYTES_MAX},
		{RLIMIT_NOFILE, BUILDER_FILES_MAX},
		{RLIMIT_NPROC, BUILDER_PROCESSES_MAX},
		{RLIMIT_MSGQUEUE, 0},
		{RLIMIT_RTPRIO, 0},
	};

	return limit_all(limits, ARRAY_SIZE(limits));
}

int confine_hide(void)
{
	if (prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) < 0)
		return -errno;
	return limit(RLIMIT_CORE, 0);
}

void confine_terminal(void)
{
	_cleanup_close_ int fd = open("/dev/tty", O_RDWR | O_NOCTTY | O_CLOEXEC);

	if (fd >= 0)			    /* else there is none */
		(void)ioctl(fd, TIOCNOTTY); /* cannot fail: it is ours */
	(void)setpgid(0, 0);		    /* fails only for a leader, which has a group */
}

int confine_keys(void)
{
	if (syscall(SYS_keyctl, KEYCTL_JOIN_SESSION_KEYRING, NULL, 0, 0, 0) < 0 && errno != ENOSYS)
		return -errno;
	return 0;
}

int confine_identity(unsigned id)
{
	if (syscall(SYS_setgroups, 0, NULL) < 0 || syscall(SYS_setresgid, id, id, id) < 0 ||
		syscall(SYS_setresuid, id, id, id) < 0)
		return -errno;
	return 0;
}
