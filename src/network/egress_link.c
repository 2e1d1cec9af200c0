#include "network/egress_link.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "fleet/turns.h"
#include "policy/seal.h"
#include "proto/json_tree.h"

enum { READ_BYTES = 16 * 1024, LINES_A_TURN = 8 };

struct message {
	struct message *next;
	char *line; /* owned, with its end */
	int fd;	    /* owned; -1: none */
};

struct egress_link {
	uv_poll_t poll;
	struct turn turn;    /* all that the worker says is read and taken there */
	uv_timer_t step;     /* runs while the worker has used up its share */
	uv_timer_t patience; /* runs while the worker has not applied what it was told */
	unsigned handles;    /* open ones */
	int watched;	     /* what it waits for; each uv_poll_start() costs system calls */
	int fd;
	const struct egress_link_ops *ops;
	void *arg;
	struct buf in, out;
	int out_fd; /* owned: goes with the first bytes of `out`; -1: none, or it has gone */
	char *next; /* owned: a policy's line behind `out`; NULL: none */
	struct message *first, **last; /* behind that */
	unsigned queued;
	uint64_t said; /* the generation of the last line */
	size_t used;   /* of the share, since the step began */
	uint64_t step_ms;
	bool telling; /* `out` is a policy */
	bool closed, over;
};

static void on_poll(uv_poll_t *h, int status, int events);
static void on_impatient(uv_timer_t *t);

/* --- closing --- */

/* Gives the memory back, too. */
static void wipe(struct buf *b)
{
	if (b->data)
		OPENSSL_cleanse(b->data, b->capacity);
	buf_done(b);
}

static void message_free(struct message *m)
{
	cleanup_close_p(&m->fd);
	free(m->line);
	free(m);
}

static struct message *take_message(struct egress_link *l)
{
	struct message *m = l->first;

	l->first = m->next;
	if (!l->first)
		l->last = &l->first;
	l->queued--;
	return m;
}

static void on_closed(uv_handle_t *h)
{
	struct egress_link *l = h->data;

	if (--l->handles)
		return;
	(void)close(l->fd); /* libuv has let go of it */
	buf_done(&l->in);
	cleanup_close_p(&l->out_fd);
	wipe(&l->out);
	secret_free(l->next);
	while (l->first)
		message_free(take_message(l));
	free(l);
}

void egress_link_close(struct egress_link *l)
{
	if (!l || l->closed)
		return;
	l->closed = true;
	turn_leave(&l->turn);
	uv_close((uv_handle_t *)&l->poll, on_closed);
	uv_close((uv_handle_t *)&l->step, on_closed);
	uv_close((uv_handle_t *)&l->patience, on_closed);
}

static void lose(struct egress_link *l, const char *why)
{
	if (l->over || l->closed)
		return;
	l->over = true;
	(void)uv_poll_stop(&l->poll); /* these always return 0 */
	(void)uv_timer_stop(&l->step);
	(void)uv_timer_stop(&l->patience);
	l->ops->lost(why, l->arg);
}

/* --- both directions --- */

static void watch(struct egress_link *l)
{
	int events = (l->used < EGRESS_BYTES_A_STEP ? UV_READABLE : 0) |
		     (buf_len(&l->out) ? UV_WRITABLE : 0);

	if (l->closed || l->over || events == l->watched)
		return;
	l->watched = events;
	if (events)
		(void)uv_poll_start(&l->poll, events, on_poll); /* fails only for closed handles */
	else
		(void)uv_poll_stop(&l->poll);
}

static void take_queued(struct egress_link *l)
{
	struct message *m = take_message(l);

	if (buf_add_str(&l->out, m->line) == 0) /* else it is lost, as its memory is */
		l->out_fd = TAKE_FD(m->fd);
	l->telling = false;
	message_free(m);
}

/* Takes the next line when the last has gone out. */
static void refill(struct egress_link *l)
{
	if (buf_len(&l->out) == 0)
		wipe(&l->out);
	if (buf_len(&l->out) == 0 && l->next && buf_add_str(&l->out, l->next) == 0) {
		secret_free(l->next);
		l->next = NULL;
		l->telling = true;
	}
	if (buf_len(&l->out) == 0 && !l->next && l->first)
		take_queued(l);
}

