#include "interpreter/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "proto/http.h"
#include "proto/http_response.h"

enum {
	IN_MAX = 64 << 10, /* received and not parsed yet: pipelined requests */
	READ_BYTES = 64 << 10,
	LOW_WATER = SERVER_FULL / 4,
	BACKLOG = 128,
	LINGER_S = 2,
};

/*	IDLE      between requests
 *	RECEIVE   a request is arriving
 *	HANDLED   the handler has it and has not answered
 *	STREAM    the head was sent, the body is open
 *	LAST      nothing more is read; what is queued is sent
 *	LINGER    our direction is closed; input is dropped until the client closes too, so that it
 *		  reads the answer instead of seeing a reset
 *	CLOSED    the handles are being closed */
enum state { IDLE, RECEIVE, HANDLED, STREAM, LAST, LINGER, CLOSED };

/* A connection, and the exchange on it. */
struct exchange {
	uv_tcp_t tcp;
	uv_timer_t timer; /* for what is waited for now */
	unsigned handles; /* not closed yet */
	struct server *server;
	struct exchange *next, *prev;
	enum state state;
	struct http_parser *parser;
	const struct http_head *head;
	bool close; /* after this answer */
	bool chunked;
	bool was_full;
	bool writing_now, reading;
	struct buf in, body, out, writing;
	uv_write_t write;
	uv_shutdown_t shutdown;
	const struct exchange_ops *ops;
	void *opaque;
};

struct server {
	uv_loop_t *loop;
	uv_tcp_t listener;
	uv_prepare_t prepare; /* gives every connection its turn before the loop waits */
	server_handler handler;
	void *opaque;
	struct exchange *first;
	unsigned connections;
	size_t bodies; /* bytes held in request bodies */
	bool stopped;
	char read_buffer[READ_BYTES];
};

static const struct http_field cors[] = {{"Access-Control-Allow-Origin", "*"}};
static const struct http_field preflight[] = {{"Access-Control-Allow-Origin", "*"},
	{"Access-Control-Allow-Methods", "GET, POST, DELETE, OPTIONS"},
	{"Access-Control-Allow-Headers", "*"}, {"Access-Control-Max-Age", "7200"}};

static void update_reading(struct exchange *x);
static void update_timer(struct exchange *x);

/* --- ends --- */

static void on_handle_closed(uv_handle_t *h)
{
	struct exchange *x = h->data;

	if (--x->handles)
		return;
	*(x->prev ? &x->prev->next : &x->server->first) = x->next;
	if (x->next)
		x->next->prev = x->prev;
	x->server->connections--;
	http_parser_free(x->parser);
	buf_done(&x->in);
	buf_done(&x->out);
	buf_done(&x->writing);
	free(x);
}

void exchange_drop_body(struct exchange *x)
{
	x->server->bodies -= buf_len(&x->body);
	buf_done(&x->body);
}

static void close_connection(struct exchange *x)
{
	const struct exchange_ops *ops = x->ops;

	if (x->state == CLOSED)
		return;
	x->state = CLOSED;
	x->ops = NULL;
	exchange_drop_body(x);
	uv_close((uv_handle_t *)&x->tcp, on_handle_closed);
	uv_close((uv_handle_t *)&x->timer, on_handle_closed);
	if (ops && ops->gone && !x->server->stopped)
		ops->gone(x->opaque);
}

/* --- writing --- */

static size_t queued(const struct exchange *x)
{
	return buf_len(&x->out) + (x->writing_now ? buf_len(&x->writing) : 0);
}

static void on_written(uv_write_t *write, int status)
{
	struct exchange *x = write->data;

	x->writing_now = false;
	buf_done(&x->writing);
	if (status < 0)
		close_connection(x);
	else if (x->state != CLOSED)
		update_timer(x); /* the client takes something */
}

