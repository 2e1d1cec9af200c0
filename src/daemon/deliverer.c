#include "daemon/deliverer.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "fleet/turns.h"
#include "io/child.h"
#include "io/program.h"

enum {
	REST_MS = 1000,
	FAILED_REST_MS = 5000, /* after it could not be started */
	LAST_WORDS_MS = 200,   /* for what it says when it ends by itself */
	RESULTS_A_TURN = 16,
};

static const char name[] = "mayfly-deliver";

enum deliverer_state { DOWN, STARTING, UP, ENDING, RESTING };

struct deliverer {
	enum deliverer_state state;
	uv_loop_t *loop;
	const struct deliverer_ops *ops;
	void *arg;
	char *ca; /* owned, or NULL */
	uv_timer_t rest;
	uv_poll_t poll; /* open while UP */
	struct turn turn;
	uv_work_t work; /* while STARTING or ENDING, when it has the next members */
	struct child child;
	char path[PATH_MAX];
	struct error why;
	int fd;	   /* -1 unless UP */
	bool full; /* we owe a call of ready */
	bool stopped;
};

static void on_poll(uv_poll_t *h, int status, int events);
static void on_turn(struct turn *t);

/* --- in a thread --- */

static int make_pair(struct deliverer *d, int *ret_far)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) < 0)
		return -errno;
	d->fd = pair[0];
	*ret_far = pair[1];
	return fd_set_nonblock(d->fd, 1);
}

static void start_child(uv_work_t *w)
{
	struct deliverer *d = w->data;
	const char *const copy[] = {d->ca, NULL};
	const struct io_workshop workshop = {.user = "nobody", .network = true, .copy = copy};
	const char *argv[] = {d->path, d->ca, NULL};
	_cleanup_close_ int far = -1;
	struct child_options o = {.argv = argv, .cwd = "/", .workshop = &workshop};
	int r = program_path(name, d->path, sizeof(d->path), &d->why);

	if (r == 0) {
		r = make_pair(d, &far);
		if (r < 0)
			(void)error_set_errno(&d->why, ERROR_HOST, -r, "a socket for %s", name);
	}
	if (r < 0)
		return;
	o.stdin_fd = far;
	if (child_start(&d->child, &o, &d->why) == 0)
		d->child.name = name;
}

/* It may have ended by itself, and have said why. */
static void end_child(uv_work_t *w)
{
	struct deliverer *d = w->data;

	d->child.deadline_ns = clock_monotonic_ns() + LAST_WORDS_MS * NS_PER_MS;
	(void)child_finish(&d->child, &d->why); /* d->why says it */
	child_done(&d->child);
}

/* --- its states --- */

static void free_stopped(struct deliverer *d)
{
	cleanup_close_p(&d->fd);
	free(d->ca);
	free(d);
}

static void on_rest_closed(uv_handle_t *h)
{
	free_stopped(h->data);
}

static void close_rest(struct deliverer *d)
{
	uv_close((uv_handle_t *)&d->rest, on_rest_closed);
}

static void on_rested(uv_timer_t *t)
{
	struct deliverer *d = t->data;

	d->state = DOWN;
	d->ops->ready(d->arg);
}

static void rest(struct deliverer *d, unsigned ms)
{
	static struct log_limit limit = LOG_LIMIT_INIT(10);

	if (d->why.code != ERROR_NONE && log_limited(&limit))
		log_error("deliveries to webhooks wait: %s", d->why.message);
	d->why = (struct error){0};
	d->state = RESTING;
	(void)uv_timer_start(&d->rest, on_rested, ms, 0); /* cannot fail */
}

static void on_ended(uv_work_t *w, int status)
{
	struct deliverer *d = w->data;

	if (d->stopped)
		close_rest(d);
	else
		rest(d, REST_MS);
}

static void end_in_thread(struct deliverer *d)
{
	cleanup_close_p(&d->fd);
	d->fd = -1;
	d->state = ENDING;
	(void)uv_queue_work(d->loop, &d->work, end_child, on_ended); /* needs a callback only */
}

/* libuv has let go of the descriptor. */
static void on_poll_closed(uv_handle_t *h)
{
	end_in_thread(h->data);
}

static void close_poll(struct deliverer *d)
{
	d->state = ENDING;
	d->full = false;
	turn_leave(&d->turn);
	uv_close((uv_handle_t *)&d->poll, on_poll_closed);
}

void deliverer_give_up(struct deliverer *d, const char *why)
{
	if (d->state != UP)
		return;
	close_poll(d);
	d->ops->lost(why, d->arg);
}

static int watch(struct deliverer *d)
{
	int r = turn_join(&d->turn, d->loop, on_turn, d);

	if (r == 0)
		r = uv_poll_init(d->loop, &d->poll, d->fd);
	if (r < 0) {
		turn_leave(&d->turn);
		return r;
	}
	d->state = UP;
	(void)uv_poll_start(&d->poll, UV_READABLE, on_poll); /* fails only for closed handles */
	return 0;
}

