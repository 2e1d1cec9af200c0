/* The life of a process: process_new, then process_start, which watches its output. The reaper's
 * process_reaped and the end of its output follow in either order; both together cause `finish`. */
#include "process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

#define CONTAINER(ptr, type, member) ((type *)(void *)((char *)(ptr)-offsetof(type, member)))
#define KILL_GRACE_NS		     (200 * NS_PER_MS)
#define HANGUP_GRACE_NS		     (1 * NS_PER_S)

enum { IO_BYTES = AGENT_PAYLOAD_MAX, ACKNOWLEDGE_BYTES = AGENT_STDIN_WINDOW / 4, GRACES_MAX = 50 };

struct process *processes;
unsigned process_count;
static struct process_exit exits[PROCESS_EXITS_MAX];
static unsigned next_exit;
static uint64_t next_serial;
static uint8_t io_bytes[IO_BYTES];

/* --- the table --- */

static bool selects(const struct agent_selector *s, pid_t pid, const char *tag)
{
	return s->pid ? (pid_t)s->pid == pid : s->tag[0] && strcmp(s->tag, tag) == 0;
}

struct process *process_find(const struct agent_selector *s)
{
	for (struct process *p = processes; p; p = p->next)
		if (selects(s, p->pid, p->tag))
			return p;
	return NULL;
}

const struct process_exit *process_find_exit(const struct agent_selector *s)
{
	uint64_t now = clock_monotonic_ns();

	for (unsigned i = 0; i < PROCESS_EXITS_MAX; i++) {
		/* Youngest first, as pids and tags are reused. */
		const struct process_exit *x =
			&exits[(next_exit + PROCESS_EXITS_MAX - 1 - i) % PROCESS_EXITS_MAX];

		if (x->until_ns > now && selects(s, x->pid, x->tag))
			return x;
	}
	return NULL;
}

static void remember_exit(const struct process *p)
{
	struct process_exit *x = &exits[next_exit];

	next_exit = (next_exit + 1) % PROCESS_EXITS_MAX;
	x->until_ns = clock_monotonic_ns() + PROCESS_EXITS_S * NS_PER_S;
	x->exit = p->exit;
	x->pid = p->pid;
	memcpy(x->tag, p->tag, sizeof(x->tag));
}

void process_discard(struct process *p)
{
	source_close(&p->out);
	source_close(&p->err);
	source_close(&p->in);
	timer_cancel(&p->deadline);
	timer_cancel(&p->grace);
	if (p->unread_fd >= 0)
		(void)close(p->unread_fd); /* a pipe: nothing to lose */
	buf_done(&p->input);
	free(p->exec);
	loop_defer_free(p);
}

/* Whether all that was written into the pipe is still there. */
static bool is_unread(const struct process *p)
{
	int fd = p->in.fd >= 0 ? p->in.fd : p->unread_fd, n;

	if (fd < 0)
		return p->input_unread;
	return ioctl(fd, FIONREAD, &n) == 0 && (uint64_t)n == p->input_taken;
}

static void input_lost(struct process *p)
{
	p->input_broken = true;
	p->input_closed = true;
	p->input_unread = is_unread(p);
	buf_clear(&p->input);
	source_close(&p->in);
}

/* All input is in the pipe. Its other end lets the agent ask what is left there. */
static void end_input(struct process *p)
{
	char path[32];

	if (p->in.fd < 0)
		return;
	(void)snprintf(path, sizeof(path), "/proc/self/fd/%d", p->in.fd); /* fits */
	p->unread_fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
	source_close(&p->in);
}

static void finish(struct process *p)
{
	struct conn *c = p->attached, *next;

	input_lost(p);
	control_input_progress(p);
	p->attached = NULL;
	if (!p->kept)
		remember_exit(p);
	for (; c; c = next) {
		next = c->next_attached;
		conn_end_stream(c);
		conn_send(c, AGENT_EXIT, &p->exit);
	}
	*p->link = p->next;
	if (p->next)
		p->next->link = p->link;
	process_count--;
	process_discard(p);
}

