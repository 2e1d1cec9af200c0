#include "interpreter/channels.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zmq.h>

#include "base/log.h"
#include "base/str.h"

struct channel_socket {
	void *zmq;
	uv_poll_t poll;
	bool polled;
};

struct channels {
	struct channel_hub *hub;
	struct channels *next;
	struct channel_socket sockets[CHANNEL_COUNT];
	const struct channels_ops *ops;
	void *opaque;
	char key[MESSAGE_KEY_BYTES];
	char session[33];
	uint64_t sent; /* numbers our message ids */
	bool paused, closed;
	unsigned handles; /* libuv handles that are not closed yet */
	struct log_limit bad;
};

struct channel_hub {
	void *zmq;
	uv_loop_t *loop;
	uv_prepare_t prepare;
	uv_idle_t again; /* active while messages were left for the next turn */
	struct channels *first;
};

static const int socket_types[CHANNEL_COUNT] = {
	[CHANNEL_SHELL] = ZMQ_DEALER,
	[CHANNEL_IOPUB] = ZMQ_SUB,
	[CHANNEL_STDIN] = ZMQ_DEALER,
	[CHANNEL_CONTROL] = ZMQ_DEALER,
	[CHANNEL_HEARTBEAT] = ZMQ_DEALER, /* with a REQ's empty frame, without its order */
};

/* --- receiving --- */

struct received {
	zmq_msg_t parts[MESSAGE_FRAMES_MAX];
	size_t count;
};

static void done_received(struct received *r)
{
	while (r->count)
		(void)zmq_msg_close(&r->parts[--r->count]); /* valid: cannot fail */
}

/* Receives one whole message. Frames beyond the maximum are read and dropped. False: there is
 * none. */
static bool receive(void *socket, struct received *r)
{
	zmq_msg_t surplus;
	int more = 1;

	r->count = 0;
	while (more) {
		bool keep = r->count < MESSAGE_FRAMES_MAX;
		zmq_msg_t *m = keep ? &r->parts[r->count] : &surplus;

		(void)zmq_msg_init(m); /* always 0 */
		if (zmq_msg_recv(m, socket, ZMQ_DONTWAIT) < 0) {
			(void)zmq_msg_close(m);
			done_received(r);
			return false;
		}
		more = zmq_msg_more(m);
		if (keep)
			r->count++;
		else
			(void)zmq_msg_close(m);
	}
	return true;
}

static void deliver(struct channels *c, enum channel channel, struct received *r)
{
	struct frame frames[MESSAGE_FRAMES_MAX];
	struct message m;
	int err;

	if (channel == CHANNEL_HEARTBEAT) {
		c->ops->beat(c->opaque);
		return;
	}
	for (size_t i = 0; i < r->count; i++)
		frames[i] = (struct frame){zmq_msg_data(&r->parts[i]), zmq_msg_size(&r->parts[i])};
	err = message_decode(frames, r->count, c->key, &m);
	if (err == 0)
		c->ops->message(c->opaque, channel, &m);
	else if (log_limited(&c->bad))
		log_warn("a kernel's message was dropped: %s",
			err == -EPERM ? "its signature is wrong" : "it is malformed");
}

static bool is_readable(struct channel_socket *s)
{
	int events = 0;
	size_t n = sizeof(events);

	return zmq_getsockopt(s->zmq, ZMQ_EVENTS, &events, &n) == 0 && (events & ZMQ_POLLIN);
}

/* Delivers messages of one socket. Returns true if some may be left. */
static bool drain(struct channels *c, enum channel channel)
{
	struct channel_socket *s = &c->sockets[channel];
	struct received r;

	for (unsigned i = 0; i < CHANNELS_BURST; i++) {
		/* ask in any case: this also clears the descriptor's state */
		bool readable = is_readable(s);

		if (!readable || (channel == CHANNEL_IOPUB && c->paused))
			return false;
		if (!receive(s->zmq, &r))
			return false;
		deliver(c, channel, &r);
		done_received(&r);
		if (c->closed)
			return false;
	}
	return true;
}

static void free_closed(struct channel_hub *hub)
{
	for (struct channels **p = &hub->first; *p;) {
		struct channels *c = *p;

		if (c->closed && !c->handles) {
			*p = c->next;
			free(c);
		} else {
			p = &c->next;
		}
	}
}

static void on_again(uv_idle_t *idle)
{
}

/* Sending and unpausing may use up a wake-up, so the loop takes another turn before it waits. */
static void wake(struct channel_hub *hub)
{
	(void)uv_idle_start(&hub->again, on_again); /* cannot fail with a callback */
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct channel_hub *hub = prepare->data;
	bool left = false;

	(void)uv_idle_stop(&hub->again); /* always 0 */
	for (struct channels *c = hub->first; c; c = c->next)
		for (unsigned i = 0; i < CHANNEL_COUNT && !c->closed; i++)
			left |= drain(c, (enum channel)i);
	free_closed(hub);
	if (left)
		wake(hub);
}

/* --- the hub --- */

struct channel_hub *channel_hub_new(uv_loop_t *loop)
{
	struct channel_hub *hub = calloc(1, sizeof(*hub));

	if (!hub)
		return NULL;
	hub->loop = loop;
	hub->zmq = zmq_ctx_new();
	if (!hub->zmq) {
		free(hub);
		return NULL;
	}
	(void)zmq_ctx_set(hub->zmq, ZMQ_MAX_SOCKETS, 4096); /* else the default of 1023 */
	(void)uv_prepare_init(loop, &hub->prepare);	    /* these do not fail */
	(void)uv_idle_init(loop, &hub->again);
	hub->prepare.data = hub->again.data = hub;
	(void)uv_prepare_start(&hub->prepare, on_prepare);
	return hub;
}

