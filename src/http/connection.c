#include "http/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "http/peers.h"
#include "proto/http_response.h"

enum { ROUTE_NAME_BYTES = 128 };

static void update_reading(struct connection *c);

/* --- making and ending --- */

static const struct transport_ops transport_ops;

struct connection *connection_new(struct connections *all, enum server_door door)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->parser = http_parser_new(HTTP_ROLE_SERVER, NULL);
	if (!c->parser || transport_init(&c->transport, all->loop, door == SERVER_ADMIN,
				  door == SERVER_PUBLIC ? all->tls : NULL, all->scratch,
				  &transport_ops, c) < 0) {
		http_parser_free(c->parser);
		free(c);
		return NULL;
	}
	c->all = all;
	c->door = door;
	c->deadline_ns = UINT64_MAX; /* none until it is accepted */
	buf_init(&c->in, CONNECTION_IN_MAX);
	buf_init(&c->out, CONNECTION_OUT_MAX);
	c->next = all->first;
	if (c->next)
		c->next->prev = c;
	all->first = c;
	all->count++;
	return c;
}

static void unlist(struct connection *c)
{
	struct connections *all = c->all;

	if (c->prev)
		c->prev->next = c->next;
	else
		all->first = c->next;
	if (c->next)
		c->next->prev = c->prev;
	all->count--;
	peers_leave(all->peers, c->who);
	c->who = NULL;
	if (c->hold.account)
		c->hold.account->connections--;
	budget_release(&c->hold);
}

static void free_connection(struct connection *c)
{
	http_parser_free(c->parser);
	buf_done(&c->in);
	buf_done(&c->out);
	transport_done(&c->transport);
	free(c);
}

static void on_closed(void *arg)
{
	struct connection *c = arg;

	unlist(c);
	c->is_closed = true;
	if (!c->is_dirty)
		free_connection(c); /* otherwise its turn frees it */
}

void connection_mark(struct connection *c)
{
	struct connections *all = c->all;

	if (c->is_dirty)
		return;
	c->is_dirty = true;
	c->dirty_next = NULL;
	if (all->dirty)
		all->dirty_last->dirty_next = c;
	else
		all->dirty = c;
	all->dirty_last = c;
}

size_t connection_queued(const struct connection *c)
{
	return buf_len(&c->out) + transport_queued(&c->transport);
}

/* Names routes by their patterns, never by what clients send. There are few patterns, and they
 * contain no ids, tokens or signatures. */
static void name_route(const struct request *r, char *out, size_t n)
{
	bool sandbox = r->route.kind == ROUTE_SANDBOX || r->route.kind == ROUTE_SIGNED;

	if (sandbox)
		(void)snprintf(out, n, "%s", route_surface(&r->route)); /* fits, as below */
	else if (r->pattern)
		(void)snprintf(out, n, "%s %s", r->head_only ? "GET" : r->head->method, r->pattern);
	else
		(void)snprintf(out, n, "unknown");
}

static void count_request(const struct request *r, const char *route, uint64_t ns)
{
	static const char *const classes[] = {"none", "1xx", "2xx", "3xx", "4xx", "5xx"};
	unsigned class = r->status / 100;

	metrics_add(METRIC_REQUESTS, route, classes[class < ARRAY_SIZE(classes) ? class : 0], 1);
	if (r->pattern)
		metrics_observe(METRIC_REQUEST_SECONDS, route, (double)ns / NS_PER_S);
}

/* Logs one line per request: at info for the control API, at debug for the surfaces of sandboxes,
 * which get many. */
static void conclude_request(const struct request *r, bool complete)
{
	enum log_level level = r->route.kind == ROUTE_API ? LOG_LEVEL_INFO : LOG_LEVEL_DEBUG;
	uint64_t ns = clock_monotonic_ns() - r->start_ns;
	char route[ROUTE_NAME_BYTES];

	name_route(r, route, sizeof(route));
	count_request(r, route, ns);
	if (!log_enabled(level))
		return;
	log_write(level, "%s%s status=%u ms=%llu request=%s peer=%s%s%s%s%s", route,
		complete ? "" : " (cut off)", r->status, (unsigned long long)(ns / NS_PER_MS),
		r->id, *r->peer ? r->peer : "admin", r->key_id ? " key=" : "",
		r->key_id ? r->key_id : "", *r->route.sandbox_id ? " sandbox=" : "",
		r->route.sandbox_id);
}

