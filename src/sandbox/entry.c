/* All is asked with requests that any agent has: /proc is read as files. */
#include "sandbox/entry.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "sandbox/agent_call.h"

enum {
	LOOK_MS = 20, /* between two looks, at least */
	LOOK_MS_MAX = 400,
	LOOK_SHARE = 5, /* of the time, at most one such part is looking: a guest may be slow */
	PING_MS = 200,	/* between two, of a program that is not ready */
	CALM_LOOKS = 3, /* that must find it waiting, one after the other */
	CALL_S = 10,	/* for one request */
	END_S = 30,	/* for a process to end after SIGKILL */
	FAMILY_MAX = 64,
	THREADS_MAX = 64,
	CALL_MAX = 256,
	INFO_MAX = 16 * 1024,
	TABLE_MAX = 4 * 1024 * 1024, /* of connections, closed ones for a minute, too */
	POLL_MAX = 64,
};

/* Of x86-64, the only architecture there is (docs/architecture.md). */
enum {
	CALL_READ = 0,
	CALL_POLL = 7,
	CALL_READV = 19,
	CALL_SELECT = 23,
	CALL_EPOLL_WAIT = 232,
	CALL_PSELECT = 270,
	CALL_PPOLL = 271,
	CALL_EPOLL_PWAIT = 281,
	CALL_EPOLL_PWAIT2 = 441,
};

/* --- what the kernel tells --- */

/* A system call that a thread is in. */
struct call {
	unsigned long number, args[2];
};

/* Whether the text of an epoll set's /proc/PID/fdinfo/FD has descriptor 0 in it. */
static bool set_has_input(const char *fdinfo)
{
	for (const char *p = fdinfo; (p = strstr(p, "tfd:")); p += strlen("tfd:")) {
		char *end;

		if (strtoul(p + strlen("tfd:"), &end, 10) == 0 && *end == ' ')
			return true;
	}
	return false;
}

/* Whether something listens on the port, by the text of /proc/net/tcp or tcp6. */
static bool port_listens(const char *text, uint16_t port)
{
	static const unsigned listens = 0x0a;

	for (const char *line = strchr(text, '\n'); line; line = strchr(line + 1, '\n')) {
		unsigned local, state;

		if (sscanf(line + 1, " %*u: %*[0-9A-F]:%x %*[0-9A-F]:%*x %x", &local, &state) ==
				2 &&
			local == port && state == listens)
			return true;
	}
	return false;
}

/* --- looking --- */

struct look {
	struct agent_conn *c;
	uint64_t deadline_ns; /* of the request */
	char input[64];	      /* what descriptor 0 of the entry is */
	struct {
		uint32_t pid, parent;
	} tasks[AGENT_TASKS_MAX];
	size_t task_count;
	bool alive;
	bool ready;	  /* it listens, and said so */
	uint64_t ping_ns; /* when it was asked last */
};

/* A file of /proc as text, or NULL: it is not there any more, or longer. */
static char *read_text(struct look *l, const char *path, size_t max)
{
	uint8_t *text = NULL;
	size_t n;

	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	if (agent_read_file(l->c, l->deadline_ns, path, max, &text, &n, NULL) < 0)
		return NULL;
	return (char *)text;
}

/* Copies n bytes of the process's memory; false: they are not there. */
static bool read_memory(struct look *l, uint32_t pid, uint64_t at, void *out, size_t n)
{
	char path[32];
	const struct agent_read m = {.offset = at, .length = n, .user = "", .path = path};
	struct agent_event ev;
	size_t have = 0;

	(void)snprintf(path, sizeof(path), "/proc/%u/mem", pid); /* fits */
	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	if (agent_call(l->c, l->deadline_ns, AGENT_READ, &m, AGENT_ENTRY, &ev, NULL) < 0)
		return false;
	while (agent_wait_event(l->c, l->deadline_ns, &ev, NULL) == 1 && ev.type == AGENT_DATA) {
		size_t take = ev.length < n - have ? ev.length : n - have;

		memcpy((uint8_t *)out + have, ev.data, take);
		have += take;
	}
	return have == n;
}

static bool polls_input(struct look *l, uint32_t pid, const struct call *call)
{
	struct pollfd list[POLL_MAX];
	size_t n = call->args[1] < POLL_MAX ? call->args[1] : POLL_MAX;

	if (!n || !read_memory(l, pid, call->args[0], list, n * sizeof(list[0])))
		return false;
	for (size_t i = 0; i < n; i++)
		if (list[i].fd == STDIN_FILENO && (list[i].events & POLLIN))
			return true;
	return false;
}

static bool selects_input(struct look *l, uint32_t pid, const struct call *call)
{
	uint8_t first = 0; /* descriptors 0 to 7 of those to be read */

	return call->args[1] && read_memory(l, pid, call->args[1], &first, 1) && (first & 1);
}

