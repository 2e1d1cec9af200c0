#include "invocation/program.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "sandbox/entry.h"

enum { LOOK_MAX = 64 * 1024, SHELL_KILLED = 128 + SIGKILL };

enum program_state { CLEARING, ATTACHING, STARTING, RUNNING, LOOKING, OVER };

struct program {
	struct agent_link *link;
	enum program_state state;
	struct program_order order;
	const struct program_ops *ops;
	void *arg;
	size_t sent; /* of the input */
	bool input_over;
	bool started;		/* by start(), and not in a snapshot or by an earlier invocation */
	struct agent_exit exit; /* while LOOKING */
	struct buf look;
};

static void fail(struct program *p, const struct error *why)
{
	p->state = OVER;
	p->ops->failed(p->arg, why);
}

/* --- starting --- */

static int start(struct program *p, struct error *e)
{
	const char *const argv[] = {"/bin/sh", "-c", p->order.command};
	const struct agent_exec x = {
		/* KEEP: a later invocation of the session must not find this program's end */
		.flags = AGENT_EXEC_STDIN | AGENT_EXEC_BRIEF | AGENT_EXEC_KEEP,
		.user = p->order.user,
		.cwd = p->order.dir,
		.tag = ENTRY_TAG,
		.argv = {.array = argv, .count = ARRAY_SIZE(argv)},
		.env = p->order.env,
	};

	p->state = STARTING;
	p->started = true;
	return agent_exec_start(agent_link_conn(p->link), &x, e);
}

static void start_or_fail(struct program *p)
{
	struct error e = {0};

	p->sent = 0; /* what followed the ATTACH is lost */
	p->input_over = false;
	if (start(p, &e) < 0)
		fail(p, &e);
	else
		agent_link_send(p->link);
}

/* --- its input --- */

static void feed(struct program *p)
{
	struct agent_conn *c = agent_link_conn(p->link);

	if ((p->state != RUNNING && p->state != ATTACHING) || p->input_over)
		return;
	if (agent_feed_stdin(c, p->order.input, p->order.input_bytes, &p->sent) &&
		!p->order.stays) {
		p->input_over = true;
		(void)agent_send_stdin_eof(c); /* without room the link's end tells */
	}
	agent_link_send(p->link);
}

/* The input follows at once: a program that waits gets it a round trip earlier. */
static int attach(struct program *p, struct error *e)
{
	int r = agent_attach_feeding(agent_link_conn(p->link), ENTRY_TAG, e);

	p->state = ATTACHING;
	if (r == 0)
		feed(p);
	return r;
}

static int clear(struct program *p, struct error *e)
{
	int r = agent_attach_start(agent_link_conn(p->link), ENTRY_TAG, e);

	p->state = CLEARING;
	if (r == 0) /* it comes after the attachment */
		r = agent_send_signal(agent_link_conn(p->link), SIGKILL, AGENT_SIGNAL_GROUP);
	agent_link_send(p->link);
	return r;
}

static void on_started(struct program *p)
{
	if (p->state != ATTACHING && p->state != STARTING)
		return;
	p->state = RUNNING;
	p->ops->started(p->arg);
	if (p->state == RUNNING)
		feed(p);
}

/* --- its end --- */

static void look(struct program *p, const struct agent_exit *how)
{
	const struct agent_read m = {.length = LOOK_MAX, .user = "", .path = "/proc/vmstat"};

	p->exit = *how;
	p->state = LOOKING;
	if (agent_request(agent_link_conn(p->link), AGENT_READ, &m, NULL) == 0) {
		agent_link_send(p->link);
		return;
	}
	p->state = OVER;
	p->ops->ended(p->arg, how, false);
}

static void looked(struct program *p)
{
	static const char word[] = "\noom_kill ";
	const char *text = (const char *)buf_head(&p->look), *at = NULL;
	size_t n = buf_len(&p->look);

	p->state = OVER;
	if (n)
		at = memmem(text, n, word, strlen(word));
	if (at)
		at += strlen(word);
	p->ops->ended(p->arg, &p->exit, at && at < text + n && *at != '0');
}

static void on_exit_of(struct program *p, const struct agent_exit *how)
{
	bool killed = how->flags & AGENT_EXIT_SIGNALED ? how->status == SIGKILL
						       : how->status == SHELL_KILLED;

	if (p->state == CLEARING) {
		start_or_fail(p);
	} else if (killed) {
		look(p, how);
	} else {
		p->state = OVER;
		p->ops->ended(p->arg, how, false);
	}
}

static void on_error(struct program *p, const struct agent_event *ev)
{
	struct error e = {0};

	if (p->state == LOOKING) {
		looked(p);
	} else if (ev->error.class == AGENT_ERR_NOT_FOUND &&
		   (p->state == ATTACHING || p->state == CLEARING)) {
		start_or_fail(p);
	} else {
		(void)agent_event_error(ev, &e); /* the filled error matters */
		fail(p, &e);
	}
}

/* --- the link --- */

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct program *p = arg;

	switch (ev->type) {
	case AGENT_STARTED:
		on_started(p);
		break;
	case AGENT_STDOUT:
	case AGENT_STDERR:
		if (p->state == RUNNING)
			p->ops->output(p->arg, ev->type == AGENT_STDERR, ev->data, ev->length);
		break;
	case AGENT_DATA:
		(void)buf_add(&p->look, ev->data, ev->length); /* as much as fits */
		break;
	case AGENT_EXIT:
		on_exit_of(p, &ev->exit);
		break;
	case AGENT_END:
		looked(p);
		break;
	case AGENT_ERROR:
		on_error(p, ev);
		break;
	default:
		break;
	}
}

static void on_writable(struct agent_link *l, void *arg)
{
	feed(arg);
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	static const struct error ended = {.code = ERROR_SANDBOX,
		.err = EIO,
		.message = "the sandbox ended or was paused while the agent ran"};

	fail(arg, why->code == ERROR_TOO_MANY ? why : &ended);
}

struct program *program_open(struct instance *i, const struct program_order *o,
	const struct program_ops *ops, void *arg, struct error *e)
{
	static const struct agent_link_ops link_ops = {
		.event = on_event, .writable = on_writable, .lost = on_lost};
	struct program *p = calloc(1, sizeof(*p));

	if (!p) {
		(void)error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		return NULL;
	}
	p->order = *o;
	p->ops = ops;
	p->arg = arg;
	buf_init(&p->look, LOOK_MAX);
	if (instance_agent_connect(i, LINK_SINGLE, &link_ops, p, &p->link, e) == 0 &&
		(o->fresh ? clear(p, e) : attach(p, e)) == 0)
		return p;
	program_close(p);
	return NULL;
}

void program_pause(struct program *p)
{
	agent_link_pause(p->link);
}

void program_resume(struct program *p)
{
	agent_link_resume(p->link);
}

bool program_was_started(const struct program *p)
{
	return p->started;
}

void program_close(struct program *p)
{
	if (!p)
		return;
	if (p->state == RUNNING && !p->order.stays) {
		(void)agent_send_signal(agent_link_conn(p->link), SIGKILL, AGENT_SIGNAL_GROUP);
		agent_link_send(p->link); /* a sandbox that ends needs no more */
	}
	agent_link_close(p->link);
	buf_done(&p->look);
	free(p);
}