static void finish_if_done(struct process *p)
{
	if ((p->flags & AGENT_PROCESS_EXITED) && p->out.fd < 0 && p->err.fd < 0)
		finish(p);
}

/* Drops the oldest process that has ended and has nobody attached, to make room. A background child
 * may still hold its output open. */
static bool evict_one(void)
{
	struct process *oldest = NULL;

	for (struct process *p = processes; p; p = p->next)
		if ((p->flags & AGENT_PROCESS_EXITED) && !p->attached)
			oldest = p;
	if (oldest)
		finish(oldest);
	return oldest != NULL;
}

struct process *process_new(void)
{
	struct process *p;

	if (process_count >= AGENT_PROCESSES_MAX && !evict_one())
		return NULL;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->out.fd = p->err.fd = p->in.fd = p->unread_fd = -1;
	buf_init(&p->input, PROCESS_INPUT_MAX);
	return p;
}

/* --- input --- */

static void acknowledge(struct process *p)
{
	struct agent_window w;

	if (buf_len(&p->input) > AGENT_STDIN_WINDOW / 2)
		return;
	for (struct conn *c = p->attached; c; c = c->next_attached) {
		if (c->unacknowledged >= ACKNOWLEDGE_BYTES) {
			w.bytes = c->unacknowledged;
			c->unacknowledged = 0;
			conn_send(c, AGENT_WINDOW, &w);
		}
	}
}

static bool attached_have_room(const struct process *p)
{
	for (const struct conn *c = p->attached; c; c = c->next_attached)
		if (!conn_has_room(c))
			return false;
	return !p->unclaimed;
}

/* Waits for output only while all attached connections can take it, and for input only while there
 * is some. */
static void update_waits(struct process *p)
{
	uint32_t out = attached_have_room(p) ? EPOLLIN : 0;
	uint32_t in = buf_len(&p->input) ? EPOLLOUT : 0;

	(void)source_wait(
		&p->err, out); /* pipes can always be waited for, unless memory runs out */
	if (p->flags & AGENT_PROCESS_PTY) {
		(void)source_wait(&p->out, out | in);
		return;
	}
	(void)source_wait(&p->out, out);
	(void)source_wait(&p->in, in);
}

static void write_input(struct process *p)
{
	int fd = p->flags & AGENT_PROCESS_PTY ? p->out.fd : p->in.fd;

	while (buf_len(&p->input)) {
		ssize_t n = write(fd, buf_head(&p->input), buf_len(&p->input));

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			if (errno != EAGAIN)
				input_lost(p);
			break;
		}
		buf_consume(&p->input, (size_t)n);
		p->input_taken += (size_t)n;
	}
	if (!buf_len(&p->input)) {
		if (p->input_closed)
			end_input(p);
		if (p->input.capacity > 4096)
			buf_done(&p->input);
	}
}

static void input_progress(struct process *p)
{
	write_input(p);
	update_waits(p);
	acknowledge(p);
	control_input_progress(p);
	for (struct conn *c = p->attached; c; c = c->next_attached)
		if (c->blocked)
			conn_unblock(c);
}

int process_input(struct process *p, const void *data, size_t n)
{
	int r;

	if (p->input_closed)
		return -EPIPE;
	if (buf_len(&p->input) > AGENT_STDIN_WINDOW)
		return -EAGAIN;
	r = buf_add(&p->input, data, n);
	if (r < 0)
		return r;
	p->input_added += n;
	write_input(p);
	update_waits(p);
	return 0;
}

void process_close_input(struct process *p)
{
	p->input_closed = true;
	if (!buf_len(&p->input))
		end_input(p);
}

static void in_ready(struct source *s, uint32_t events)
{
	input_progress(CONTAINER(s, struct process, in));
}

/* --- output --- */

static void output_ended(struct process *p, struct source *s)
{
	source_close(s);
	if (p->flags & AGENT_PROCESS_PTY) {
		input_lost(p);
		control_input_progress(p);
	}
	finish_if_done(p);
}

