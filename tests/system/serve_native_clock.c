/* The wall clock of serve-native, for tests that set it: ahead of this machine's by as many
 * nanoseconds as the file MAYFLY_NATIVE_CLOCK holds (8 bytes, signed). Linked with
 * --wrap=clock_gettime. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S INT64_C(1000000000)

int __real_clock_gettime(clockid_t id, struct timespec *ret);
int __wrap_clock_gettime(clockid_t id, struct timespec *ret);

static const int64_t *ahead;

__attribute__((constructor)) static void find_clock(void)
{
	const char *path = getenv("MAYFLY_NATIVE_CLOCK");
	int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
	void *at = MAP_FAILED;

	if (fd >= 0) {
		at = mmap(NULL, sizeof(*ahead), PROT_READ, MAP_SHARED, fd, 0);
		(void)close(fd); /* only read */
	}
	if (at != MAP_FAILED)
		ahead = at;
	else if (path)
		abort();
}

int __wrap_clock_gettime(clockid_t id, struct timespec *ret)
{
	int r = __real_clock_gettime(id, ret);
	int64_t by, ns;

	if (r < 0 || id != CLOCK_REALTIME || !ahead)
		return r;
	by = __atomic_load_n(ahead, __ATOMIC_RELAXED);
	ns = ret->tv_nsec + by % NS_PER_S;
	ret->tv_sec += by / NS_PER_S + (ns >= NS_PER_S) - (ns < 0);
	ret->tv_nsec = ns >= NS_PER_S ? ns - NS_PER_S : ns < 0 ? ns + NS_PER_S : ns;
	return r;
}