static bool set_waits(struct look *l, uint32_t pid, unsigned fd)
{
	_cleanup_free_ char *info = NULL;
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%u/fdinfo/%u", pid, fd); /* fits */
	info = read_text(l, path, INFO_MAX);
	return info && set_has_input(info);
}

static bool thread_waits(struct look *l, uint32_t pid, const char *thread)
{
	_cleanup_free_ char *text = NULL;
	struct call call;
	char path[96];

	(void)snprintf(path, sizeof(path), "/proc/%u/task/%.16s/syscall", pid, thread); /* fits */
	text = read_text(l, path, CALL_MAX);
	if (!text ||
		sscanf(text, "%lu 0x%lx 0x%lx", &call.number, &call.args[0], &call.args[1]) != 3)
		return false;
	switch (call.number) {
	case CALL_READ:
	case CALL_READV:
		return call.args[0] == STDIN_FILENO;
	case CALL_POLL:
	case CALL_PPOLL:
		return polls_input(l, pid, &call);
	case CALL_SELECT:
	case CALL_PSELECT:
		return selects_input(l, pid, &call);
	case CALL_EPOLL_WAIT:
	case CALL_EPOLL_PWAIT:
	case CALL_EPOLL_PWAIT2:
		return set_waits(l, pid, (unsigned)call.args[0]);
	default:
		return false;
	}
}

/* Its threads, by the directory /proc/PID/task; 0 when it is gone. */
static size_t list_threads(struct look *l, uint32_t pid, char out[THREADS_MAX][16])
{
	char path[64];
	const struct agent_list m = {.depth = 1, .user = "", .path = path};
	struct agent_event ev;
	size_t n = 0;

	(void)snprintf(path, sizeof(path), "/proc/%u/task", pid); /* fits */
	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	if (agent_request(l->c, AGENT_LIST, &m, NULL) < 0)
		return 0;
	while (agent_wait_event(l->c, l->deadline_ns, &ev, NULL) == 1 && ev.type == AGENT_ENTRY) {
		const char *name = strrchr(ev.entry.path, '/');

		if (n < THREADS_MAX && name)
			(void)snprintf(out[n++], 16, "%s", name + 1); /* a number */
	}
	return n;
}

/* Puts what its descriptor 0 is into `out`, such as "pipe:[123]". */
static bool input_of(struct look *l, uint32_t pid, char out[64])
{
	char path[64];
	const struct agent_stat m = {.user = "", .path = path};
	struct agent_event ev;

	(void)snprintf(path, sizeof(path), "/proc/%u/fd/0", pid); /* fits */
	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	if (agent_call(l->c, l->deadline_ns, AGENT_STAT, &m, AGENT_ENTRY, &ev, NULL) < 0)
		return false;
	(void)snprintf(out, 64, "%s", ev.entry.target); /* a longer one is no pipe */
	return true;
}

static bool process_waits(struct look *l, uint32_t pid)
{
	char threads[THREADS_MAX][16], input[64];
	size_t n;

	if (!input_of(l, pid, input) || strcmp(input, l->input) != 0)
		return false;
	n = list_threads(l, pid, threads);
	for (size_t i = 0; i < n; i++)
		if (thread_waits(l, pid, threads[i]))
			return true;
	return false;
}

/* Sets l->alive: the entry is among them. */
static int list_tasks(struct look *l, uint32_t pid, struct error *e)
{
	struct agent_event ev;
	int r = agent_request(l->c, AGENT_LIST_TASKS, NULL, e);

	l->task_count = 0;
	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	while (r == 0) {
		r = agent_wait_event(l->c, l->deadline_ns, &ev, e);
		if (r < 0)
			return r;
		if (ev.type != AGENT_TASK)
			return ev.type == AGENT_ERROR ? agent_event_error(&ev, e) : 0;
		l->alive = l->alive || ev.task.pid == pid;
		l->tasks[l->task_count].pid = ev.task.pid;
		l->tasks[l->task_count].parent = ev.task.parent;
		l->task_count += l->task_count + 1 < AGENT_TASKS_MAX; /* the last one may go */
		r = 0;
	}
	return r;
}

/* Whether the entry or one of its descendants waits for input. */
static bool family_waits(struct look *l, uint32_t pid)
{
	uint32_t family[FAMILY_MAX] = {pid};
	size_t n = 1;

	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < l->task_count; k++) {
			if (l->tasks[k].parent == family[i] && n < FAMILY_MAX)
				family[n++] = l->tasks[k].pid;
		}
	for (size_t i = 0; i < n; i++)
		if (process_waits(l, family[i]))
			return true;
	return false;
}