static void read_output(struct process *p, struct source *s, enum agent_type type, uint32_t events)
{
	ssize_t n = read(s->fd, io_bytes, sizeof(io_bytes));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	for (struct conn *c = p->attached; c && n > 0; c = c->next_attached)
		conn_send_raw(c, type, io_bytes, (size_t)n);
	/* No writer is left, and the read was short: the pipe is empty. */
	if (n <= 0 || ((events & EPOLLHUP) && type != AGENT_PTY && n < IO_BYTES))
		output_ended(p, s);
	else
		update_waits(p);
}

static void out_ready(struct source *s, uint32_t events)
{
	struct process *p = CONTAINER(s, struct process, out);
	bool pty = p->flags & AGENT_PROCESS_PTY;

	if (events & EPOLLOUT)
		input_progress(p);
	if (s->fd >= 0 && (events & ~(uint32_t)EPOLLOUT) && attached_have_room(p))
		read_output(p, s, pty ? AGENT_PTY : AGENT_STDOUT, events);
}

static void err_ready(struct source *s, uint32_t events)
{
	struct process *p = CONTAINER(s, struct process, err);

	if (attached_have_room(p))
		read_output(p, s, AGENT_STDERR, events);
}

/* --- streams --- */

static void detach(struct process *p, struct conn *c)
{
	for (struct conn **l = &p->attached; *l; l = &(*l)->next_attached) {
		if (*l == c) {
			*l = c->next_attached;
			break;
		}
	}
	update_waits(p);
}

static void stream_stop(struct process *p, struct conn *c)
{
	detach(p, c);
	if (p->owner == c)
		p->owner = NULL;
	conn_end_stream(c);
	conn_send(c, AGENT_END, NULL);
}

static bool stream_stdin(struct process *p, struct conn *c, const struct agent_frame *f)
{
	if (f->length && process_input(p, f->payload, f->length) == -EAGAIN)
		return false;
	/* Input that nobody will read counts as taken. */
	c->unacknowledged += (uint32_t)f->length;
	acknowledge(p);
	return true;
}

static bool stream_message(struct conn *c, const struct agent_frame *f)
{
	struct process *p = c->stream;
	struct agent_signal s;
	struct agent_resize z;

	switch (f->type) {
	case AGENT_STDIN:
		return stream_stdin(p, c, f);
	case AGENT_STDIN_EOF:
		if (!(p->flags & AGENT_PROCESS_PTY))
			process_close_input(p);
		return true;
	case AGENT_SIGNAL:
		if (conn_decode(c, f, &s))
			(void)process_signal(p, s.signo, s.flags & AGENT_SIGNAL_GROUP);
		return true;
	case AGENT_RESIZE:
		if (conn_decode(c, f, &z))
			(void)process_resize(p, z.cols, z.rows);
		return true;
	case AGENT_STOP:
		stream_stop(p, c);
		return true;
	default:
		return false; /* a request: it waits for the stream's end */
	}
}

static void stream_room(struct conn *c)
{
	update_waits(c->stream);
}

static void hangup_expired(struct timer *t)
{
	struct process *p = CONTAINER(t, struct process, grace);

	(void)process_signal(p, SIGKILL, true);
}

static void stream_lost(struct conn *c)
{
	struct process *p = c->stream;

	detach(p, c);
	if (p->owner != c)
		return;
	p->owner = NULL;
	p->brief = true;
	(void)kill(-p->pid, SIGHUP); /* it may be gone */
	timer_set(&p->grace, HANGUP_GRACE_NS, hangup_expired);
}

static const struct stream_ops stream_ops = {stream_message, stream_room, stream_lost};

/* A slow client still gets what was written before the end, but not for ever: others may go on
 * writing. */
static void grace_expired(struct timer *t)
{
	struct process *p = CONTAINER(t, struct process, grace);

	if (!attached_have_room(p) && p->graces++ < GRACES_MAX) {
		timer_set(&p->grace, KILL_GRACE_NS, grace_expired);
		return;
	}
	source_close(&p->out);
	source_close(&p->err);
	finish(p);
}

/* Output that is now in the pipes was written before the end, and is still delivered. */
static void start_grace(struct process *p)
{
	if ((p->flags & AGENT_PROCESS_EXITED) && p->brief && !p->unclaimed)
		timer_set(&p->grace, KILL_GRACE_NS, grace_expired);
}