/* Tells the handler that its request is over. The request stays until the rest of its body is
 * read. */
static void tell_done(struct request *r, bool complete)
{
	const struct request_ops *ops = r->ops;

	if (r->told_done)
		return;
	r->told_done = true;
	r->connection->known = r->connection->known || r->key || r->metered;
	r->state = complete ? REQUEST_ENDED : REQUEST_GONE;
	r->ops = NULL;
	conclude_request(r, complete);
	if (ops && ops->done)
		ops->done(r, complete);
}

static void free_request(struct connection *c)
{
	struct request *r = c->request;

	c->request = NULL;
	c->all->ops->release(r);
	free(r->path);
	free(r);
}

void connection_close(struct connection *c)
{
	if (c->state == CONNECTION_CLOSED)
		return;
	c->state = CONNECTION_CLOSED;
	if (c->request) {
		tell_done(c->request, false);
		free_request(c);
	}
	transport_close(&c->transport);
}

/* Accepts nothing more; what is queued is still sent. */
static void finish(struct connection *c)
{
	if (c->state != CONNECTION_OPEN)
		return;
	c->state = CONNECTION_LAST;
	if (c->request) {
		tell_done(c->request, c->request->state == REQUEST_ENDED);
		free_request(c);
	}
	buf_done(&c->in);
	connection_mark(c);
}

/* --- requests --- */

static void next_id(struct connections *all, char out[REQUEST_ID_BYTES])
{
	(void)snprintf(out, REQUEST_ID_BYTES, "%08x%08x", all->run, ++all->requests); /* fits */
}

void connection_count(struct request *r, uint64_t in_bytes, uint64_t out_bytes)
{
	if (r->metered)
		r->connection->all->ops->traffic(r, in_bytes, out_bytes);
}

static void begin_request(struct connection *c)
{
	struct request *r = calloc(1, sizeof(*r));

	if (!r) {
		connection_close(c);
		return;
	}
	r->owner = c->all->owner;
	r->connection = c;
	r->head = http_parser_head(c->parser);
	r->admin = c->door == SERVER_ADMIN;
	r->start_ns = clock_monotonic_ns();
	r->head_only = strcmp(r->head->method, "HEAD") == 0;
	memcpy(r->peer, c->peer, sizeof(r->peer));
	r->encrypted = c->transport.tls != NULL;
	next_id(c->all, r->id);
	c->request = r;
	c->begun = true;
	c->dropped = 0;
	if (c->door != SERVER_METRICS)
		route_classify(r->head, c->all->domain, &r->route);
	c->all->ops->request(r);
}

/* Refuses bytes that are no valid request. */
static void refuse(struct connection *c, unsigned status, const char *reason)
{
	char id[REQUEST_ID_BYTES];
	const struct http_reply reply = {.status = status, .close = true, .request_id = id};
	bool answered = c->request && c->request->state != REQUEST_NONE;

	if (answered) {
		/* in the middle of an answer nothing can be said */
		connection_close(c);
		return;
	}
	next_id(c->all, id);
	log_debug("refused: %s request=%s status=%u", reason, id, status);
	metrics_add(METRIC_REQUESTS, "malformed", "4xx", 1);
	if (http_reply_error(&c->out, &reply, NULL, reason) < 0) {
		connection_close(c);
		return;
	}
	finish(c);
}

static void deliver(struct connection *c, const uint8_t *data, size_t n)
{
	struct request *r = c->request;

	c->progress = true;
	metrics_add(METRIC_BYTES, route_surface(&r->route), "in", (double)n);
	if (r->ops && r->state < REQUEST_ENDED) {
		connection_count(r, n, 0);
		if (r->ops->body)
			r->ops->body(r, data, n);
		return;
	}
	c->dropped += n;
	if (c->dropped > CONNECTION_DROP_MAX)
		finish(c);
}

static bool is_paused(const struct request *r)
{
	return !r->received && !r->reading && r->state < REQUEST_ENDED &&
	       (r->head->has_body || r->state == REQUEST_RAW);
}