void channel_hub_stop(struct channel_hub *hub)
{
	uv_close((uv_handle_t *)&hub->prepare, NULL);
	uv_close((uv_handle_t *)&hub->again, NULL);
}

void channel_hub_free(struct channel_hub *hub)
{
	if (!hub)
		return;
	free_closed(hub);
	(void)zmq_ctx_term(hub->zmq); /* no sockets are left, so this does not wait */
	free(hub);
}

/* --- sockets --- */

/* Does nothing: on_prepare looks at the sockets. */
static void on_wake(uv_poll_t *poll, int status, int events)
{
}

static void on_poll_closed(uv_handle_t *h)
{
	struct channels *c = h->data;

	c->handles--;
}

static void set_options(void *s, enum channel channel, const char *session)
{
	const int high_water = CHANNELS_HIGH_WATER, none = 0, reconnect_ms = 10,
		  reconnect_max_ms = 200;
	const int64_t message_max = CHANNELS_MESSAGE_MAX;

	/* known options with values of their types do not fail */
	(void)zmq_setsockopt(s, ZMQ_RCVHWM, &high_water, sizeof(high_water));
	(void)zmq_setsockopt(s, ZMQ_LINGER, &none, sizeof(none));
	(void)zmq_setsockopt(s, ZMQ_RECONNECT_IVL, &reconnect_ms, sizeof(reconnect_ms));
	(void)zmq_setsockopt(s, ZMQ_RECONNECT_IVL_MAX, &reconnect_max_ms, sizeof(reconnect_max_ms));
	(void)zmq_setsockopt(s, ZMQ_MAXMSGSIZE, &message_max, sizeof(message_max));
	if (channel == CHANNEL_IOPUB)
		(void)zmq_setsockopt(s, ZMQ_SUBSCRIBE, "", 0);
	else /* the kernel asks on stdin whoever sent the request on shell */
		(void)zmq_setsockopt(s, ZMQ_ROUTING_ID, session, strlen(session));
}

static int open_socket(struct channels *c, enum channel channel, uint16_t port)
{
	struct channel_socket *s = &c->sockets[channel];
	char address[32];
	size_t n = sizeof(int);
	int fd = -1;

	s->zmq = zmq_socket(c->hub->zmq, socket_types[channel]);
	if (!s->zmq)
		return -ENOMEM;
	set_options(s->zmq, channel, c->session);
	(void)snprintf(address, sizeof(address), "tcp://127.0.0.1:%u", port);
	if (zmq_connect(s->zmq, address) < 0 || zmq_getsockopt(s->zmq, ZMQ_FD, &fd, &n) < 0 ||
		uv_poll_init(c->hub->loop, &s->poll, fd) < 0)
		return -EIO;
	s->polled = true;
	s->poll.data = c;
	c->handles++;
	return uv_poll_start(&s->poll, UV_READABLE, on_wake);
}

static int make_session(struct channels *c)
{
	return str_random_id(c->session, sizeof(c->session));
}

struct channels *channels_open(struct channel_hub *hub, const uint16_t ports[CHANNEL_COUNT],
	const char *key, const struct channels_ops *ops, void *opaque)
{
	struct channels *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct channels){.hub = hub, .ops = ops, .opaque = opaque, .bad = LOG_LIMIT_INIT(5)};
	(void)snprintf(c->key, sizeof(c->key), "%s", key); /* as long as the caller's */
	c->next = hub->first;
	hub->first = c;
	if (make_session(c) < 0)
		goto fail;
	for (unsigned i = 0; i < CHANNEL_COUNT; i++)
		if (open_socket(c, (enum channel)i, ports[i]) < 0)
			goto fail;
	return c;
fail:
	channels_close(c);
	return NULL;
}

void channels_close(struct channels *c)
{
	if (!c || c->closed)
		return;
	c->closed = true; /* the hub frees it when libuv has closed its handles */
	for (unsigned i = 0; i < CHANNEL_COUNT; i++) {
		struct channel_socket *s = &c->sockets[i];

		if (s->polled)
			uv_close((uv_handle_t *)&s->poll, on_poll_closed);
		if (s->zmq)
			(void)zmq_close(s->zmq); /* a valid socket: cannot fail */
	}
}

void channels_pause(struct channels *c, bool paused)
{
	c->paused = paused;
	wake(c->hub);
}

/* --- sending --- */

static int send_frames(
	struct channel_hub *hub, void *socket, const struct frame *frames, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		int flags = ZMQ_DONTWAIT | (i + 1 < count ? ZMQ_SNDMORE : 0);

		if (zmq_send(socket, frames[i].data, frames[i].n, flags) < 0)
			return -errno; /* only the first frame can fail */
	}
	wake(hub);
	return 0;
}

int channels_send(struct channels *c, enum channel channel, const char *type, const void *content,
	size_t n, char ret_id[MESSAGE_ID_BYTES])
{
	char id[MESSAGE_ID_BYTES];
	struct message_out out;
	int r;

	if (c->closed)
		return -EAGAIN;
	(void)snprintf(id, sizeof(id), "%s_%llu", c->session, (unsigned long long)++c->sent);
	r = message_encode(&out, type, id, c->session, content, n, c->key);
	if (r == 0)
		r = send_frames(c->hub, c->sockets[channel].zmq, out.frames, MESSAGE_FRAMES_SENT);
	message_out_done(&out);
	if (r == 0 && ret_id)
		memcpy(ret_id, id, sizeof(id));
	return r;
}

int channels_beat(struct channels *c)
{
	static const struct frame frames[] = {{"", 0}, {"ping", 4}};

	return send_frames(c->hub, c->sockets[CHANNEL_HEARTBEAT].zmq, frames, 2);
}
