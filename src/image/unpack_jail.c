#include "image/unpack_jail.h"

#include <errno.h>
#include <linux/filter.h>
#include <signal.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "base/cleanup.h"
#include "image/unpack_lists.h"
#include "jail/filter.h"
#include "jail/landlock.h"

#define MEMORY_MAX (UINT64_C(2) << 30)

enum { CPU_SECONDS_MAX = 3600, FILES_MAX = 8 };

/* The limit of memory is a third more than a kernel and its unpacked image need. RLIMIT_FSIZE does
 * not apply to the pipe that the process writes to. */
static int limit_resources(void)
{
	static const struct {
		int resource;
		rlim_t most;
	} limits[] = {
		{RLIMIT_AS, MEMORY_MAX},
		{RLIMIT_CPU, CPU_SECONDS_MAX},
		{RLIMIT_FSIZE, 0},
		{RLIMIT_NOFILE, FILES_MAX},
		{RLIMIT_NPROC, 0},
		{RLIMIT_CORE, 0},
	};

	for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
		struct rlimit l = {limits[i].most, limits[i].most};

		if (setrlimit((__rlimit_resource_t)limits[i].resource, &l) < 0)
			return -errno;
	}
	return 0;
}

/* The C library's own calls stand in jail/filter.c.
 *
 * #calls unpack: read pread64 write lseek newfstatat brk
 * #calls unpack (later C libraries, in place of newfstatat): fstat
 * #calls unpack (it looks for locales and character sets, of which there are none): openat=ENOENT
 * #calls unpack (when the allocator grows, and where its random numbers come from):
 *	getrandom
 */
static const struct filter list = {
	.code = glibc_unpack_filter, .count = ARRAY_SIZE(glibc_unpack_filter)};

int unpack_confine(struct error *e)
{
	int r = prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ? -errno : limit_resources();

	if (r == 0)
		r = landlock_forbid_all(LANDLOCK_NO_PORT);
	if (r < 0)
		return error_set_errno(e, ERROR_HOST, -r, "cannot give up its rights");
	filter_set_mode(FILTER_KILL);
	return filter_install(&list, e);
}