/* Whether received bytes have to wait. */
static bool is_blocked(const struct connection *c)
{
	const struct request *r = c->request;

	if (c->state != CONNECTION_OPEN || c->aborted)
		return true;
	return r && (r->received || is_paused(r));
}

static void take_event(struct connection *c, enum http_event ev)
{
	const uint8_t *data;
	size_t n;

	switch (ev) {
	case HTTP_HEAD:
		begin_request(c);
		break;
	case HTTP_BODY:
		data = http_parser_body(c->parser, &n);
		deliver(c, data, n);
		break;
	case HTTP_END:
	case HTTP_UPGRADE:
		c->request->received = true;
		break;
	case HTTP_ERROR:
		refuse(c, http_parser_status(c->parser), http_parser_reason(c->parser));
		break;
	default:
		break;
	}
}

/* Parses and delivers as much as possible; returns the number of bytes used. */
static size_t process(struct connection *c, const uint8_t *data, size_t n)
{
	size_t used = 0;

	while (!is_blocked(c)) {
		enum http_event ev;
		size_t k = 0;

		if (c->request && c->request->state == REQUEST_RAW) {
			if (used < n)
				deliver(c, data + used, n - used);
			return n;
		}
		ev = http_parser_next(c->parser, data + used, n - used, &k);
		used += k;
		if (ev == HTTP_MORE || ev == HTTP_REST)
			break;
		take_event(c, ev);
	}
	return c->state == CONNECTION_OPEN ? used : n;
}

static void process_waiting(struct connection *c)
{
	size_t n = buf_len(&c->in), used;

	if (is_blocked(c))
		return;
	used = process(c, n ? buf_head(&c->in) : (const uint8_t *)"", n);
	if (c->state == CONNECTION_OPEN && used)
		buf_consume(&c->in, used);
	if (!buf_len(&c->in))
		buf_done(&c->in);
}

/* --- reading --- */

static void take_bytes(void *arg, const uint8_t *data, size_t n)
{
	struct connection *c = arg;
	size_t used = 0;

	if (c->state != CONNECTION_OPEN)
		return; /* dropped */
	if (!buf_len(&c->in))
		used = process(c, data, n);
	if (c->state == CONNECTION_OPEN && used < n && buf_add(&c->in, data + used, n - used) < 0)
		connection_close(c);
	if (c->state == CONNECTION_CLOSED)
		return;
	connection_mark(c);
	update_reading(c); /* libuv reads several times in a row */
}

/* The client closed its direction. If it still waits for an answer, this means that it has gone. */
static void take_eof(void *arg)
{
	struct connection *c = arg;
	struct request *r = c->request;

	c->eof = true;
	if (c->state == CONNECTION_LAST || (r && r->state == REQUEST_RAW) ||
		(r && r->state == REQUEST_ENDED && connection_queued(c)))
		connection_mark(c);
	else
		connection_close(c);
}

static void take_failure(void *arg)
{
	metrics_add(METRIC_CONNECTIONS_FAILED, NULL, NULL, 1);
	connection_close(arg);
}

static void take_plain_http(void *arg)
{
	refuse(arg, 400, "this port speaks TLS: use https:// instead of http://");
}

/* Nothing is read while a body is paused, or while too much is queued. Otherwise always, so that a
 * client that goes is noticed. */
static void update_reading(struct connection *c)
{
	bool want = !c->eof && buf_len(&c->in) < CONNECTION_IN_MAX - TRANSPORT_READ_BYTES &&
		    !(c->request && is_paused(c->request)) &&
		    !(buf_len(&c->in) && budget_is_short(&c->hold));

	if (transport_read(&c->transport, want) < 0)
		connection_close(c);
}

/* --- writing --- */

static void take_moved(void *arg)
{
	struct connection *c = arg;

	c->progress = true;
	connection_mark(c);
}

static void take_ended(void *arg)
{
	struct connection *c = arg;

	if (c->eof)
		connection_close(c);
}