void process_attach(struct process *p, struct conn *c)
{
	c->next_attached = p->attached;
	c->unacknowledged = 0;
	p->attached = c;
	p->unclaimed = false;
	start_grace(p);
	conn_take_over(c, &stream_ops, p);
}

/* --- life --- */

int process_start(struct process *p)
{
	int out = p->out.fd, err = p->err.fd, in = p->in.fd;

	source_open(&p->out, out, out_ready);
	source_open(&p->err, err, err_ready);
	source_open(&p->in, in, in_ready);
	p->serial = next_serial++;
	p->next = processes;
	if (processes)
		processes->link = &p->next;
	p->link = &processes;
	processes = p;
	process_count++;
	update_waits(p);
	return 0;
}

bool process_reaped(pid_t pid, int status, const struct rusage *u)
{
	struct process *p;

	for (p = processes; p && (p->pid != pid || (p->flags & AGENT_PROCESS_EXITED)); p = p->next)
		;
	if (!p)
		return false;
	p->flags |= AGENT_PROCESS_EXITED;
	if (WIFSIGNALED(status))
		p->exit.flags = AGENT_EXIT_SIGNALED | (WCOREDUMP(status) ? AGENT_EXIT_CORE : 0);
	if (is_unread(p))
		p->exit.flags |= AGENT_EXIT_UNREAD;
	if (p->timed_out)
		p->exit.flags |= AGENT_EXIT_TIMED_OUT;
	p->exit.status = (uint32_t)(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
	p->exit.user_us = (uint64_t)u->ru_utime.tv_sec * 1000000 + (uint64_t)u->ru_utime.tv_usec;
	p->exit.system_us = (uint64_t)u->ru_stime.tv_sec * 1000000 + (uint64_t)u->ru_stime.tv_usec;
	p->exit.max_rss_bytes = (uint64_t)u->ru_maxrss * 1024;
	timer_cancel(&p->grace);
	start_grace(p);
	finish_if_done(p);
	return true;
}

int process_signal(struct process *p, uint32_t signo, bool whole_group)
{
	bool deadly = signo == SIGKILL || signo == SIGTERM;

	if (signo == 0 || signo >= (uint32_t)_NSIG)
		return -EINVAL;
	if (!whole_group && (p->flags & AGENT_PROCESS_EXITED)) {
		if (!deadly)
			return -ESRCH;
	} else if (kill(whole_group ? -p->pid : p->pid, (int)signo) < 0 &&
		   !(p->flags & AGENT_PROCESS_EXITED)) {
		return -errno;
	}
	if (deadly) {
		p->brief = true;
		start_grace(p);
	}
	return 0;
}

static void deadline_passed(struct timer *t)
{
	struct process *p = CONTAINER(t, struct process, deadline);

	if (!(p->flags & AGENT_PROCESS_EXITED))
		p->timed_out = true;
	else if (kill(-p->pid, SIGKILL) == 0) /* children that hold its output */
		p->exit.flags |= AGENT_EXIT_TIMED_OUT;
	if (p->flags & AGENT_PROCESS_EXITED && !attached_have_room(p))
		timer_set(
			&p->deadline, KILL_GRACE_NS, deadline_passed); /* its output may be over */
	else
		(void)process_signal(p, SIGKILL, true); /* it may just have ended */
}

void process_limit(struct process *p, uint32_t ms)
{
	timer_set(&p->deadline, ms * NS_PER_MS, deadline_passed);
}

int process_resize(struct process *p, unsigned cols, unsigned rows)
{
	struct winsize w = {.ws_col = (unsigned short)cols, .ws_row = (unsigned short)rows};

	if (!(p->flags & AGENT_PROCESS_PTY) || p->out.fd < 0)
		return -ENOTTY;
	return ioctl(p->out.fd, TIOCSWINSZ, &w) < 0 ? -errno : 0;
}

void processes_kill_all(void)
{
	for (struct process *p = processes; p; p = p->next)
		(void)kill(-p->pid, SIGKILL); /* it may be gone */
}
