#include "envd/envd_call.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_absent.h"
#include "fleet/fleet_of.h"

/* --- timers: freed when libuv has let go of them --- */

static void on_timer_closed(uv_handle_t *h)
{
	free(h);
}

static void timer_close(uv_timer_t **t)
{
	if (*t)
		uv_close((uv_handle_t *)*t, on_timer_closed);
	*t = NULL;
}

static uv_timer_t *timer_open(
	struct envd_call *c, uv_timer_cb callback, uint64_t ms, uint64_t repeat_ms)
{
	uv_timer_t *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	(void)uv_timer_init(request_loop(c->r), t); /* cannot fail */
	t->data = c;
	(void)uv_timer_start(t, callback, ms, repeat_ms); /* cannot fail with a callback */
	return t;
}

static void on_deadline(uv_timer_t *t)
{
	struct envd_call *c = t->data;
	struct envd_error e;

	(void)envd_fail(&e, CONNECT_DEADLINE_EXCEEDED, "the request's time limit passed");
	if (!c->over)
		c->ops->fail(c, &e);
}

static void on_keepalive(uv_timer_t *t)
{
	struct envd_call *c = t->data;

	if (!c->over && c->ops->keepalive)
		c->ops->keepalive(c);
}

int envd_call_set_deadline(struct envd_call *c, uint64_t ms)
{
	if (ms == UINT64_MAX || ms == 0)
		return 0;
	timer_close(&c->deadline);
	c->deadline = timer_open(c, on_deadline, ms, 0);
	return c->deadline ? 0 : -ENOMEM;
}

int envd_call_set_keepalive(struct envd_call *c, uint32_t seconds)
{
	uint64_t ms = (seconds ? seconds : CONNECT_KEEPALIVE_DEFAULT_S) * UINT64_C(1000);

	timer_close(&c->keepalive);
	c->keepalive = timer_open(c, on_keepalive, ms, ms);
	return c->keepalive ? 0 : -ENOMEM;
}

/* --- the agent's side --- */

static void on_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct envd_call *c = arg;
	struct envd_error e;

	if (c->over)
		return;
	if (ev->type == AGENT_ERROR)
		c->refusal = agent_error_class_name(ev->error.class);
	if (ev->type != AGENT_ERROR) {
		if (c->ops->event)
			c->ops->event(c, ev);
	} else if (c->ops->refused) {
		c->ops->refused(c, &ev->error);
	} else {
		envd_error_of_agent(&ev->error, &e);
		c->ops->fail(c, &e);
	}
}

static void on_writable(struct agent_link *l, void *arg)
{
	struct envd_call *c = arg;

	if (!c->over && c->ops->writable)
		c->ops->writable(c);
}

static void on_lost(struct agent_link *l, const struct error *why, void *arg)
{
	struct envd_call *c = arg;
	struct envd_error e;

	if (c->over)
		return;
	(void)envd_lost_fail(fleet_of(c->r), c->sandbox_id, why, &e);
	c->ops->fail(c, &e);
}

static const struct agent_link_ops link_ops = {on_event, on_writable, on_lost};

static int open_link(struct envd_call *c, struct envd_error *e)
{
	struct instance *i = instance_find(fleet_of(c->r), c->sandbox_id);
	struct error why = {0};
	int r = -ENOENT;

	if (i)
		r = instance_agent_connect(i, c->second_link ? LINK_DOUBLE : LINK_SINGLE, &link_ops,
			c, &c->link, &why);
	if (r < 0 && why.code == ERROR_NO_SPACE)
		return envd_fail(e, CONNECT_UNAVAILABLE, "%s", why.message);
	if (r < 0)
		return envd_absent_fail(fleet_of(c->r), c->sandbox_id, e);
	request_hold(c->r, agent_link_hold(c->link));
	return 0;
}

int envd_call_ask(
	struct envd_call *c, enum agent_type type, const void *message, struct envd_error *e)
{
	struct error why = {0};
	int r = c->link ? 0 : open_link(c, e);

	if (r < 0)
		return r;
	r = agent_request(agent_link_conn(c->link), type, message, &why);
	if (r < 0)
		envd_error_of_host(&why, e);
	else
		agent_link_send(c->link);
	return r;
}

/* Closes the link; the next message opens another. */
static void hang_up(struct envd_call *c)
{
	agent_link_close(c->link);
	c->link = NULL;
}

bool envd_call_can_send(const struct envd_call *c)
{
	return c->link && agent_link_has_room(c->link, ENVD_QUEUE_HIGH);
}

/* --- the client's side --- */

static void on_body(struct request *r, const uint8_t *data, size_t n)
{
	struct envd_call *c = r->data;

	if (!c->over && c->ops->body)
		c->ops->body(c, data, n);
}

static void on_body_end(struct request *r)
{
	struct envd_call *c = r->data;

	if (!c->over && c->ops->body_end)
		c->ops->body_end(c);
}

static void on_drained(struct request *r)
{
	struct envd_call *c = r->data;

	if (c->over)
		return;
	if (c->link)
		agent_link_resume(c->link);
	if (c->ops->drained)
		c->ops->drained(c);
}

static void on_done(struct request *r, bool complete)
{
	struct envd_call *c = r->data;

	envd_call_finish(c);
	if (c->ops->done)
		c->ops->done(c);
	buf_done(&c->out);
	free(c);
}

struct envd_call *envd_call_new(
	struct request *r, const struct instance *i, const struct envd_ops *ops)
{
	static const struct request_ops request_ops = {on_body, on_body_end, on_drained, on_done};
	struct envd_call *c = calloc(1, sizeof(*c));
	struct envd_error e;

	if (!c) {
		(void)envd_fail(&e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
		e.status = 503;
		envd_reply_error(r, instance_id(i), &e);
		return NULL;
	}
	c->r = r;
	c->ops = ops;
	strcpy(c->sandbox_id, instance_id(i)); /* bounded by route_sandbox_id */
	buf_init(&c->out, ENVD_OUT_MAX);
	request_set_ops(r, &request_ops, c);
	return c;
}

void envd_call_finish(struct envd_call *c)
{
	c->over = true;
	timer_close(&c->keepalive);
	timer_close(&c->deadline);
	hang_up(c);
}

void envd_call_abort(struct envd_call *c)
{
	request_abort(c->r);
	envd_call_finish(c);
}

void envd_call_write(struct envd_call *c, const void *data, size_t n)
{
	int r = request_write(c->r, data, n);

	if (r < 0) {
		envd_call_abort(c);
		return;
	}
	if (r > 0 && c->link)
		agent_link_pause(c->link);
	if (c->keepalive)
		(void)uv_timer_again(c->keepalive); /* cannot fail: it repeats */
}

void envd_call_flush(struct envd_call *c)
{
	if (buf_len(&c->out))
		envd_call_write(c, buf_head(&c->out), buf_len(&c->out));
	buf_clear(&c->out);
}

void envd_call_fail_http(struct envd_call *c, const struct envd_error *e)
{
	if (c->r->state != REQUEST_NONE) {
		envd_call_abort(c);
		return;
	}
	envd_reply_error(c->r, c->sandbox_id, e);
	envd_call_finish(c);
}