bool connection_charge_to(struct connection *c, const char *id)
{
	struct budget_account *a = c->hold.account;

	if (a && strcmp(a->id, id) == 0)
		return true;
	if (a)
		a->connections--;
	budget_charge_to(&c->hold, &c->all->budget, id);
	a = c->hold.account;
	if (!a || ++a->connections <= c->all->key_max || !*id || c->door != SERVER_PUBLIC)
		return true;
	c->all->budget.refused++;
	return false;
}

void connection_flush(struct connection *c)
{
	size_t before = buf_len(&c->out);

	if (c->state == CONNECTION_CLOSED || !before)
		return;
	if (transport_send(&c->transport, &c->out) < 0)
		connection_close(c);
	else if (buf_len(&c->out) < before)
		c->progress = true;
}

static void linger(struct connection *c)
{
	if (c->state != CONNECTION_LAST || connection_queued(c))
		return;
	c->state = CONNECTION_LINGER;
	if (transport_shutdown(&c->transport) < 0)
		connection_close(c);
}

/* --- time --- */

static enum connection_wait waits_for(const struct connection *c)
{
	const struct request *r = c->request;

	if (c->state == CONNECTION_LINGER)
		return CONNECTION_WAIT_LINGER;
	if (!c->transport.ready)
		return CONNECTION_WAIT_HANDSHAKE;
	if (connection_queued(c))
		return CONNECTION_WAIT_WRITE;
	if (!r && !c->begun)
		return CONNECTION_WAIT_FIRST;
	if (!r)
		return http_parser_idle(c->parser) ? CONNECTION_WAIT_IDLE : CONNECTION_WAIT_HEAD;
	if (!r->received && r->state == REQUEST_ENDED)
		return CONNECTION_WAIT_DROP;
	if (!r->received && !is_paused(r) && r->state != REQUEST_RAW)
		return CONNECTION_WAIT_BODY;
	return CONNECTION_WAIT_NONE;
}

static void update_deadline(struct connection *c)
{
	static const unsigned seconds[] = {
		[CONNECTION_WAIT_NONE] = 0,
		[CONNECTION_WAIT_HANDSHAKE] = CONNECTION_HANDSHAKE_S,
		[CONNECTION_WAIT_FIRST] = CONNECTION_FIRST_S,
		[CONNECTION_WAIT_IDLE] = CONNECTION_IDLE_S,
		[CONNECTION_WAIT_HEAD] = CONNECTION_HEAD_S,
		[CONNECTION_WAIT_BODY] = CONNECTION_BODY_S,
		[CONNECTION_WAIT_DROP] = CONNECTION_DROP_S,
		[CONNECTION_WAIT_WRITE] = CONNECTION_WRITE_S,
		[CONNECTION_WAIT_LINGER] = CONNECTION_LINGER_S,
	};
	enum connection_wait wait = waits_for(c);
	/* these limits are for the whole step, whatever progress it makes */
	bool total = wait == CONNECTION_WAIT_HANDSHAKE || wait == CONNECTION_WAIT_FIRST ||
		     wait == CONNECTION_WAIT_HEAD || wait == CONNECTION_WAIT_DROP;
	bool again = c->progress && !total;

	c->progress = false;
	if (wait == c->wait && !again)
		return;
	c->wait = wait;
	c->deadline_ns = wait == CONNECTION_WAIT_NONE
				 ? UINT64_MAX
				 : clock_monotonic_ns() + seconds[wait] * NS_PER_S;
}

void connection_check_time(struct connection *c, uint64_t now_ns)
{
	if (c->state == CONNECTION_CLOSED || now_ns < c->deadline_ns)
		return;
	if (c->wait == CONNECTION_WAIT_HEAD || c->wait == CONNECTION_WAIT_BODY ||
		(c->wait == CONNECTION_WAIT_FIRST && !http_parser_idle(c->parser)))
		refuse(c, 408, "the request did not arrive in time");
	else
		connection_close(c);
}

enum connection_worth connection_worth(const struct connection *c, uint64_t now_ns)
{
	static const uint64_t first_ns = (CONNECTION_FIRST_S - CONNECTION_YOUNG_S) * NS_PER_S,
			      shake_ns = (CONNECTION_HANDSHAKE_S - CONNECTION_YOUNG_S) * NS_PER_S;