static void flush(struct exchange *x)
{
	uv_buf_t part;
	int n;

	if (x->writing_now || !buf_len(&x->out))
		return;
	part = uv_buf_init((char *)x->out.data + x->out.start, (unsigned)buf_len(&x->out));
	n = uv_try_write((uv_stream_t *)&x->tcp, &part, 1);
	if (n < 0 && n != UV_EAGAIN) {
		close_connection(x);
		return;
	}
	if (n > 0)
		buf_consume(&x->out, (size_t)n);
	if (!buf_len(&x->out)) {
		buf_done(&x->out);
		return;
	}
	x->writing = x->out;
	x->out = (struct buf)BUF_INIT(SERVER_QUEUE_MAX);
	part = uv_buf_init(
		(char *)x->writing.data + x->writing.start, (unsigned)buf_len(&x->writing));
	x->write.data = x;
	x->writing_now = true;
	if (uv_write(&x->write, (uv_stream_t *)&x->tcp, &part, 1, on_written) < 0)
		close_connection(x);
}

/* --- requests --- */

static void end_exchange(struct exchange *x)
{
	x->ops = NULL;
	x->was_full = false;
	exchange_drop_body(x);
	if (x->close) {
		x->state = LAST;
		return;
	}
	x->state = IDLE;
	http_parser_continue(x->parser);
}

static void refuse(struct exchange *x, unsigned status, const char *reason)
{
	x->close = true;
	exchange_reply(x, status, "text/plain; charset=utf-8", reason, strlen(reason));
}

static void take_head(struct exchange *x)
{
	x->head = http_parser_head(x->parser);
	x->close = !x->head->keep_alive;
	x->chunked = x->head->minor > 0;
	http_parser_limit_body(x->parser, SERVER_BODY_MAX);
	if (x->head->expect_continue && http_reply_continue(&x->out) < 0)
		close_connection(x);
}

static void take_body(struct exchange *x)
{
	size_t n;
	const uint8_t *data = http_parser_body(x->parser, &n);

	if (x->server->bodies + n > SERVER_BODIES_MAX || buf_add(&x->body, data, n) < 0) {
		refuse(x, 503, "too much is being received at once, try again");
		return;
	}
	x->server->bodies += n;
}

static void take_request(struct exchange *x)
{
	const struct http_reply reply = {.status = 204,
		.fields = preflight,
		.field_count = sizeof(preflight) / sizeof(*preflight),
		.close = x->close};

	x->state = HANDLED;
	if (strcmp(x->head->method, "OPTIONS") != 0) {
		x->server->handler(x->server->opaque, x);
		return;
	}
	if (http_reply(&x->out, &reply) < 0)
		close_connection(x);
	else
		end_exchange(x);
}

static void take_event(struct exchange *x, enum http_event event)
{
	switch (event) {
	case HTTP_HEAD:
		take_head(x);
		break;
	case HTTP_BODY:
		take_body(x);
		break;
	case HTTP_END:
	case HTTP_UPGRADE: /* not supported: answered as if it had not been asked for */
		take_request(x);
		break;
	case HTTP_ERROR:
		refuse(x, http_parser_status(x->parser), http_parser_reason(x->parser));
		break;
	default:
		break;
	}
}

/* Parses requests from the buffer, one after the other while each is answered at once. */
static void parse(struct exchange *x)
{
	while (x->state <= RECEIVE) {
		size_t used = 0, n = buf_len(&x->in);
		enum http_event event = http_parser_next(
			x->parser, n ? (const void *)buf_head(&x->in) : "", n, &used);

		if (used)
			buf_consume(&x->in, used);
		if (event == HTTP_MORE || event == HTTP_REST)
			break;
		take_event(x, event);
	}
	if (x->state <= RECEIVE)
		x->state = http_parser_idle(x->parser) ? IDLE : RECEIVE;
	if (!buf_len(&x->in))
		buf_done(&x->in);
}

/* --- reading --- */

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct exchange *x = h->data;

	*buf = uv_buf_init(x->server->read_buffer, READ_BYTES);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct exchange *x = stream->data;

	if (n == 0)
		return;
	if (n > 0 && x->state >= LAST)
		return; /* dropped */
	if (n < 0 || buf_add(&x->in, buf->base, (size_t)n) < 0) {
		close_connection(x);
		return;
	}
	parse(x);
	if (x->state == CLOSED)
		return;
	update_reading(x);
	if (x->state != RECEIVE) /* one limit for a whole request */
		update_timer(x);
}

