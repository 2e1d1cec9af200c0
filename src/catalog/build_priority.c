#include "catalog/build_priority.h"

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"

enum {
	PROCESSES_MAX = 256,
	CHILDREN_TEXT_MAX = 4096,
	RLIMIT_NICE_BUILD = 15, /* allows nice 5 */
};

struct family {
	pid_t pids[PROCESSES_MAX];
	unsigned count;
	bool idle;
};

static bool may_rise(void)
{
	struct rlimit l;

	return geteuid() == 0 ||
	       (getrlimit(RLIMIT_NICE, &l) == 0 && l.rlim_cur >= RLIMIT_NICE_BUILD);
}

/* The children that a thread has started. Needs CONFIG_PROC_CHILDREN. */
static void add_children(struct family *f, int tasks_fd, const char *tid)
{
	char path[32], text[CHILDREN_TEXT_MAX], *at = text, *end;
	_cleanup_close_ int fd = -1;
	ssize_t n;

	(void)snprintf(path, sizeof(path), "%.16s/children", tid); /* fits */
	fd = openat(tasks_fd, path, O_RDONLY | O_CLOEXEC);
	n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	text[n > 0 ? n : 0] = '\0';
	for (long pid = strtol(at, &end, 10); end != at && f->count < PROCESSES_MAX;
		pid = strtol(at, &end, 10)) {
		f->pids[f->count++] = (pid_t)pid;
		at = end;
	}
}

static void set_process(struct family *f, pid_t pid)
{
	const struct sched_param none = {.sched_priority = 0};
	char path[32];
	DIR *tasks;

	(void)snprintf(path, sizeof(path), "/proc/%d/task", (int)pid); /* fits */
	tasks = opendir(path);
	for (const struct dirent *d; tasks && (d = readdir(tasks));) {
		if (file_is_dots(d->d_name))
			continue;
		/* a thread that has ended needs none */
		(void)sched_setscheduler((pid_t)strtol(d->d_name, NULL, 10),
			f->idle ? SCHED_IDLE : SCHED_OTHER, &none);
		add_children(f, dirfd(tasks), d->d_name);
	}
	if (tasks)
		(void)closedir(tasks); /* only read */
}

void build_priority_set(pid_t pid, bool idle)
{
	struct family f = {.pids = {pid}, .count = 1, .idle = idle};

	if (!may_rise())
		return;
	for (unsigned i = 0; i < f.count; i++)
		set_process(&f, f.pids[i]);
}
