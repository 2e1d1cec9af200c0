#include "calls.h"

#include <fcntl.h>
#include <linux/kvm.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include "base/clock.h"

enum { ROWS_MAX = 64 };

static struct calls_row rows[ROWS_MAX];
static __thread bool enabled; /* of the thread that restores, not of vCPUs */

void calls_enable(bool on)
{
	enabled = on;
}

void calls_clear(void)
{
	memset(rows, 0, sizeof(rows));
}

static int by_time(const void *a, const void *b)
{
	const struct calls_row *x = a, *y = b;

	return x->ns > y->ns ? -1 : x->ns < y->ns;
}

unsigned calls_rows(const struct calls_row **ret)
{
	unsigned n = 0;

	while (n < ROWS_MAX && rows[n].name)
		n++;
	qsort(rows, n, sizeof(rows[0]), by_time);
	*ret = rows;
	return n;
}

static void count(const char *name, uint64_t begin)
{
	uint64_t ns = clock_monotonic_ns() - begin;

	for (unsigned i = 0; i < ROWS_MAX; i++) {
		if (rows[i].name && strcmp(rows[i].name, name) != 0)
			continue;
		rows[i].name = name;
		rows[i].count++;
		rows[i].ns += ns;
		if (ns > rows[i].max_ns)
			rows[i].max_ns = ns;
		return;
	}
}

static const char *ioctl_name(unsigned long request)
{
	static const struct {
		unsigned long request;
		const char *name;
	} names[] = {
#define NAME(n) {n, #n}
		NAME(KVM_GET_API_VERSION),
		NAME(KVM_CHECK_EXTENSION),
		NAME(KVM_CREATE_VM),
		NAME(KVM_SET_USER_MEMORY_REGION),
		NAME(KVM_ENABLE_CAP),
		NAME(KVM_CREATE_VCPU),
		NAME(KVM_GET_VCPU_MMAP_SIZE),
		NAME(KVM_SET_CPUID2),
		NAME(KVM_SET_SREGS),
		NAME(KVM_SET_REGS),
		NAME(KVM_SET_XCRS),
		NAME(KVM_SET_XSAVE),
		NAME(KVM_SET_MSRS),
		NAME(KVM_SET_LAPIC),
		NAME(KVM_SET_DEBUGREGS),
		NAME(KVM_SET_VCPU_EVENTS),
		NAME(KVM_SET_MP_STATE),
		NAME(KVM_SET_CLOCK),
		NAME(KVM_GET_TSC_KHZ),
		NAME(KVM_SET_TSC_KHZ),
		NAME(KVM_GET_SUPPORTED_CPUID),
		NAME(KVM_SIGNAL_MSI),
#undef NAME
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].request == request)
			return names[i].name;
	return "other ioctl";
}

/* One wrapper: __wrap_f calls __real_f, timed. */
#define WRAP(type, f, name, parameters, arguments)                                                 \
	type __real_##f parameters;                                                                \
	type __wrap_##f parameters;                                                                \
	type __wrap_##f parameters                                                                 \
	{                                                                                          \
		uint64_t begin;                                                                    \
		type r;                                                                            \
                                                                                                   \
		if (!enabled)                                                                      \
			return __real_##f arguments;                                               \
		begin = clock_monotonic_ns();                                                      \
		r = __real_##f arguments;                                                          \
		count(name, begin);                                                                \
		return r;                                                                          \
	}

WRAP(int, ioctl, ioctl_name(request), (int fd, unsigned long request, void *arg),
	(fd, request, arg))
WRAP(int, open64, "open", (const char *path, int flags, mode_t mode), (path, flags, mode))
WRAP(int, openat64, "openat", (int dirfd, const char *path, int flags, mode_t mode),
	(dirfd, path, flags, mode))
WRAP(void *, mmap64, "mmap", (void *at, size_t n, int prot, int flags, int fd, off_t offset),
	(at, n, prot, flags, fd, offset))
WRAP(int, munmap, "munmap", (void *at, size_t n), (at, n))
WRAP(int, close, "close", (int fd), (fd))
WRAP(int, fstat64, "fstat", (int fd, struct stat *st), (fd, st))
WRAP(ssize_t, read, "read", (int fd, void *data, size_t n), (fd, data, n))
WRAP(ssize_t, pread64, "pread", (int fd, void *data, size_t n, off_t offset), (fd, data, n, offset))
WRAP(int, pthread_create, "pthread_create",
	(pthread_t * t, const pthread_attr_t *attr, void *(*f)(void *), void *arg),
	(t, attr, f, arg))
WRAP(int, pthread_join, "pthread_join", (pthread_t t, void **ret), (t, ret))
WRAP(int, eventfd, "eventfd", (unsigned n, int flags), (n, flags))
WRAP(int, epoll_create1, "epoll_create1", (int flags), (flags))
WRAP(int, timerfd_create, "timerfd_create", (int clock, int flags), (clock, flags))