/* As fd_send(), with the descriptor if there is one. */
static ssize_t send_some(struct egress_link *l)
{
	union {
		char bytes[CMSG_SPACE(sizeof(int))];
		struct cmsghdr head;
	} control = {.head = {.cmsg_len = CMSG_LEN(sizeof(int)),
			     .cmsg_level = SOL_SOCKET,
			     .cmsg_type = SCM_RIGHTS}};
	struct iovec iov = {(void *)buf_head(&l->out), buf_len(&l->out)};
	const struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = l->out_fd >= 0 ? control.bytes : NULL,
		.msg_controllen = l->out_fd >= 0 ? sizeof(control.bytes) : 0};
	ssize_t n;

	memcpy(CMSG_DATA(&control.head), &l->out_fd, sizeof(int));
	n = sendmsg(l->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT);
	if (n > 0) {
		cleanup_close_p(&l->out_fd);
		l->out_fd = -1;
	}
	return n;
}

static void flush(struct egress_link *l)
{
	while (buf_len(&l->out)) {
		ssize_t n = send_some(l);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			break; /* full; or a read finds out what happened */
		buf_consume(&l->out, (size_t)n);
		refill(l);
	}
}

int egress_link_say(struct egress_link *l, const char *line, uint64_t generation)
{
	char *copy = strlen(line) < EGRESS_SAY_MAX ? str_printf("%s\n", line) : NULL;

	if (!copy)
		return strlen(line) < EGRESS_SAY_MAX ? -ENOMEM : -EMSGSIZE;
	secret_free(l->next);
	l->next = copy;
	l->said = generation;
	if (l->closed || l->over)
		return 0;
	if (!uv_is_active((uv_handle_t *)&l->patience)) /* cannot fail */
		(void)uv_timer_start(&l->patience, on_impatient, EGRESS_PATIENCE_MS, 0);
	refill(l);
	flush(l);
	watch(l);
	return 0;
}

static int queue(struct egress_link *l, const char *line, int fd)
{
	struct message *m = l->queued < EGRESS_QUEUE_MAX ? calloc(1, sizeof(*m)) : NULL;

	if (!m || !(m->line = str_printf("%s\n", line))) {
		free(m);
		cleanup_close_p(&fd);
		return l->queued < EGRESS_QUEUE_MAX ? -ENOMEM : -EMSGSIZE;
	}
	m->fd = fd;
	*l->last = m;
	l->last = &m->next;
	l->queued++;
	return 0;
}

int egress_link_send(struct egress_link *l, const char *line, int fd)
{
	int r = queue(l, line, fd);

	if (r < 0 || l->closed || l->over)
		return r;
	refill(l);
	flush(l);
	watch(l);
	return 0;
}

static void on_impatient(uv_timer_t *t)
{
	lose(t->data, "it does not do what it is told");
}

/* --- what the worker says --- */

static bool has_applied(const struct egress_link *l, const json_t *object)
{
	json_int_t n = json_integer_value(json_object_get(object, "applied")); /* 0: it is none */

	return n > 0 && (uint64_t)n >= l->said && !(l->telling && buf_len(&l->out)) && !l->next;
}

static void refused(struct egress_link *l, const char *text)
{
	char why[256];

	(void)snprintf(why, sizeof(why), "it refuses its policy: %s", text); /* or cut off */
	lose(l, why);
}

static void take_line(struct egress_link *l, const char *line, size_t n)
{
	const char *reason;
	json_t *object = json_tree_parse(line, n, JSON_TREE_UNIQUE | JSON_TREE_NO_NUL, &reason);
	const char *error = json_string_value(json_object_get(object, "error"));

	if (has_applied(l, object))
		(void)uv_timer_stop(&l->patience); /* always 0 */
	if (error)
		refused(l, error);
	else if (object)
		l->ops->line(object, l->arg);
	else
		lose(l, "what it says is no JSON object");
	json_decref(object);
}