	switch (c->state == CONNECTION_OPEN ? c->wait : CONNECTION_WAIT_NONE) {
	case CONNECTION_WAIT_HANDSHAKE:
		return c->deadline_ns < now_ns + shake_ns ? CONNECTION_STRANGER : CONNECTION_YOUNG;
	case CONNECTION_WAIT_FIRST:
		return c->deadline_ns < now_ns + first_ns ? CONNECTION_STRANGER : CONNECTION_YOUNG;
	case CONNECTION_WAIT_IDLE:
		if (c->request || c->is_dirty)
			return CONNECTION_BUSY;
		return c->known ? CONNECTION_CLIENT : CONNECTION_IDLE;
	default:
		return CONNECTION_BUSY;
	}
}

/* --- turns --- */

/* The answer is complete: goes on to the next request, or ends the connection. */
static void end_request(struct connection *c)
{
	struct request *r = c->request;

	tell_done(r, true);
	if (c->state != CONNECTION_OPEN)
		return;
	if (r->close || c->eof) {
		finish(c);
		return;
	}
	if (!r->received)
		return; /* the rest of the body is dropped */
	free_request(c);
	http_parser_continue(c->parser);
	c->wait = CONNECTION_WAIT_NONE;
	if (!buf_len(&c->out))
		buf_done(&c->out);
}

static void tell_handler(struct connection *c)
{
	struct request *r = c->request;

	if (r && r->state == REQUEST_RAW && c->eof && !buf_len(&c->in))
		r->received = true;
	if (r && r->received && r->reading && !r->told_end && r->state < REQUEST_ENDED) {
		r->told_end = true;
		if (r->ops && r->ops->body_end)
			r->ops->body_end(r);
	}
	r = c->request;
	if (r && r->full && r->state < REQUEST_ENDED && connection_queued(c) < REQUEST_LOW_WATER) {
		r->full = false;
		if (r->ops && r->ops->drained)
			r->ops->drained(r);
	}
}

static void serve(struct connection *c)
{
	if (c->aborted) {
		connection_close(c);
		return;
	}
	if (c->request && c->request->state == REQUEST_ENDED)
		end_request(c);
	process_waiting(c);
	connection_flush(c);
	if (c->state == CONNECTION_OPEN)
		tell_handler(c);
}

void connection_turn(struct connection *c)
{
	c->is_dirty = false;
	if (c->is_closed) {
		free_connection(c);
		return;
	}
	if (c->state == CONNECTION_OPEN)
		serve(c);
	else
		connection_flush(c);
	if (c->state == CONNECTION_LAST)
		linger(c);
	if (c->state == CONNECTION_CLOSED)
		return;
	budget_force(&c->hold, connection_queued(c) + buf_len(&c->in));
	update_reading(c);
	if (c->state != CONNECTION_CLOSED)
		update_deadline(c);
}

static const struct transport_ops transport_ops = {
	.data = take_bytes,
	.eof = take_eof,
	.failed = take_failure,
	.moved = take_moved,
	.ended = take_ended,
	.closed = on_closed,
	.plain_http = take_plain_http,
};

int connection_accept(struct connection *c, int fd)
{
	int r = transport_open(&c->transport, fd, c->peer);

	(void)connection_charge_to(c, c->door == SERVER_ADMIN ? "operator" : ""); /* no limit */
	if (r == 0 && c->door == SERVER_PUBLIC) {
		c->who = peers_join(c->all->peers, c->peer);
		r = c->who ? 0 : -ENOMEM;
	}
	if (r < 0)
		connection_close(c);
	else
		update_deadline(c); /* it is worth less than a client before its first turn, too */
	return r;
}

bool connection_is_scarce(const struct connection *c)
{
	uv_os_fd_t fd;

	return uv_fileno(&c->transport.u.handle, &fd) == 0 && fd_is_scarce(fd);
}

void connection_start(struct connection *c)
{
	connection_mark(c);
}

void connection_turn_away(struct connection *c, const char *status)
{
	/* a courtesy that is not worth a TLS handshake */
	if (buf_printf(&c->out,
		    "HTTP/1.1 %s\r\nContent-Length: 0\r\nConnection: close\r\n"
		    "Retry-After: 1\r\n\r\n",
		    status) == 0)
		(void)transport_send(&c->transport, &c->out);
	connection_close(c);
}
