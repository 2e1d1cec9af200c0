#include "cli/remote/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "cli/remote/client_error.h"
#include "proto/base64.h"
#include "proto/http_response.h"

enum { READ_BYTES = 64 * 1024, QUEUE_MAX = 32 * 1024 * 1024, USER_MAX = 255, MS_PER_S = 1000 };

struct client {
	int fd;
	struct http_parser *parser;
	struct buf out; /* not yet sent */
	uint8_t in[READ_BYTES];
	size_t at, have;    /* of `in`, not yet looked at */
	const uint8_t *raw; /* of a tunnel: the last piece */
	size_t raw_bytes;
	bool chunked; /* the request's body is */
	bool tunnel, rest;
	bool ended, shut; /* our direction is to be closed, was */
};

/* --- opening --- */

int client_try(const struct home *home, struct client **ret, struct error *e)
{
	int fd = fd_unix_connect(home->fd, "daemon.sock", SOCK_STREAM);
	struct client *c;

	if (fd == -ENOENT || fd == -ECONNREFUSED)
		return -ECONNREFUSED;
	if (fd < 0)
		return error_set_errno(e, ERROR_HOST, -fd, "cannot reach the daemon");
	c = calloc(1, sizeof(*c));
	if (c)
		c->parser = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	if (!c || !c->parser) {
		free(c);
		(void)close(fd); /* nothing was said on it */
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	}
	c->fd = fd;
	buf_init(&c->out, QUEUE_MAX);
	(void)fd_set_nonblock(fd, 1); /* a socket of ours */
	*ret = c;
	return 0;
}

int client_no_daemon(const struct home *home, struct error *e)
{
	return error_set(e, ERROR_HOST, ECONNREFUSED,
		"no daemon runs in %s: start one with `mayfly serve`", home->path);
}

int client_open(const struct home *home, struct client **ret, struct error *e)
{
	int r = client_try(home, ret, e);

	return r == -ECONNREFUSED ? client_no_daemon(home, e) : r;
}

int client_open_default(struct client **ret, struct error *e)
{
	struct home home = HOME_INIT;
	int r = home_open(NULL, &home, e);

	if (r == 0)
		r = client_open(&home, ret, e);
	home_close(&home);
	return r;
}

void client_close(struct client *c)
{
	if (!c)
		return;
	(void)close(c->fd); /* what was sent was read or is of no use */
	http_parser_free(c->parser);
	buf_done(&c->out);
	free(c);
}

void client_closep(struct client **c)
{
	client_close(*c);
}

/* --- requests --- */

static int cannot_send(struct error *e, int err)
{
	return error_set_errno(
		e, err == -EINVAL ? ERROR_USAGE : ERROR_INTERNAL, -err, "cannot ask the daemon");
}

static void write_user(struct http_writer *w, const char *user)
{
	char plain[USER_MAX + 2] = "", text[4 * USER_MAX] = "Basic ";
	size_t n = strlen(user);

	if (n > USER_MAX) {
		w->err = -EINVAL;
		return;
	}
	memcpy(plain, user, n);
	plain[n] = ':';
	base64_encode(text + strlen(text), plain, n + 1);
	http_writer_header(w, "Authorization", text);
}

int client_begin(struct client *c, const struct client_request *r, struct error *e)
{
	struct http_writer w = http_writer_request(&c->out, r->method, r->target);
	int err;

	http_writer_header(&w, "Host", "daemon");
	if (r->sandbox) {
		http_writer_header(&w, "E2b-Sandbox-Id", r->sandbox);
		http_writer_header_u64(&w, "E2b-Sandbox-Port", r->port);
	}
	if (r->user && *r->user)
		write_user(&w, r->user);
	if (r->content_type)
		http_writer_header(&w, "Content-Type", r->content_type);
	if (r->upgrade) {
		http_writer_header(&w, "Connection", "Upgrade");
		http_writer_header(&w, "Upgrade", r->upgrade);
	} else if (r->length == CLIENT_CHUNKED) {
		http_writer_header(&w, "Transfer-Encoding", "chunked");
	} else if (r->length || r->content_type) {
		http_writer_header_u64(&w, "Content-Length", (uint64_t)r->length);
	}
	c->chunked = r->length == CLIENT_CHUNKED;
	err = http_writer_finish(&w);
	return err < 0 ? cannot_send(e, err) : 0;
}

