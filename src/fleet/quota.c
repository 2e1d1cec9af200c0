#include "fleet/quota.h"

#include <errno.h>
#include <sched.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "base/str.h"
#include "sandbox/host.h"

enum { PAGE_TABLES = 256 }; /* 1/512, twice */

static uint64_t or_default(uint64_t v, uint64_t otherwise)
{
	return v ? v : otherwise;
}

/* The CPUs that this process, and so its sandboxes, may use. */
static uint64_t usable_cpus(void)
{
	cpu_set_t set;
	long online;

	if (sched_getaffinity(0, sizeof set, &set) == 0)
		return (uint64_t)CPU_COUNT(&set);
	online = sysconf(_SC_NPROCESSORS_ONLN); /* more CPUs than a cpu_set_t holds */
	return online > 0 ? (uint64_t)online : 1;
}

void quota_init(struct quota *q, const struct quota_options *o)
{
	uint64_t total = host_memory_total();

	*q = (struct quota){
		.memory_max_bytes = or_default(o->memory_bytes, total / 100 * QUOTA_MEMORY_PERCENT),
		.cpus_max = or_default(o->cpu_overcommit, QUOTA_CPU_OVERCOMMIT) * usable_cpus(),
		.disk_overcommit = or_default(o->disk_overcommit, QUOTA_DISK_OVERCOMMIT),
	};
}

static uint64_t memory_of(const struct sandbox_sizes *s)
{
	return s->memory_bytes + s->memory_bytes / PAGE_TABLES + QUOTA_VM_BYTES;
}

/* What a host has too little of, and the option that allows more; no name: of nothing. */
struct lack {
	const char *what, *option;
};

static int find_disk_lack(const struct quota *q, const struct sandbox_dirs *dirs, uint64_t bytes,
	struct lack *lack, struct error *e)
{
	struct statvfs v;
	uint64_t size;

	if (fstatvfs(dirs->fd, &v) < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "%s", dirs->path);
	if (__builtin_mul_overflow((uint64_t)v.f_blocks * v.f_frsize, q->disk_overcommit, &size))
		size = UINT64_MAX;
	if (q->disk_bytes + bytes > size)
		*lack = (struct lack){"disk", "disk-overcommit"};
	return 0;
}

/* sizes have maxima and the count is small, so no product overflows */
static int find_lack(const struct quota *q, const struct sandbox_dirs *dirs,
	const struct sandbox_sizes *s, unsigned count, struct lack *lack, struct error *e)
{
	*lack = (struct lack){0};
	if (q->memory_bytes + count * memory_of(s) > q->memory_max_bytes)
		*lack = (struct lack){"memory", "memory-limit"};
	else if (q->cpus + (uint64_t)count * s->cpus > q->cpus_max)
		*lack = (struct lack){"CPU time", "cpu-overcommit"};
	else
		return find_disk_lack(q, dirs, count * s->disk_bytes, lack, e);
	return 0;
}

/* The errors do not tell the size of the host: the caller need not know. */
int quota_reserve(struct quota *q, const struct sandbox_dirs *dirs, const struct sandbox_sizes *s,
	unsigned count, struct error *e)
{
	struct lack lack;
	int r = find_lack(q, dirs, s, count, &lack, e);

	if (r == 0 && lack.what)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"this host is full: its %s is promised to other sandboxes. Try again when "
			"some have ended, or let the operator raise mayfly serve --%s",
			lack.what, lack.option);
	if (r == 0) /* several share most of their disks at first */
		r = host_check_memory(memory_of(s), e);
	for (unsigned n = 0; r == 0 && n < count; n++)
		quota_take(q, s);
	return r;
}

int quota_check_ever(const struct quota *q, const struct sandbox_dirs *dirs,
	const struct sandbox_sizes *s, struct error *e)
{
	struct quota empty = *q;
	struct lack lack;
	int r;

	empty.memory_bytes = empty.cpus = empty.disk_bytes = 0;
	r = find_lack(&empty, dirs, s, 1, &lack, e);
	if (r == 0 && lack.what)
		return error_set(e, ERROR_NO_SPACE, ENOSPC,
			"this host has too little %s for it, also when nothing else runs: ask for "
			"less, or let the operator raise mayfly serve --%s",
			lack.what, lack.option);
	return r;
}

void quota_take(struct quota *q, const struct sandbox_sizes *s)
{
	q->memory_bytes += memory_of(s);
	q->cpus += s->cpus;
	q->disk_bytes += s->disk_bytes;
}

void quota_release(struct quota *q, const struct sandbox_sizes *s)
{
	q->memory_bytes -= memory_of(s);
	q->cpus -= s->cpus;
	q->disk_bytes -= s->disk_bytes;
}
