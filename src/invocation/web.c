#include "invocation/web.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "fleet/fleet.h"
#include "fleet/upstream.h"
#include "proto/http.h"
#include "proto/http_response.h"

enum { RETRY_MS = 20, RETRY_MAX_MS = 320, HEAD_MAX = 8 * 1024 };

struct web {
	struct fleet *fleet;
	char sandbox_id[SANDBOX_ID_BYTES];
	struct web_order order;
	const struct web_ops *ops;
	void *arg;
	struct upstream *up;
	struct http_parser *parser;
	uv_timer_t retry;
	unsigned retry_ms;
	size_t sent; /* of the body */
	bool paused;
	bool reached; /* something listens, or did */
	bool over;    /* the last callback was made */
};

static void on_retry(uv_timer_t *t);

static void fail(struct web *w, const char *why)
{
	if (w->over)
		return;
	w->over = true;
	w->ops->failed(w->arg, why);
}

/* --- the answer --- */

static void take_head(struct web *w)
{
	const struct http_head *head = http_parser_head(w->parser);
	const char *type = http_header_get(&head->headers, "Content-Type");

	w->ops->answered(w->arg, head->status, type ? type : "");
}

/* Handles an event. Returns false if there is no more for now. A callback may close w. */
static bool act(struct web *w, enum http_event event)
{
	const uint8_t *data;
	size_t n;

	switch (event) {
	case HTTP_BODY:
		data = http_parser_body(w->parser, &n);
		w->ops->data(w->arg, data, n);
		return true;
	case HTTP_HEAD:
		take_head(w);
		return true;
	case HTTP_INTERIM:
		return true;
	case HTTP_END:
		w->over = true;
		w->ops->ended(w->arg);
		return false;
	case HTTP_UPGRADE:
	case HTTP_ERROR:
		fail(w, "its answer is no valid HTTP");
		return false;
	default:
		return false;
	}
}

static void on_data(struct upstream *u, const uint8_t *data, size_t n, void *arg)
{
	struct web *w = arg;
	size_t used;

	while (!w->over && act(w, http_parser_next(w->parser, data, n, &used))) {
		data += used;
		n -= used;
	}
}

static void on_eof(struct upstream *u, void *arg)
{
	struct web *w = arg;

	if (http_parser_eof(w->parser) == HTTP_END) {
		w->over = true;
		w->ops->ended(w->arg);
	} else {
		fail(w, "it closed the connection before the end of its answer");
	}
}

static void on_opened(struct upstream *u, void *arg)
{
	struct web *w = arg;

	w->reached = true;
}

static void on_lost(struct upstream *u, enum agent_error_class why, void *arg)
{
	struct web *w = arg;

	upstream_close(TAKE_PTR(w->up));
	if (why == AGENT_ERR_REFUSED)					   /* not yet */
		(void)uv_timer_start(&w->retry, on_retry, w->retry_ms, 0); /* has a callback */
	else
		fail(w, why == AGENT_ERR_LIMIT ? "too many requests use its sandbox at once"
					       : "the connection to it was lost");
}

/* --- the request --- */

static void send_body(struct web *w)
{
	const uint8_t *body = w->order.body;

	while (w->up && w->sent < w->order.body_bytes) {
		size_t n = w->order.body_bytes - w->sent;
		int r;

		n = n < UPSTREAM_LOW ? n : UPSTREAM_LOW;
		r = upstream_write(w->up, body + w->sent, n);
		w->sent += r < 0 ? 0 : n;
		if (r)
			return; /* full, or lost */
	}
}

static void on_writable(struct upstream *u, void *arg)
{
	send_body(arg);
}

static int write_head(const struct web *w, struct buf *out)
{
	struct http_writer hw = http_writer_request(out, "POST", "/invocations");

	http_writer_header(&hw, "Host", "localhost");
	http_writer_header(&hw, "Content-Type", w->order.content_type);
	if (w->order.session)
		http_writer_header(
			&hw, "X-Amzn-Bedrock-AgentCore-Runtime-Session-Id", w->order.session);
	http_writer_header_u64(&hw, "Content-Length", w->order.body_bytes);
	return http_writer_finish(&hw);
}

static void on_retry(uv_timer_t *t)
{
	static const struct upstream_ops ops = {.opened = on_opened,
		.data = on_data,
		.eof = on_eof,
		.writable = on_writable,
		.lost = on_lost};
	_cleanup_(buf_done) struct buf head = BUF_INIT(HEAD_MAX);
	struct web *w = t->data;
	struct instance *i = instance_find(w->fleet, w->sandbox_id);

	w->retry_ms = w->retry_ms * 2 < RETRY_MAX_MS ? w->retry_ms * 2 : RETRY_MAX_MS;
	w->sent = 0;
	if (!i || write_head(w, &head) < 0 ||
		upstream_open(w->fleet->loop, i, w->order.port, &ops, w, &w->up) < 0) {
		fail(w, "it cannot be reached");
		return;
	}
	if (w->paused)
		upstream_pause(w->up);
	(void)upstream_write(w->up, buf_head(&head), buf_len(&head)); /* a loss is told */
	send_body(w);
}

static void on_closed(uv_handle_t *h)
{
	struct web *w = h->data;

	http_parser_free(w->parser);
	free(w);
}

struct web *web_open(struct fleet *f, const char *sandbox_id, const struct web_order *o,
	const struct web_ops *ops, void *arg)
{
	struct web *w = calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->parser = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	if (!w->parser) {
		free(w);
		return NULL;
	}
	w->fleet = f;
	(void)snprintf(w->sandbox_id, sizeof(w->sandbox_id), "%s", sandbox_id); /* same size */
	w->order = *o;
	w->ops = ops;
	w->arg = arg;
	w->retry_ms = RETRY_MS / 2;
	(void)uv_timer_init(f->loop, &w->retry); /* cannot fail */
	w->retry.data = w;
	(void)uv_timer_start(&w->retry, on_retry, 0, 0); /* has a callback */
	return w;
}

bool web_was_reached(const struct web *w)
{
	return w->reached;
}

void web_pause(struct web *w)
{
	w->paused = true;
	if (w->up)
		upstream_pause(w->up);
}

void web_resume(struct web *w)
{
	w->paused = false;
	if (w->up)
		upstream_resume(w->up);
}

void web_close(struct web *w)
{
	if (!w)
		return;
	w->over = true;
	upstream_close(TAKE_PTR(w->up));
	uv_close((uv_handle_t *)&w->retry, on_closed);
}