int client_send(struct client *c, const void *data, size_t n, struct error *e)
{
	int err = c->chunked ? http_chunk(&c->out, data, n) : buf_add(&c->out, data, n);

	return err < 0 ? cannot_send(e, err) : 0;
}

int client_end(struct client *c, struct error *e)
{
	int err = c->chunked ? http_chunk_last(&c->out) : 0;

	c->chunked = false;
	return err < 0 ? cannot_send(e, err) : 0;
}

size_t client_room(const struct client *c)
{
	size_t n = buf_len(&c->out);

	return n < CLIENT_QUEUE_HIGH ? CLIENT_QUEUE_HIGH - n : 0;
}

static int lost(struct error *e, int err)
{
	return error_set(
		e, ERROR_SANDBOX, err, "the connection to the daemon was lost: see its log");
}

void client_shutdown(struct client *c)
{
	c->ended = true;
	if (!buf_len(&c->out) && !c->shut) {
		c->shut = true;
		(void)shutdown(c->fd, SHUT_WR); /* gone already: reading finds out */
	}
}

int client_flush(struct client *c, struct error *e)
{
	while (buf_len(&c->out)) {
		ssize_t n = send(c->fd, buf_head(&c->out), buf_len(&c->out), MSG_NOSIGNAL);

		if (n > 0)
			buf_consume(&c->out, (size_t)n);
		else if (n < 0 && errno == EAGAIN)
			return 0;
		else if (n < 0 && (errno == EPIPE || errno == ECONNRESET)) {
			/* an answer that came before all was sent may still be there to be read */
			buf_clear(&c->out);
			return 0;
		} else if (n < 0 && errno != EINTR)
			return lost(e, errno);
	}
	if (c->ended)
		client_shutdown(c);
	return 0;
}

/* --- answers --- */

const struct http_head *client_head(const struct client *c)
{
	return http_parser_head(c->parser);
}

const uint8_t *client_body(const struct client *c, size_t *ret_n)
{
	if (!c->tunnel)
		return http_parser_body(c->parser, ret_n);
	*ret_n = c->raw_bytes;
	return c->raw;
}

/* 1: there is something to look at; 0: not now; -ENODATA: the other side has ended. */
static int receive(struct client *c, struct error *e)
{
	ssize_t n;

	if (c->at < c->have)
		return 1;
	do
		n = recv(c->fd, c->in, sizeof(c->in), MSG_DONTWAIT);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN ? 0 : lost(e, errno);
	c->at = 0;
	c->have = (size_t)n;
	return n ? 1 : -ENODATA;
}

static int next_raw(struct client *c, enum client_event *ret, struct error *e)
{
	int r = receive(c, e);

	*ret = r > 0 ? CLIENT_BODY : r == 0 ? CLIENT_WAIT : CLIENT_CLOSED;
	if (r < 0 && r != -ENODATA)
		return r;
	c->raw = c->in + c->at;
	c->raw_bytes = r > 0 ? c->have - c->at : 0;
	c->at = c->have;
	return 0;
}

/* 1: *ret is an event for the caller; 0: look further. */
static int take(struct client *c, enum http_event ev, enum client_event *ret, struct error *e)
{
	switch (ev) {
	case HTTP_HEAD:
		*ret = CLIENT_HEAD;
		return http_parser_head(c->parser)->status != 101;
	case HTTP_BODY:
		*ret = CLIENT_BODY;
		return 1;
	case HTTP_END:
		c->rest = true;
		*ret = CLIENT_END;
		return 1;
	case HTTP_UPGRADE:
		c->tunnel = true;
		*ret = CLIENT_TUNNEL;
		return 1;
	case HTTP_ERROR:
		return error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's answer is broken: %s",
			http_parser_reason(c->parser));
	default:
		return 0;
	}
}

static int ended(struct client *c, enum client_event *ret, struct error *e)
{
	if (http_parser_eof(c->parser) != HTTP_END)
		return lost(e, ECONNRESET);
	*ret = CLIENT_END;
	return 0;
}

static int next_message(struct client *c, enum client_event *ret, struct error *e)
{
	for (;;) {
		size_t used = 0;
		enum http_event ev =
			http_parser_next(c->parser, c->in + c->at, c->have - c->at, &used);
		int r;

		c->at += used;
		if (ev != HTTP_MORE) {
			r = take(c, ev, ret, e);
			if (r)
				return r < 0 ? r : 0;
			continue;
		}
		r = receive(c, e);
		if (r == -ENODATA)
			return ended(c, ret, e);
		if (r <= 0) {
			*ret = CLIENT_WAIT;
			return r;
		}
	}
}