static bool has_line(struct egress_link *l)
{
	return buf_len(&l->in) && memchr(buf_head(&l->in), '\n', buf_len(&l->in));
}

static void take_lines(struct egress_link *l)
{
	for (int i = 0; i < LINES_A_TURN && !l->closed && !l->over && has_line(l); i++) {
		const char *line = (const char *)buf_head(&l->in),
			   *end = memchr(line, '\n', buf_len(&l->in));

		take_line(l, line, (size_t)(end - line));
		buf_consume(&l->in, (size_t)(end - line) + 1);
	}
	if (buf_len(&l->in) >= EGRESS_LINE_MAX && !has_line(l))
		lose(l, "it says a line that is too long");
	if (buf_len(&l->in) == 0)
		buf_done(&l->in); /* gives the memory back */
}

static void on_step(uv_timer_t *t)
{
	struct egress_link *l = t->data;

	l->used = 0;
	watch(l);
}

static void count(struct egress_link *l, size_t n)
{
	if (uv_now(l->poll.loop) - l->step_ms >= EGRESS_STEP_MS) {
		l->step_ms = uv_now(l->poll.loop);
		l->used = 0;
	}
	l->used += n;
	if (l->used >= EGRESS_BYTES_A_STEP)
		(void)uv_timer_start(&l->step, on_step, EGRESS_STEP_MS, 0); /* cannot fail */
}

static void receive(struct egress_link *l)
{
	uint8_t *p = buf_reserve(&l->in, READ_BYTES);
	ssize_t n = p ? recv(l->fd, p, READ_BYTES, MSG_DONTWAIT) : 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		lose(l, p ? "it has ended" : "out of memory");
		return;
	}
	buf_commit(&l->in, (size_t)n);
	count(l, (size_t)n);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct egress_link *l = h->data;

	if (status < 0)
		l->watched = 0; /* libuv has stopped the handle */
	flush(l);
	if (status < 0 || events & UV_READABLE)
		turn_ask(&l->turn);
	watch(l);
}

/* A share: some lines, which the daemon may have much to do for. */
static void on_turn(struct turn *t)
{
	struct egress_link *l = t->arg;

	if (l->closed || l->over)
		return;
	if (!has_line(l))
		receive(l);
	take_lines(l);
	if (!l->closed && !l->over && has_line(l))
		turn_ask(&l->turn);
	watch(l);
}

/* --- opening --- */

static int start(struct egress_link *l, uv_loop_t *loop)
{
	int r = turn_join(&l->turn, loop, on_turn, l);

	if (r == 0)
		r = uv_poll_init(loop, &l->poll, l->fd);
	if (r < 0) {
		turn_leave(&l->turn);
		return r;
	}
	(void)uv_timer_init(loop, &l->step); /* these cannot fail */
	(void)uv_timer_init(loop, &l->patience);
	l->poll.data = l->step.data = l->patience.data = l;
	l->handles = 3;
	watch(l);
	return 0;
}

int egress_link_open(uv_loop_t *loop, int dirfd, const struct egress_link_ops *ops, void *arg,
	struct egress_link **ret, struct error *e)
{
	_cleanup_close_ int fd = fd_unix_connect(dirfd, "egress.sock", SOCK_STREAM | SOCK_NONBLOCK);
	struct egress_link *l;
	int r;

	if (fd < 0)
		return error_set(e, ERROR_NOT_FOUND, -fd, "no worker listens");
	l = calloc(1, sizeof(*l));
	if (!l)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	l->fd = fd;
	l->out_fd = -1;
	l->last = &l->first;
	l->ops = ops;
	l->arg = arg;
	buf_init(&l->in, EGRESS_LINE_MAX + READ_BYTES);
	buf_init(&l->out, EGRESS_SAY_MAX);
	r = start(l, loop);
	if (r < 0) {
		free(l);
		return error_set(e, ERROR_INTERNAL, -r, "cannot watch the worker's socket");
	}
	(void)TAKE_FD(fd); /* the link has it */
	*ret = l;
	return 0;
}
