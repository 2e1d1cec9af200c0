/* One-shot requests about processes, and ATTACH. */
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "process.h"
#include "requests.h"

static void no_process(struct conn *c, enum agent_type type, const struct agent_selector *s)
{
	if (s->pid)
		conn_error(c, AGENT_ERR_NOT_FOUND, type, ESRCH, "process %u", s->pid);
	else
		conn_error(c, AGENT_ERR_NOT_FOUND, type, ESRCH, "process with tag %s", s->tag);
}

static struct process *find(struct conn *c, enum agent_type type, const struct agent_selector *s)
{
	struct process *p = process_find(s);

	if (!p)
		no_process(c, type, s);
	return p;
}

void request_attach(struct conn *c, const struct agent_frame *f)
{
	const struct process_exit *x;
	struct agent_started m;
	struct agent_attach a;
	struct process *p;

	if (!conn_decode(c, f, &a))
		return;
	p = process_find(&a.process);
	if (p) {
		m.pid = (uint32_t)p->pid;
		conn_send(c, AGENT_STARTED, &m);
		process_attach(p, c);
		return;
	}
	x = process_find_exit(&a.process);
	if (!x) {
		no_process(c, AGENT_ATTACH, &a.process);
		return;
	}
	m.pid = (uint32_t)x->pid;
	conn_send(c, AGENT_STARTED, &m);
	conn_send(c, AGENT_EXIT, &x->exit);
}

void request_signal_process(struct conn *c, const struct agent_frame *f)
{
	struct agent_signal_process m;
	struct process *p;
	int r;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_SIGNAL_PROCESS, m.flags, AGENT_SIGNAL_GROUP))
		return;
	if (m.signo == 0 || m.signo >= (uint32_t)_NSIG) {
		conn_error(c, AGENT_ERR_UNSUPPORTED, AGENT_SIGNAL_PROCESS, 0, "signal %u", m.signo);
		return;
	}
	p = find(c, AGENT_SIGNAL_PROCESS, &m.process);
	if (!p)
		return;
	r = process_signal(p, m.signo, m.flags & AGENT_SIGNAL_GROUP);
	if (r < 0)
		conn_error(c, error_class_of(-r), AGENT_SIGNAL_PROCESS, -r, "process %u",
			(unsigned)p->pid);
	else
		conn_send(c, AGENT_OK, NULL);
}

void request_close_input(struct conn *c, const struct agent_frame *f)
{
	struct agent_close_input m;
	struct process *p;

	if (!conn_decode(c, f, &m))
		return;
	p = find(c, AGENT_CLOSE_INPUT, &m.process);
	if (!p)
		return;
	if (p->flags & AGENT_PROCESS_PTY) {
		conn_error(c, AGENT_ERR_WRONG_KIND, AGENT_CLOSE_INPUT, 0,
			"a terminal's input has no end: send its end-of-file character");
		return;
	}
	process_close_input(p);
	conn_send(c, AGENT_OK, NULL);
}

void request_resize_process(struct conn *c, const struct agent_frame *f)
{
	struct agent_resize_process m;
	struct process *p;
	int r;

	if (!conn_decode(c, f, &m))
		return;
	p = find(c, AGENT_RESIZE_PROCESS, &m.process);
	if (!p)
		return;
	r = process_resize(p, m.cols, m.rows);
	if (r == -ENOTTY)
		conn_error(c, AGENT_ERR_WRONG_KIND, AGENT_RESIZE_PROCESS, 0, "not a terminal");
	else if (r < 0)
		conn_error(c, error_class_of(-r), AGENT_RESIZE_PROCESS, -r, "resize");
	else
		conn_send(c, AGENT_OK, NULL);
}

/* --- INPUT: answered when the process took all of it --- */

struct waiter {
	struct conn *c;
	struct process *p;
	uint64_t target; /* answer when the process has taken this many bytes */
	struct waiter *next, **link;
	size_t held; /* bytes that do not yet fit into the queue */
	uint8_t data[];
};

static struct waiter *waiters;

static void waiter_end(struct waiter *w)
{
	*w->link = w->next;
	if (w->next)
		w->next->link = w->link;
	free(w);
}

static void input_abandoned(struct conn *c)
{
	waiter_end(c->stream);
}

/* Messages wait until this one is answered. */
static const struct stream_ops input_ops = {NULL, NULL, input_abandoned};