/* Also reads while a request is handled, to notice that the client has gone. */
static void update_reading(struct exchange *x)
{
	bool want = buf_len(&x->in) <= IN_MAX;

	if (x->state == CLOSED || want == x->reading)
		return;
	x->reading = want;
	if (!want)
		(void)uv_read_stop((uv_stream_t *)&x->tcp); /* always 0 */
	else if (uv_read_start((uv_stream_t *)&x->tcp, on_alloc, on_read) < 0)
		close_connection(x);
}

/* --- time --- */

static void on_timer(uv_timer_t *timer)
{
	struct exchange *x = timer->data;

	if (x->state == RECEIVE)
		refuse(x, 408, "the request did not arrive in time");
	else
		close_connection(x);
}

/* Starts the timer for what the client must do next. */
static void update_timer(struct exchange *x)
{
	unsigned seconds = 0;

	if (queued(x))
		seconds = SERVER_TAKE_S;
	else if (x->state == IDLE)
		seconds = SERVER_KEEP_S;
	else if (x->state == RECEIVE)
		seconds = SERVER_RECEIVE_S;
	else if (x->state == LINGER)
		seconds = LINGER_S;
	if (seconds) /* an initialised timer with a callback: starts */
		(void)uv_timer_start(&x->timer, on_timer, seconds * 1000, 0);
	else
		(void)uv_timer_stop(&x->timer); /* always 0 */
}

/* --- turns --- */

static void on_shutdown(uv_shutdown_t *shutdown, int status)
{
}

static void linger(struct exchange *x)
{
	x->state = LINGER;
	if (uv_shutdown(&x->shutdown, (uv_stream_t *)&x->tcp, on_shutdown) < 0)
		close_connection(x);
	else
		update_timer(x);
}

static void take_turn(struct exchange *x)
{
	size_t before = queued(x);

	if (x->state == IDLE && buf_len(&x->in))
		parse(x);
	if (x->state == CLOSED)
		return;
	flush(x);
	if (x->state == LAST && !queued(x))
		linger(x);
	if (x->state == CLOSED)
		return;
	if (before && !queued(x))
		update_timer(x);
	if (x->was_full && queued(x) < LOW_WATER) {
		x->was_full = false;
		if (x->ops && x->ops->drained)
			x->ops->drained(x->opaque);
	}
	update_reading(x);
}

static void on_prepare(uv_prepare_t *prepare)
{
	struct server *s = prepare->data;

	for (struct exchange *x = s->first; x; x = x->next)
		if (x->state != CLOSED)
			take_turn(x);
}

/* --- connections --- */

static struct exchange *new_connection(struct server *s)
{
	struct exchange *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->parser = http_parser_new(HTTP_ROLE_SERVER, NULL);
	if (!x->parser) {
		free(x);
		return NULL;
	}
	x->server = s;
	buf_init(&x->in, IN_MAX + READ_BYTES);
	buf_init(&x->body, SERVER_BODY_MAX);
	buf_init(&x->out, SERVER_QUEUE_MAX);
	buf_init(&x->writing, SERVER_QUEUE_MAX);
	(void)uv_tcp_init(s->loop, &x->tcp); /* these do not fail */
	(void)uv_timer_init(s->loop, &x->timer);
	x->tcp.data = x->timer.data = x;
	x->handles = 2;
	x->next = s->first;
	if (x->next)
		x->next->prev = x;
	s->first = x;
	s->connections++;
	return x;
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct server *s = listener->data;
	struct exchange *x = status == 0 ? new_connection(s) : NULL;

	if (!x)
		return; /* libuv asks again when something has changed */
	if (uv_accept(listener, (uv_stream_t *)&x->tcp) < 0 ||
		s->connections > SERVER_CONNECTIONS_MAX) {
		close_connection(x);
		return;
	}
	(void)uv_tcp_nodelay(&x->tcp, 1); /* if it fails, answers are only slower */
	update_reading(x);
	update_timer(x);
}