static void on_started(uv_work_t *w, int status)
{
	struct deliverer *d = w->data;
	bool started = d->child.pid > 0;

	if (started && (d->stopped || watch(d) < 0)) {
		end_in_thread(d);
	} else if (started) {
		d->ops->ready(d->arg);
	} else if (d->stopped) {
		close_rest(d);
	} else {
		cleanup_close_p(&d->fd);
		d->fd = -1;
		rest(d, FAILED_REST_MS);
	}
}

static void start(struct deliverer *d)
{
	d->state = STARTING;
	d->child = (struct child)CHILD_INIT;
	(void)uv_queue_work(d->loop, &d->work, start_child, on_started); /* as above */
}

/* --- what it says --- */

static bool is_sound(const struct deliver_said *s)
{
	return s->end < DELIVER_ENDS_ && s->status < 1000 && memchr(s->why, '\0', sizeof(s->why));
}

/* Its text is a receiver's in part. */
static void clean(char *text)
{
	for (; *text; text++)
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = ' ';
}

/* Returns false if there is nothing more, or it is lost. */
static bool take_result(struct deliverer *d)
{
	struct deliver_said said;
	ssize_t n = recv(d->fd, &said, sizeof(said), MSG_DONTWAIT | MSG_TRUNC);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (n <= 0) {
		deliverer_give_up(d, "mayfly-deliver has ended");
		return false;
	}
	if (n != sizeof(said) || !is_sound(&said)) {
		deliverer_give_up(d, "mayfly-deliver said what it may not, and was ended");
		return false;
	}
	clean(said.why);
	if (!d->ops->said(&said, d->arg))
		deliverer_give_up(d, "mayfly-deliver said what it may not, and was ended");
	return d->state == UP && !d->stopped;
}

static void on_turn(struct turn *t)
{
	struct deliverer *d = t->arg;

	for (int i = 0; i < RESULTS_A_TURN; i++)
		if (!take_result(d))
			return;
	turn_ask(&d->turn);
}

static void on_poll(uv_poll_t *h, int status, int events)
{
	struct deliverer *d = h->data;

	if (status < 0 || events & UV_READABLE)
		turn_ask(&d->turn);
	if (!(events & UV_WRITABLE))
		return;
	(void)uv_poll_start(h, UV_READABLE, on_poll); /* as above */
	d->full = false;
	d->ops->ready(d->arg);
}

/* --- what it is told --- */

static int send_packet(struct deliverer *d, const struct delivery *what)
{
	struct deliver_ask ask = {
		.version = DELIVER_VERSION,
		.public_only = what->public_only,
		.id = what->id,
		.url_bytes = (uint32_t)strlen(what->url) + 1,
		.fields_bytes = (uint32_t)buf_len(what->fields),
		.body_bytes = (uint32_t)strlen(what->body),
	};
	struct iovec parts[] = {{&ask, sizeof(ask)}, {(void *)(uintptr_t)what->url, ask.url_bytes},
		{(void *)(uintptr_t)buf_head(what->fields), ask.fields_bytes},
		{(void *)(uintptr_t)what->body, ask.body_bytes}};
	const struct msghdr m = {.msg_iov = parts, .msg_iovlen = ARRAY_SIZE(parts)};

	if (sizeof(ask) + ask.url_bytes + ask.fields_bytes + ask.body_bytes > DELIVER_ASK_MAX)
		return -EMSGSIZE;
	return sendmsg(d->fd, &m, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 ? -errno : 0;
}

bool deliverer_is_ready(struct deliverer *d)
{
	if (d->state == DOWN)
		start(d);
	return d->state == UP && !d->full;
}

int deliverer_send(struct deliverer *d, const struct delivery *what)
{
	int r = send_packet(d, what);

	if (r == 0 || r == -EMSGSIZE)
		return r;
	d->full = true; /* or it has ended, and a read tells */
	(void)uv_poll_start(&d->poll, UV_READABLE | UV_WRITABLE, on_poll); /* as above */
	return -EAGAIN;
}

/* --- opening --- */

int deliverer_open(uv_loop_t *loop, const char *ca, const struct deliverer_ops *ops, void *arg,
	struct deliverer **ret, struct error *e)
{
	struct deliverer *d = calloc(1, sizeof(*d));

	if (!d)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	*d = (struct deliverer){
		.loop = loop, .ops = ops, .arg = arg, .fd = -1, .child = CHILD_INIT};
	d->ca = ca ? realpath(ca, NULL) : NULL;
	if (ca && !d->ca) {
		free(d);
		return error_set_errno(e, ERROR_USAGE, errno, "--webhook-ca %s", ca);
	}
	(void)uv_timer_init(loop, &d->rest); /* cannot fail */
	d->rest.data = d->poll.data = d->work.data = d;
	*ret = d;
	return 0;
}

void deliverer_stop(struct deliverer *d)
{
	if (!d)
		return;
	d->stopped = true;
	(void)uv_timer_stop(&d->rest); /* always 0 */
	if (d->state == UP) {
		child_done(&d->child);
		close_poll(d); /* then, on_ended frees it */
	} else if (d->state == DOWN || d->state == RESTING) {
		close_rest(d);
	}
}
