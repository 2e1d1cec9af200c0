/* HOLD and RELEASE, by the freezer of control groups (version 2). Unlike SIGSTOP, freezing is
 * invisible to processes, and also covers those that are just starting or ending. */
#include "hold.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clock.h"
#include "guest.h"
#include "loop.h"
#include "requests.h"

#define CGROUPS "/sys/fs/cgroup"
#define OURS	"user"

enum {
	STILL_MS = 200, /* a process that takes longer is in the kernel, and freezes when it
			 * leaves */
	EVENTS_MAX = 256,
	LIMIT_STEP_MS = 1000,
};

static bool on;
static struct buf held = BUF_INIT(4096); /* names of frozen groups, each with its NUL */
static struct timer limit;
static uint32_t left_ms;

void hold_open(void)
{
	(void)mkdir(CGROUPS "/" OURS, 0755); /* open reports errors */
	guest.cgroup_fd = open(CGROUPS "/" OURS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (guest.cgroup_fd < 0)
		console("no control group for processes: %s", strerror(errno));
}

static int set_frozen(int cgroups, const char *name, bool frozen)
{
	char path[NAME_MAX + 16];
	int fd, r;

	(void)snprintf(path, sizeof(path), "%s/cgroup.freeze", name); /* fits */
	fd = openat(cgroups, path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (frozen) {
		char now = '0';

		/* already frozen, for instance a paused container */
		if (read(fd, &now, 1) == 1 && now == '1') {
			(void)close(fd); /* only read */
			return -EALREADY;
		}
	}
	r = pwrite(fd, frozen ? "1" : "0", 1, 0) == 1 ? 0 : -errno;
	(void)close(fd); /* nothing is buffered */
	return r;
}

/* Waits until all processes of a group are frozen. */
static void await_still(int cgroups, const char *name, uint64_t deadline_ns)
{
	char path[NAME_MAX + 16], text[EVENTS_MAX];
	struct pollfd p = {.events = POLLPRI};
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%s/cgroup.events", name); /* fits */
	p.fd = openat(cgroups, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	while (p.fd >= 0) {
		n = pread(p.fd, text, sizeof(text) - 1, 0);
		text[n > 0 ? n : 0] = '\0';
		if (n <= 0 || strstr(text, "frozen 1") || clock_monotonic_ns() >= deadline_ns)
			break;
		(void)poll(&p, 1, clock_ms_until(deadline_ns, STILL_MS)); /* on any result read
									   * again */
	}
	if (p.fd >= 0)
		(void)close(p.fd); /* only read */
}

/* The name after this one. NULL gives the first; after the last comes NULL. */
static const char *next_held(const char *name)
{
	const char *begin = (const char *)buf_head(&held);
	const char *next = name ? name + strlen(name) + 1 : begin;

	return next < begin + buf_len(&held) ? next : NULL;
}

static int freeze_all(void)
{
	int fd = open(CGROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	uint64_t deadline;
	const struct dirent *e;
	int r = 0;

	if (!d)
		return -errno;
	while (r == 0 && (e = readdir(d))) {
		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		r = set_frozen(fd, e->d_name, true);
		if (r == -EALREADY || r == -ENOENT) {
			r = 0;
			continue;
		}
		if (r == 0)
			r = buf_add(&held, e->d_name, strlen(e->d_name) + 1);
		if (r < 0) /* hold_end thaws the groups before this one */
			(void)set_frozen(fd, e->d_name, false);
	}
	deadline = clock_monotonic_ns() + STILL_MS * NS_PER_MS;
	for (const char *name = NULL; r == 0 && (name = next_held(name));)
		await_still(fd, name, deadline);
	(void)closedir(d); /* only read */
	return r;
}

static void thaw_all(void)
{
	int fd = buf_len(&held) ? open(CGROUPS, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (fd >= 0) {
		for (const char *name = NULL; (name = next_held(name));)
			(void)set_frozen(fd, name, false); /* it may be gone */
		(void)close(fd);			   /* only read */
	}
	buf_done(&held);
}

bool hold_is_on(void)
{
	return on;
}

void hold_end(void)
{
	if (!on)
		return;
	on = false;
	timer_cancel(&limit);
	thaw_all();
	conns_go_on();
}

/* Counts the limit down in steps. The clock jumps when a snapshot is restored or a VM resumes. A
 * jump ends only one step, and the identity arrives before the next. */
static void limit_step(struct timer *t)
{
	uint32_t step = left_ms < LIMIT_STEP_MS ? left_ms : LIMIT_STEP_MS;

	left_ms -= step;
	if (step == 0)
		hold_end();
	else
		timer_set(t, step * NS_PER_MS, limit_step);
}

void request_hold(struct conn *c, const struct agent_frame *f)
{
	struct agent_hold m;
	int r;

	if (!conn_decode(c, f, &m))
		return;
	if (m.limit_ms == 0 || m.limit_ms > AGENT_HOLD_MS_MAX) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_HOLD, 0, "limit of %u ms", m.limit_ms);
		return;
	}
	if (guest.init && guest.cgroup_fd < 0) {
		conn_error(c, AGENT_ERR_UNSUPPORTED, AGENT_HOLD, 0, "no control groups");
		return;
	}
	r = guest.init && !on ? freeze_all() : 0;
	on = true;
	left_ms = m.limit_ms;
	limit_step(&limit);
	if (r < 0) {
		hold_end();
		conn_error(c, error_class_of(-r), AGENT_HOLD, -r, "control groups");
		return;
	}
	conn_send(c, AGENT_OK, NULL);
}

void request_release(struct conn *c, const struct agent_frame *f)
{
	(void)f;
	hold_end();
	conn_send(c, AGENT_OK, NULL);
}