/* A table that is missing has nothing. */
int entry_port_listens(struct agent_conn *c, uint64_t deadline_ns, uint16_t port, struct error *e)
{
	static const char *const tables[] = {"/proc/net/tcp", "/proc/net/tcp6"};
	bool listens = false;

	for (size_t i = 0; i < ARRAY_SIZE(tables) && !listens; i++) {
		_cleanup_free_ uint8_t *text = NULL;
		struct error why = {0};
		size_t n;
		int r = agent_read_file(c, deadline_ns, tables[i], TABLE_MAX, &text, &n, &why);

		if (r < 0 && r != -ENOENT) {
			if (e)
				*e = why;
			return r;
		}
		listens = r == 0 && port_listens((const char *)text, port);
	}
	return listens;
}

static bool port_is_open(struct look *l, uint16_t port)
{
	l->deadline_ns = clock_monotonic_ns() + CALL_S * NS_PER_S;
	return entry_port_listens(l->c, l->deadline_ns, port, NULL) == 1;
}

static bool port_waits(struct look *l, const struct entry_port *p)
{
	uint64_t now = clock_monotonic_ns();

	if (!p->port || !port_is_open(l, p->port))
		return false;
	if (!l->ready && now - l->ping_ns >= PING_MS * NS_PER_MS) {
		l->ready = entry_ping(&p->dialler, p->port);
		l->ping_ns = clock_monotonic_ns();
	}
	return l->ready;
}

/* --- an entry that does not come to wait --- */

/* Ends it unless it has ended, and takes the end of its standard error and how it ended. */
static int take_end(
	struct agent_conn *c, struct buf *errors, struct agent_exit *ret, struct error *e)
{
	uint64_t deadline_ns = clock_monotonic_ns() + END_S * NS_PER_S;
	struct agent_event ev;
	int r = agent_attach_start(c, ENTRY_TAG, e);

	if (r == 0) /* it comes after the attachment */
		r = agent_send_signal(c, SIGKILL, AGENT_SIGNAL_GROUP);
	while (r == 0) {
		r = agent_wait_event(c, deadline_ns, &ev, e);
		if (r < 0)
			return r;
		r = 0;
		if (ev.type == AGENT_STDERR)
			r = buf_add_last(errors, ev.data, ev.length);
		else if (ev.type == AGENT_ERROR)
			return agent_event_error(&ev, e);
		else if (ev.type == AGENT_EXIT)
			break;
	}
	*ret = ev.exit;
	return r;
}

/* alive: it is ended because it does not come to wait. */
static int give_up(struct agent_conn *c, bool alive, struct error *e)
{
	_cleanup_(buf_done) struct buf errors = BUF_INIT(ENTRY_ERROR_MAX);
	struct agent_exit how;
	int r = take_end(c, &errors, &how, e);

	if (r < 0 || alive || (how.status == 0 && !(how.flags & AGENT_EXIT_SIGNALED)))
		return r;
	return error_set(e, ERROR_BAD_IMAGE, ECHILD,
		"the agent's program ended with %s %u before it read its input. If it needs the "
		"network to start, which it has in an invocation only, deploy it with --start "
		"cold. Its standard error ends: %.*s",
		how.flags & AGENT_EXIT_SIGNALED ? "signal" : "status", how.status,
		(int)buf_len(&errors), (const char *)buf_head(&errors));
}

/* Leaves the guest's CPU to the program, unless that was seen waiting. */
static void pause_looking(uint64_t began_ns, bool waits)
{
	uint64_t ns = (clock_monotonic_ns() - began_ns) * (LOOK_SHARE - 1);
	struct timespec pause = {.tv_nsec = LOOK_MS * (long)NS_PER_MS};

	if (!waits && ns > LOOK_MS * NS_PER_MS)
		pause.tv_nsec = (long)(ns < LOOK_MS_MAX * NS_PER_MS ? ns : LOOK_MS_MAX * NS_PER_MS);
	(void)nanosleep(&pause, NULL); /* early is fine */
}

int entry_await(struct agent_conn *c, uint32_t pid, const struct entry_port *port, unsigned limit_s,
	struct error *e)
{
	uint64_t limit_ns = clock_monotonic_ns() + limit_s * NS_PER_S;
	_cleanup_free_ struct look *l = calloc(1, sizeof(*l));
	unsigned calm = 0;
	int r;

	if (!l)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	l->c = c;
	if (!input_of(l, pid, l->input))
		*l->input = '\0'; /* it has ended, as its list of tasks tells */
	do {
		uint64_t began_ns = clock_monotonic_ns();

		l->alive = false;
		r = list_tasks(l, pid, e);
		if (r < 0)
			return r;
		calm = family_waits(l, pid) || port_waits(l, port) ? calm + 1 : 0;
		if (calm == CALM_LOOKS)
			return 1;
		pause_looking(began_ns, calm > 0);
	} while (clock_monotonic_ns() < limit_ns && l->alive);
	return give_up(c, l->alive, e);
}