static void input_error(struct conn *c, int r)
{
	if (r == -EPIPE)
		conn_error(c, AGENT_ERR_INPUT_CLOSED, AGENT_INPUT, EPIPE, "input");
	else
		conn_error(c, AGENT_ERR_LIMIT, AGENT_INPUT, -r, "input");
}

/* 1: answer with success; 0: keep waiting; or -errno. */
static int input_state(struct waiter *w)
{
	struct process *p = w->p;
	int r;

	if (w->held) {
		r = process_input(p, w->data, w->held);
		if (r < 0)
			return r == -EAGAIN ? 0 : r;
		w->held = 0;
		w->target = p->input_added;
	}
	if (p->input_taken >= w->target)
		return 1;
	return p->input_broken ? -EPIPE : 0;
}

void control_input_progress(struct process *p)
{
	struct waiter *w, *next;

	for (w = waiters; w; w = next) {
		struct conn *c = w->c;
		int r;

		next = w->next;
		r = w->p == p ? input_state(w) : 0;
		if (r == 0)
			continue;
		waiter_end(w);
		conn_end_stream(c);
		if (r > 0)
			conn_send(c, AGENT_OK, NULL);
		else
			input_error(c, r);
	}
}

static void input_wait(struct conn *c, struct process *p, const struct agent_input *m, bool held)
{
	size_t n = held ? m->data_bytes : 0;
	struct waiter *w = malloc(sizeof(*w) + n);

	if (!w) {
		input_error(c, -ENOMEM);
		return;
	}
	*w = (struct waiter){.c = c, .p = p, .target = p->input_added, .held = n};
	if (n)
		memcpy(w->data, m->data, n);
	w->next = waiters;
	w->link = &waiters;
	if (waiters)
		waiters->link = &w->next;
	waiters = w;
	conn_take_over(c, &input_ops, w);
}

void request_input(struct conn *c, const struct agent_frame *f)
{
	struct agent_input m;
	struct process *p;
	uint32_t wrong;
	int r;

	if (!conn_decode(c, f, &m) ||
		!conn_check_flags(c, AGENT_INPUT, m.flags, AGENT_INPUT_STDIN | AGENT_INPUT_PTY))
		return;
	p = find(c, AGENT_INPUT, &m.process);
	if (!p)
		return;
	wrong = p->flags & AGENT_PROCESS_PTY ? AGENT_INPUT_STDIN : AGENT_INPUT_PTY;
	if (m.flags == wrong) {
		conn_error(c, AGENT_ERR_WRONG_KIND, AGENT_INPUT, 0, "the process has %s terminal",
			p->flags & AGENT_PROCESS_PTY ? "a" : "no");
		return;
	}
	r = process_input(p, m.data, m.data_bytes);
	if (r == -EAGAIN || (r == 0 && p->input_taken < p->input_added && !p->input_broken))
		input_wait(c, p, &m, r == -EAGAIN);
	else if (r == 0 && p->input_broken)
		input_error(c, -EPIPE);
	else if (r < 0)
		input_error(c, r);
	else
		conn_send(c, AGENT_OK, NULL);
}

/* --- LIST_PROCESSES: streamed, for the answer can be long --- */

/* Lists processes from youngest to oldest. The position is the last one's serial number, as the
 * table may change while the answer is being sent. */
struct listing {
	uint64_t before; /* serial */
};

static const struct process *next_listed(uint64_t before)
{
	const struct process *p = processes;

	while (p && p->serial >= before)
		p = p->next;
	return p;
}

static void listing_room(struct conn *c)
{
	struct listing *l = c->stream;
	const struct process *p = NULL;

	while (conn_has_room(c) && (p = next_listed(l->before))) {
		struct agent_process m = {.pid = (uint32_t)p->pid,
			.flags = p->flags,
			.started_ns = p->started_ns,
			.exec = p->exec,
			.exec_bytes = p->exec_bytes};

		l->before = p->serial;
		conn_send(c, AGENT_PROCESS, &m);
	}
	if (p || c->dead)
		return;
	free(l);
	conn_end_stream(c);
	conn_send(c, AGENT_END, NULL);
}

static void listing_lost(struct conn *c)
{
	free(c->stream);
}

static const struct stream_ops listing_ops = {NULL, listing_room, listing_lost};

void request_list_processes(struct conn *c, const struct agent_frame *f)
{
	struct listing *l = malloc(sizeof(*l));

	if (!l) {
		conn_error(c, AGENT_ERR_LIMIT, AGENT_LIST_PROCESSES, ENOMEM, "list");
		return;
	}
	l->before = UINT64_MAX;
	conn_take_over(c, &listing_ops, l);
}
