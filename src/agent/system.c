/* SYNC, SHUTDOWN and METRICS: requests about the whole guest. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/reboot.h>
#include <sys/statvfs.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "disk.h"
#include "guest.h"
#include "helper.h"
#include "hold.h"
#include "process.h"
#include "requests.h"

/* --- SYNC --- */

static void write_knob(const char *path, const char *value)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0)
		return; /* this kernel lacks the optimisation */
	(void)!write(fd, value, strlen(value));
	(void)close(fd); /* nothing is buffered */
}

static void sync_work(int fd, const void *arg)
{
	uint32_t flags = *(const uint32_t *)arg;
	int root = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	sync();
	/* sync reports no failures; syncfs reports those since the open */
	if (root < 0 || syncfs(root) < 0) {
		helper_error(fd, AGENT_SYNC, errno, "writing to the disk");
		return;
	}
	if (flags & AGENT_SYNC_TRIM)
		(void)disk_trim(); /* what is free only takes room on the host */
	if (flags & AGENT_SYNC_DROP_CACHES)
		write_knob("/proc/sys/vm/drop_caches", "3");
	if (flags & AGENT_SYNC_COMPACT)
		write_knob("/proc/sys/vm/compact_memory", "1");
	helper_reply(fd, AGENT_OK, NULL);
}

void request_sync(struct conn *c, const struct agent_frame *f)
{
	struct agent_sync m;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_SYNC, m.flags,
			AGENT_SYNC_DROP_CACHES | AGENT_SYNC_COMPACT | AGENT_SYNC_TRIM))
		return;
	if (!guest.init)
		m.flags = 0; /* under test: leave the machine's caches alone */
	helper_run(c, AGENT_SYNC, sync_work, &m.flags);
}

/* --- SHUTDOWN --- */

static bool no_children(void)
{
	pid_t pid;

	do {
		pid = waitpid(-1, NULL, WNOHANG);
	} while (pid > 0);
	return pid < 0 && errno == ECHILD;
}

static void end_processes(uint32_t grace_ms)
{
	static const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
	uint64_t end = clock_monotonic_ns() + grace_ms * NS_PER_MS;

	if (grace_ms) {
		(void)kill(-1, SIGTERM); /* everything but us; having none is fine */
		while (!no_children() && clock_monotonic_ns() < end)
			(void)nanosleep(&pause, NULL); /* a shorter wait is fine */
	}
	(void)kill(-1, SIGKILL);
}

/* Ends the guest. It may block, as nothing else needs service. */
static void __attribute__((noreturn)) end_guest(const struct agent_shutdown *m)
{
	console("shutting down");
	end_processes(m->grace_ms);
	sync();
	(void)mount(NULL, "/", NULL, MS_REMOUNT | MS_RDONLY, NULL); /* may fail if busy: the disk is
								     * synced anyway */
	sync();
	(void)reboot(m->flags & AGENT_SHUTDOWN_POWER_OFF ? RB_POWER_OFF : RB_AUTOBOOT);
	for (;;)
		(void)pause(); /* the reset is on its way */
}

static struct agent_shutdown pending;

/* The OK was sent, or cannot be sent. */
static void shutdown_now(struct conn *c)
{
	if (guest.init)
		end_guest(&pending);
	processes_kill_all();
	loop_stop();
}

static const struct stream_ops shutdown_ops = {NULL, shutdown_now, shutdown_now};

void request_shutdown(struct conn *c, const struct agent_frame *f)
{
	if (!conn_decode(c, f, &pending) ||
		!conn_check_flags(c, AGENT_SHUTDOWN, pending.flags, AGENT_SHUTDOWN_POWER_OFF))
		return;
	hold_end();
	conn_send(c, AGENT_OK, NULL);
	conn_take_over(c, &shutdown_ops, NULL);
}

/* --- METRICS --- */

static size_t read_text(const char *path, char *out, size_t size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, out, size - 1);

	if (fd >= 0)
		(void)close(fd); /* read-only */
	out[n > 0 ? n : 0] = '\0';
	return n > 0 ? (size_t)n : 0;
}

/* First line: cpu user nice system idle iowait irq softirq steal ..., in ticks of 10 ms. */
static void read_cpu(struct agent_metrics *m)
{
	const uint64_t tick_ns = 10 * NS_PER_MS;
	char text[512], *p = text;
	uint64_t t[8];

	(void)read_text("/proc/stat", text, sizeof(text)); /* on failure report zeros */
	p += strcspn(p, " ");
	for (size_t i = 0; i < 8; i++)
		t[i] = strtoull(p, &p, 10);
	m->cpu_user_ns = (t[0] + t[1]) * tick_ns;
	m->cpu_system_ns = (t[2] + t[5] + t[6]) * tick_ns;
	m->cpu_idle_ns = t[3] * tick_ns;
	m->cpu_iowait_ns = t[4] * tick_ns;
	m->cpu_steal_ns = t[7] * tick_ns;
}

static uint64_t meminfo(const char *text, const char *key)
{
	const char *p = strstr(text, key);

	return p ? strtoull(p + strlen(key), NULL, 10) * 1024 : 0;
}

static void read_memory(struct agent_metrics *m)
{
	char text[2048];

	(void)read_text("/proc/meminfo", text, sizeof(text)); /* on failure report zeros */
	m->memory_total_bytes = meminfo(text, "MemTotal:");
	m->memory_free_bytes = meminfo(text, "MemFree:");
	m->memory_available_bytes = meminfo(text, "MemAvailable:");
	m->memory_cached_bytes = meminfo(text, "\nCached:");
}

static void read_disk(struct agent_metrics *m)
{
	struct statvfs st;

	if (statvfs("/", &st) < 0)
		return;
	m->disk_total_bytes = (uint64_t)st.f_blocks * st.f_frsize;
	m->disk_free_bytes = (uint64_t)st.f_bfree * st.f_frsize;
	m->disk_available_bytes = (uint64_t)st.f_bavail * st.f_frsize;
}

static uint32_t running_processes(void)
{
	uint32_t n = 0;

	for (const struct process *p = processes; p; p = p->next)
		n += !(p->flags & AGENT_PROCESS_EXITED);
	return n;
}

void request_metrics(struct conn *c, const struct agent_frame *f)
{
	struct agent_metrics m = {
		.uptime_ns = clock_ns(CLOCK_BOOTTIME),
		.realtime_ns = clock_realtime_ns(),
		.cpus = (uint32_t)sysconf(_SC_NPROCESSORS_ONLN),
		.processes = running_processes(),
	};
	struct sysinfo info;

	if (sysinfo(&info) == 0)
		m.tasks = info.procs;
	read_cpu(&m);
	read_memory(&m);
	read_disk(&m);
	conn_send(c, AGENT_METRICS, &m);
}