static int listen_at(struct server *s, const char *address, unsigned port, unsigned *ret_port)
{
	struct sockaddr_storage a = {0};
	int n = sizeof(a), r = uv_ip4_addr(address, (int)port, (struct sockaddr_in *)&a);

	if (r < 0)
		r = uv_ip6_addr(address, (int)port, (struct sockaddr_in6 *)&a);
	if (r == 0)
		r = uv_tcp_bind(&s->listener, (const struct sockaddr *)&a, 0);
	if (r == 0)
		r = uv_listen((uv_stream_t *)&s->listener, BACKLOG, on_connection);
	if (r == 0)
		r = uv_tcp_getsockname(&s->listener, (struct sockaddr *)&a, &n);
	if (r == 0) /* both families have it in the same place */
		*ret_port = ntohs(((struct sockaddr_in *)&a)->sin_port);
	return r;
}

struct server *server_new(uv_loop_t *loop, const char *address, unsigned port,
	server_handler handler, void *opaque, unsigned *ret_port, struct error *e)
{
	struct server *s = calloc(1, sizeof(*s));
	int r;

	if (!s) {
		(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
		return NULL;
	}
	s->loop = loop;
	s->handler = handler;
	s->opaque = opaque;
	(void)uv_tcp_init(loop, &s->listener); /* these do not fail */
	(void)uv_prepare_init(loop, &s->prepare);
	s->listener.data = s->prepare.data = s;
	(void)uv_prepare_start(&s->prepare, on_prepare);
	r = listen_at(s, address, port, ret_port);
	if (r == 0)
		return s;
	(void)error_set_errno(e, r == UV_EINVAL ? ERROR_USAGE : ERROR_HOST, -r,
		"cannot listen on %s port %u", address, port);
	server_stop(s);
	(void)uv_run(
		loop, UV_RUN_NOWAIT); /* closes the handles; the caller then ends with the error */
	server_free(s);
	return NULL;
}

void server_stop(struct server *s)
{
	s->stopped = true;
	uv_close((uv_handle_t *)&s->listener, NULL);
	uv_close((uv_handle_t *)&s->prepare, NULL);
	for (struct exchange *x = s->first; x; x = x->next)
		close_connection(x);
}

void server_free(struct server *s)
{
	free(s);
}

/* --- exchanges --- */

const char *exchange_method(const struct exchange *x)
{
	return x->head->method;
}

const char *exchange_path(const struct exchange *x)
{
	return x->head->path;
}

const char *exchange_body(const struct exchange *x, size_t *ret_n)
{
	*ret_n = buf_len(&x->body);
	return *ret_n ? (const char *)buf_head(&x->body) : "";
}

void exchange_set_ops(struct exchange *x, const struct exchange_ops *ops, void *opaque)
{
	x->ops = ops;
	x->opaque = opaque;
}

static struct http_reply head_of(const struct exchange *x, unsigned status, const char *type)
{
	return (struct http_reply){.status = status,
		.content_type = type,
		.fields = cors,
		.field_count = sizeof(cors) / sizeof(*cors),
		.head_only = x->head && strcmp(x->head->method, "HEAD") == 0,
		.keep_alive_10 = x->head && x->head->minor == 0 && !x->close,
		.close = x->close};
}

void exchange_reply(
	struct exchange *x, unsigned status, const char *content_type, const void *body, size_t n)
{
	struct http_reply reply = head_of(x, status, content_type);

	reply.body = body;
	reply.len = n;
	x->ops = NULL; /* the exchange ends in any case */
	if (http_reply(&x->out, &reply) < 0)
		close_connection(x);
	else
		end_exchange(x);
}

void exchange_stream(struct exchange *x, unsigned status, const char *content_type)
{
	struct http_reply reply;

	x->close |= !x->chunked;
	reply = head_of(x, status, content_type);
	x->state = STREAM;
	if (http_reply_stream(&x->out, &reply, x->head->minor) < 0)
		log_error("the head of an answer does not fit"); /* cannot happen */
}

int exchange_write(struct exchange *x, const void *data, size_t n)
{
	int r = x->chunked ? http_chunk(&x->out, data, n) : buf_add(&x->out, data, n);

	x->was_full |= exchange_is_full(x);
	return r < 0 ? r : x->was_full;
}

bool exchange_is_full(const struct exchange *x)
{
	return queued(x) >= SERVER_FULL;
}

void exchange_end(struct exchange *x)
{
	x->ops = NULL;
	if (x->chunked && http_chunk_last(&x->out) < 0)
		close_connection(x);
	else
		end_exchange(x);
}
