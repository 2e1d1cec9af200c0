/* TRACE_FILES: the files that programs have written, as fanotify(7) reports them.
 *
 * A file is told when it is closed, if it was open for writing. The kernel joins events of one file
 * that wait, and a file is told once in a second. Only regular files on the file systems of the
 * root and of /tmp are told. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/fanotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "report.h"
#include "requests.h"

enum { EVENTS_PER_READ = 16, SEEN = 256 };

static void read_files(struct report *r, unsigned max);
static void tell_lost(struct report *r, uint32_t count);

static struct report files = {.events = {.fd = -1}, .read = read_files, .tell_lost = tell_lost};
static char
	outside[AGENT_OUTSIDE_BYTES_MAX + 1]; /* directories, each ended by a NUL; "" ends them */
static uint32_t seen[SEEN];		      /* hashes of what was told in this second */

/* --- telling --- */

/* The name that the file has now. False if it is none to tell. */
static bool name_of(int fd, char path[AGENT_PATH_MAX + 1])
{
	static const char gone[] = " (deleted)";
	const size_t end = sizeof(gone) - 1;
	char link[32];
	struct stat st;
	ssize_t n;

	(void)snprintf(link, sizeof(link), "/proc/self/fd/%d", fd); /* fits */
	n = readlink(link, path, AGENT_PATH_MAX);
	if (n <= 0 || fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))
		return false;
	if (!st.st_nlink && (size_t)n > end && memcmp(path + n - end, gone, end) == 0)
		n -= (ssize_t)end;
	path[n] = '\0';
	return path[0] == '/';
}

static bool is_left_out(const char *path)
{
	for (const char *d = outside; *d; d += strlen(d) + 1)
		if (strncmp(path, d, strlen(d)) == 0 && path[strlen(d)] == '/')
			return true;
	return false;
}

static bool was_told(const char *path)
{
	uint32_t hash = 2166136261; /* FNV-1a */
	uint32_t *at;

	for (const char *s = path; *s; s++)
		hash = (hash ^ (uint8_t)*s) * 16777619;
	at = &seen[hash % SEEN];
	if (*at == hash)
		return true;
	*at = hash;
	return false;
}

static void take(struct report *r, const struct fanotify_event_metadata *m)
{
	_cleanup_close_ int fd = m->fd;
	char path[AGENT_PATH_MAX + 1];
	const struct agent_file said = {
		.event = AGENT_FILE_WRITTEN, .pid = (uint32_t)m->pid, .path = path};

	if (m->mask & FAN_Q_OVERFLOW)
		report_lose(r, 1);
	if (!r->reader || fd < 0 || m->pid == getpid() || !name_of(fd, path) || is_left_out(path) ||
		!report_is_ours((uint32_t)m->pid))
		return;
	if (r->late)
		report_lose(r, 1);
	else if (!was_told(path) && report_may_tell(r))
		conn_send(r->reader, AGENT_FILE, &said);
}

static void read_files(struct report *r, unsigned max)
{
	struct fanotify_event_metadata events[EVENTS_PER_READ];
	ssize_t n = 1;

	if (r->late)
		memset(seen, 0, sizeof(seen));
	for (unsigned i = 0; n > 0 && i < max; i += EVENTS_PER_READ) {
		n = read(r->events.fd, events, sizeof(events));
		for (const struct fanotify_event_metadata *m = events; FAN_EVENT_OK(m, n);
			m = FAN_EVENT_NEXT(m, n))
			take(r, m);
	}
}

static void tell_lost(struct report *r, uint32_t count)
{
	const struct agent_file m = {.event = AGENT_FILE_LOST, .value = count};

	conn_send(r->reader, AGENT_FILE, &m);
}

/* --- the request --- */

/* False if one is not as it should be. */
static bool keep_directories(const struct agent_strings *list)
{
	size_t pos = 0, at = 0;
	const char *d;

	while (agent_strings_next(list, &pos, &d)) {
		size_t n = strlen(d);

		if (n < 2 || d[0] != '/' || d[n - 1] == '/' || at + n + 1 >= sizeof(outside))
			return false;
		memcpy(outside + at, d, n + 1);
		at += n + 1;
	}
	outside[at] = '\0';
	return true;
}

static int open_events(void)
{
	_cleanup_close_ int fd = fanotify_init(FAN_CLASS_NOTIF | FAN_CLOEXEC | FAN_NONBLOCK,
		O_RDONLY | O_LARGEFILE | O_CLOEXEC | O_NONBLOCK | O_NOATIME);

	if (fd < 0 || fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_CLOSE_WRITE,
			      AT_FDCWD, "/") < 0)
		return -errno;
	(void)fanotify_mark(fd, FAN_MARK_ADD | FAN_MARK_FILESYSTEM, FAN_CLOSE_WRITE, AT_FDCWD,
		"/tmp"); /* it need not be there */
	return TAKE_FD(fd);
}

void request_trace_files(struct conn *c, const struct agent_frame *f)
{
	struct agent_trace_files m;
	int fd;

	if (!conn_decode(c, f, &m))
		return;
	report_end(&files);
	if (!keep_directories(&m.outside)) {
		conn_error(c, AGENT_ERR_INVALID, AGENT_TRACE_FILES, 0,
			"directories must be absolute, without a slash at the end");
		return;
	}
	fd = open_events();
	if (fd < 0) {
		conn_error(c, AGENT_ERR_UNSUPPORTED, AGENT_TRACE_FILES, -fd, "no events of files");
		return;
	}
	memset(seen, 0, sizeof(seen));
	report_begin(&files, c, fd);
}