int client_next(struct client *c, enum client_event *ret, struct error *e)
{
	int r = client_flush(c, e);

	if (r < 0)
		return r;
	if (c->rest)
		http_parser_continue(c->parser);
	c->rest = false;
	return c->tunnel ? next_raw(c, ret, e) : next_message(c, ret, e);
}

struct pollfd client_poll(const struct client *c, bool hold)
{
	short events = (short)((hold ? 0 : POLLIN) | (buf_len(&c->out) ? POLLOUT : 0));

	/* without events poll() would still report that the other side has gone */
	return (struct pollfd){.fd = events ? c->fd : -1, .events = events};
}

bool client_is_readable(const struct client *c)
{
	struct pollfd p = {.fd = c->fd, .events = POLLIN};

	return c->at < c->have || poll(&p, 1, 0) > 0;
}

int client_wait(struct client *c, unsigned patience_s, struct error *e)
{
	struct pollfd p = client_poll(c, false);
	int r;

	do
		r = poll(&p, 1, (int)(patience_s * MS_PER_S));
	while (r < 0 && errno == EINTR);
	if (r == 0)
		return error_set(e, ERROR_TIMEOUT, ETIMEDOUT, "the daemon did not answer for %u s",
			patience_s);
	return r < 0 ? error_set_errno(e, ERROR_INTERNAL, errno, "poll") : client_flush(c, e);
}

int client_next_blocking(
	struct client *c, unsigned patience_s, enum client_event *ret, struct error *e)
{
	for (;;) {
		int r = client_next(c, ret, e);

		if (r < 0 || *ret != CLIENT_WAIT)
			return r;
		r = client_wait(c, patience_s, e);
		if (r < 0)
			return r;
	}
}

/* --- whole answers --- */

/* The body, from behind its head to its end. */
static int gather(struct client *c, unsigned patience_s, struct buf *body, struct error *e)
{
	enum client_event ev;
	const uint8_t *part;
	size_t n;
	int r;

	while ((r = client_next_blocking(c, patience_s, &ev, e)) == 0 && ev == CLIENT_BODY) {
		part = client_body(c, &n);
		if (buf_add(body, part, n) < 0)
			return error_set(
				e, ERROR_INTERNAL, EMSGSIZE, "the daemon's answer is too long");
	}
	return r;
}

static json_t *as_json(const struct buf *body, const struct http_head *head)
{
	const char *text = (const char *)buf_head(body);
	json_t *root;

	if (!buf_len(body))
		return NULL;
	root = json_loadb(text, buf_len(body), JSON_ALLOW_NUL, NULL);
	if (!root && head->status >= 400) /* services in sandboxes say it in their own form */
		root = json_pack("{s:s%}", "message", text, buf_len(body));
	return root;
}

/* At the head of an answer. */
static int finish(struct client *c, unsigned patience_s, json_t **ret, struct error *e)
{
	_cleanup_(buf_done) struct buf body = BUF_INIT(CLIENT_ANSWER_MAX);
	json_t *root;
	int r = gather(c, patience_s, &body, e);

	if (r < 0)
		return r;
	root = as_json(&body, client_head(c));
	r = client_error_of(client_head(c), root, e);
	if (r == 0 && ret)
		*ret = root;
	else
		json_decref(root);
	return r;
}

int client_answer(struct client *c, unsigned patience_s, json_t **ret, struct error *e)
{
	enum client_event ev;
	int r = client_next_blocking(c, patience_s, &ev, e);

	if (r == 0 && ev != CLIENT_HEAD)
		r = error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon's answer is broken");
	return r < 0 ? r : finish(c, patience_s, ret, e);
}

int client_refusal(struct client *c, struct error *e)
{
	int r = finish(c, CLIENT_PATIENCE_S, NULL, e);

	return r < 0 ? r : error_set(e, ERROR_INTERNAL, EBADMSG, "the daemon refused");
}

int client_call(struct client *c, const struct client_request *r, const json_t *body,
	unsigned patience_s, json_t **ret, struct error *e)
{
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct client_request full = *r;
	int err;

	full.content_type = body ? "application/json" : NULL;
	full.length = text ? (int64_t)strlen(text) : 0;
	err = client_begin(c, &full, e);
	if (err == 0 && text)
		err = client_send(c, text, (size_t)full.length, e);
	if (err == 0)
		err = client_end(c, e);
	return err < 0 ? err : client_answer(c, patience_s, ret, e);
}
