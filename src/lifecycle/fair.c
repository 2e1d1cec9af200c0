#include "lifecycle/fair.h"

#include <assert.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "sandbox/cgroup.h"
#include "sandbox/sandbox_dir.h"

enum {
	IDLE_PART = 100, /* a microVM that used less than 1/100 of the time is not measured by
			  * thread */
	ALWAYS_PERCENT = 90,
	SELDOM_PERCENT = 50,
	THREADS_MAX = 64,      /* of one microVM that get a priority */
	RLIMIT_NICE_ZERO = 20, /* allows nice 0 */
	OLD_NICE = 15,
};

static_assert(SANDBOX_CPUS_MAX + CGROUP_THREADS <= THREADS_MAX, "a microVM has no more threads");

/* Calls fn for each thread until it returns non-zero. */
static void each_thread(pid_t pid, int (*fn)(int tasks_fd, const char *tid, void *arg), void *arg)
{
	char path[32];
	struct dirent *d;
	unsigned n = 0;
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid); /* fits */
	tasks = opendir(path);
	if (!tasks)
		return;
	while ((d = readdir(tasks)) && n < THREADS_MAX)
		if (d->d_name[0] != '.' && (n++, fn(dirfd(tasks), d->d_name, arg)) != 0)
			break;
	(void)closedir(tasks); /* only read */
}

/* Reads the beginning of a file of the thread; "" if the thread has ended. */
static void read_task(int tasks_fd, const char *tid, const char *name, char *text, size_t size)
{
	char path[32];
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%.16s/%s", tid, name); /* fits */
	fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, size - 1);
	text[n > 0 ? n : 0] = '\0';
}

/* Notes how long a thread has run and waited for a CPU. The kernel counts a wait only when it has
 * ended, so this also notes whether the thread waits or runs now. */
static int note_wanted(int tasks_fd, const char *tid, void *arg)
{
	struct instance_wanted *w = arg;
	unsigned long long ran, waited;
	const char *state;
	char text[64];

	read_task(tasks_fd, tid, "schedstat", text, sizeof(text));
	if (sscanf(text, "%llu %llu", &ran, &waited) == 2)
		w->ns[w->count++] = ran + waited;
	read_task(tasks_fd, tid, "stat", text, sizeof(text));
	state = strrchr(text, ')');
	w->now |= state && str_starts_with(state, ") R");
	return w->count == ARRAY_SIZE(w->ns);
}

/* An older Mayfly used a nice value instead of SCHED_IDLE; this takes that back, too. */
static int set_priority(int tasks_fd, const char *tid, void *arg)
{
	const struct sched_param none = {.sched_priority = 0};
	bool lowered = *(const bool *)arg;
	pid_t thread = (pid_t)strtoul(tid, NULL, 10);

	/* a thread that has ended needs none */
	(void)sched_setscheduler(thread, lowered ? SCHED_IDLE : SCHED_OTHER, &none);
	if (!lowered && getpriority(PRIO_PROCESS, (id_t)thread) == OLD_NICE)
		(void)setpriority(PRIO_PROCESS, (id_t)thread, 0);
	return 0;
}

/* Sets the group's priority, too: between groups, the kernel looks only at that. */
static void set_group(const struct instance *i, bool lowered)
{
	_cleanup_close_ int fd = cgroup_open(instance_dirfd(i), i->sandbox.id);

	if (fd >= 0)
		(void)cgroup_set_idle(fd, lowered, i->sandbox.cpus); /* older kernels cannot */
}

/* The process's own limit decides whether its normal priority can be restored. */
static bool may_rise(pid_t pid)
{
	struct rlimit l;

	return geteuid() == 0 ||
	       (prlimit(pid, RLIMIT_NICE, NULL, &l) == 0 && l.rlim_cur >= RLIMIT_NICE_ZERO);
}

static void set_lowered(struct instance *i, bool lowered)
{
	if (process_start_ticks(i->sandbox.pid) != i->vmm_start || !may_rise(i->sandbox.pid))
		return;
	each_thread(i->sandbox.pid, set_priority, &lowered);
	if (i->network_pid > 0)
		each_thread(i->network_pid, set_priority, &lowered);
	set_group(i, lowered);
	i->fair.lowered = lowered;
}

/* An earlier daemon may have lowered it. When this daemon renewed the limits of its group, the
 * group's cpu.idle was lost. */
static void begin(struct instance *i)
{
	pid_t pid = i->sandbox.pid;

	i->fair.lowered = sched_getscheduler(pid) == SCHED_IDLE ||
			  getpriority(PRIO_PROCESS, (id_t)pid) == OLD_NICE;
	if (i->fair.lowered)
		set_group(i, true);
}

/* How much of the time, in percent, the thread wanted a CPU that wanted it most. Compares threads
 * by their order in /proc. If a thread has ended, one result may be wrong; the next is right
 * again. */
static unsigned percent(
	const struct instance_wanted *before, const struct instance_wanted *now, uint64_t over_ns)
{
	uint64_t most = 0;

	for (unsigned n = 0; n < before->count && n < now->count; n++)
		if (now->ns[n] > before->ns[n] && now->ns[n] - before->ns[n] > most)
			most = now->ns[n] - before->ns[n];
	return (unsigned)(most * 100 / over_ns);
}

static void judge(struct instance *i, unsigned wanted, bool now)
{
	if (!i->fair.lowered && wanted >= ALWAYS_PERCENT)
		set_lowered(i, true);
	else if (i->fair.lowered && wanted < SELDOM_PERCENT && !now)
		set_lowered(i, false);
}

/* The worker is last, so that its start and its end change no other thread's place. */
static void note_all(const struct instance *i, struct instance_wanted *w)
{
	each_thread(i->sandbox.pid, note_wanted, w);
	if (i->network_pid > 0)
		each_thread(i->network_pid, note_wanted, w);
}

static int look(struct instance *i, void *arg)
{
	struct instance_fair *last = &i->fair;
	struct instance_wanted wanted = {.count = 0};
	uint64_t now = clock_monotonic_ns(), cpu = process_cpu_ns(i->sandbox.pid);
	uint64_t over = now - last->at_ns;

	if (i->network_pid > 0)
		cpu += process_cpu_ns(i->network_pid);
	if (!last->at_ns)
		begin(i);
	else if (last->lowered || cpu - last->cpu_ns > over / IDLE_PART)
		note_all(i, &wanted);
	if (wanted.count && last->wanted.count && over && !i->job)
		judge(i, percent(&last->wanted, &wanted, over), wanted.now);
	last->at_ns = now;
	last->cpu_ns = cpu;
	last->wanted = wanted;
	return 0;
}

void fair_look(struct fleet *f)
{
	(void)instance_each(f, look, NULL); /* look returns 0 */
}

void fair_let_go(struct instance *i)
{
	if (i->fair.lowered)
		set_lowered(i, false);
	i->fair.wanted.count = 0; /* the next look sees too little */
}
