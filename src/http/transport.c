#include "http/transport.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

enum {
	SLICE_BYTES = 256 * 1024, /* encrypted at once */
	/* a slice, plus the protocol's overhead */
	CIPHER_MAX = SLICE_BYTES + SLICE_BYTES / 16 + 64 * 1024,
	KEEP_ALIVE_S = 60,
};

/* The operations that differ between plain and TLS. */
struct transport_kind {
	uv_buf_t (*room)(struct transport *t); /* memory for the next bytes */
	void (*received)(struct transport *t, const uint8_t *data, size_t n);
	void (*cut)(struct transport *t); /* the socket's input ended */
	int (*send)(struct transport *t, struct buf *out);
	int (*end)(struct transport *t); /* sends our last word */
};

/* --- the socket --- */

static void on_write(uv_write_t *req, int status);

/* Gives the kernel as much of `from` as it takes, and lends the rest to libuv. */
static int send_some(struct transport *t, struct buf *from)
{
	struct buf spare = t->writing;
	uv_buf_t part = uv_buf_init((char *)from->data + from->start, (unsigned)buf_len(from));
	int n = uv_try_write(&t->u.stream, &part, 1);

	if (n < 0 && n != UV_EAGAIN)
		return n;
	if (n > 0)
		buf_consume(from, (size_t)n);
	if (!buf_len(from))
		return 0;
	t->writing = *from;
	spare.max = from->max;
	*from = spare;
	part = uv_buf_init(
		(char *)t->writing.data + t->writing.start, (unsigned)buf_len(&t->writing));
	t->write_req.data = t;
	n = uv_write(&t->write_req, &t->u.stream, &part, 1, on_write);
	t->write_active = n == 0;
	return n;
}

static int send_cipher(struct transport *t)
{
	return t->write_active || !buf_len(&t->cipher) ? 0 : send_some(t, &t->cipher);
}

static void on_write(uv_write_t *req, int status)
{
	struct transport *t = req->data;

	t->write_active = false;
	buf_done(&t->writing); /* the slow way is rare, and idle clients should hold no memory */
	if (t->closing)
		return;
	if (status == 0)
		status = send_cipher(t);
	if (status < 0)
		t->ops->failed(t->arg);
	else
		t->ops->moved(t->arg);
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *buf)
{
	struct transport *t = h->data;

	*buf = t->kind->room(t);
}

static void on_read(uv_stream_t *stream, ssize_t n, const uv_buf_t *buf)
{
	struct transport *t = stream->data;

	if (n > 0)
		t->kind->received(t, (const uint8_t *)buf->base, (size_t)n);
	if (n >= 0)
		return;
	(void)transport_read(t, false); /* stopping cannot fail */
	if (n == UV_EOF)
		t->kind->cut(t);
	else
		t->ops->failed(t->arg);
}

static void on_shutdown(uv_shutdown_t *req, int status)
{
	struct transport *t = req->data;

	if (t->closing)
		return;
	if (status < 0)
		t->ops->failed(t->arg);
	else
		t->ops->ended(t->arg);
}

static void on_closed(uv_handle_t *h)
{
	struct transport *t = h->data;

	t->ops->closed(t->arg);
}

/* --- plain --- */

static uv_buf_t plain_room(struct transport *t)
{
	return uv_buf_init((char *)t->scratch, TRANSPORT_READ_BYTES);
}

static void plain_received(struct transport *t, const uint8_t *data, size_t n)
{
	t->ops->data(t->arg, data, n);
}

static void plain_cut(struct transport *t)
{
	t->ops->eof(t->arg);
}

static int plain_send(struct transport *t, struct buf *out)
{
	return send_some(t, out);
}

static int plain_end(struct transport *t)
{
	return 0;
}

static const struct transport_kind plain = {
	.room = plain_room,
	.received = plain_received,
	.cut = plain_cut,
	.send = plain_send,
	.end = plain_end,
};

/* --- TLS --- */

/* Encrypted bytes go into the second half of the scratch, decrypted ones into the first. Everything
 * received is decrypted at once, with the rest of an earlier record, so the room is smaller by a
 * record. */
static uv_buf_t tls_room(struct transport *t)
{
	return uv_buf_init(
		(char *)t->scratch + TRANSPORT_READ_BYTES, TRANSPORT_READ_BYTES - TLS_RECORD_MAX);
}

/* Whether it is the first letter of a method. TLS begins with byte 22. */
static bool is_http(const struct transport *t, uint8_t first)
{
	return !t->begun && isupper(first);
}

static void become_plain(struct transport *t)
{
	tls_session_free(t->tls);
	t->tls = NULL;
	t->kind = &plain;
	t->ready = true;
	t->ops->plain_http(t->arg);
}

/* Acts on the result of the last read, after the received bytes were handed on. */
static void tls_conclude(struct transport *t, ssize_t last)
{
	bool was_ready = t->ready;

	t->ready = tls_session_is_ready(t->tls);
	if (last == TLS_AGAIN) {
		if (t->ready && !was_ready)
			t->ops->moved(t->arg);
		return;
	}
	(void)transport_read(t, false); /* stopping cannot fail */
	if (last == TLS_EOF)
		t->ops->eof(t->arg);
	else
		t->ops->failed(t->arg);
}

static void tls_received(struct transport *t, const uint8_t *data, size_t n)
{
	size_t got = 0;
	ssize_t k;

	if (is_http(t, *data)) {
		become_plain(t);
		return;
	}
	t->begun = true;
	tls_session_feed(t->tls, data, n);
	while ((k = tls_session_read(t->tls, t->scratch + got, TRANSPORT_READ_BYTES - got)) > 0)
		got += (size_t)k;
	if (send_cipher(t) < 0) /* of the handshake, or the alert that ends it */
		k = TLS_FAILED;
	if (got) {
		t->ready = true;
		t->ops->data(t->arg, t->scratch, got);
	}
	if (!t->closing)
		tls_conclude(t, k);
}

/* Without close_notify, anybody on the way may have cut the connection. */
static void tls_cut(struct transport *t)
{
	t->ops->failed(t->arg);
}

/* Encrypts in slices, so that a long answer is not in memory twice. */
static int tls_send(struct transport *t, struct buf *out)
{
	int r = 0;

	while (r == 0 && buf_len(out) && !t->write_active) {
		size_t n = buf_len(out) < SLICE_BYTES ? buf_len(out) : SLICE_BYTES;
		ssize_t k = tls_session_write(t->tls, buf_head(out), n);

		if (k < 0)
			return -EPROTO;
		buf_consume(out, (size_t)k);
		r = send_cipher(t);
	}
	if (!buf_len(&t->cipher))
		buf_done(&t->cipher);
	return r;
}

static int tls_end(struct transport *t)
{
	if (t->ready)
		tls_session_end(t->tls);
	return send_cipher(t);
}

static const struct transport_kind tls = {
	.room = tls_room,
	.received = tls_received,
	.cut = tls_cut,
	.send = tls_send,
	.end = tls_end,
};

/* --- used by connection.c --- */

int transport_init(struct transport *t, uv_loop_t *loop, bool is_pipe, struct tls_context *context,
	uint8_t *scratch, const struct transport_ops *ops, void *arg)
{
	*t = (struct transport){.ops = ops, .arg = arg, .scratch = scratch, .kind = &plain};
	buf_init(&t->cipher, CIPHER_MAX);
	t->ready = !context;
	if (context) {
		t->kind = &tls;
		t->tls = tls_session_new(context, &t->cipher);
		if (!t->tls)
			return -ENOMEM;
	}
	/* initialising a handle without flags cannot fail */
	if (is_pipe)
		(void)uv_pipe_init(loop, &t->u.pipe, 0);
	else
		(void)uv_tcp_init(loop, &t->u.tcp);
	t->u.handle.data = t;
	return 0;
}

int transport_open(struct transport *t, int fd, char ret_peer[TRANSPORT_PEER_BYTES])
{
	bool is_tcp = t->u.handle.type == UV_TCP;
	int r = is_tcp ? uv_tcp_open(&t->u.tcp, fd) : uv_pipe_open(&t->u.pipe, fd);
	struct sockaddr_storage a;
	int n = sizeof(a);

	ret_peer[0] = '\0';
	if (r < 0)
		(void)close(fd); /* nothing was written */
	if (r < 0 || !is_tcp)
		return r;
	/* latency matters more than fewer segments; dead clients are noticed within minutes */
	(void)uv_tcp_nodelay(&t->u.tcp, 1);
	(void)uv_tcp_keepalive(&t->u.tcp, 1, KEEP_ALIVE_S);
	if (uv_tcp_getpeername(&t->u.tcp, (struct sockaddr *)&a, &n) == 0)
		(void)uv_ip_name((const struct sockaddr *)&a, ret_peer, TRANSPORT_PEER_BYTES);
	return 0;
}

int transport_read(struct transport *t, bool on)
{
	int r;

	if (on == t->read_active)
		return 0;
	r = on ? uv_read_start(&t->u.stream, on_alloc, on_read) : uv_read_stop(&t->u.stream);
	if (r == 0)
		t->read_active = on;
	return r;
}

int transport_send(struct transport *t, struct buf *out)
{
	if (t->write_active || !t->ready || !buf_len(out))
		return 0;
	return t->kind->send(t, out);
}

size_t transport_queued(const struct transport *t)
{
	return buf_len(&t->cipher) + (t->write_active ? buf_len(&t->writing) : 0);
}

int transport_shutdown(struct transport *t)
{
	int r = t->kind->end(t);

	t->shutdown_req.data = t;
	return r < 0 ? r : uv_shutdown(&t->shutdown_req, &t->u.stream, on_shutdown);
}

void transport_close(struct transport *t)
{
	if (t->closing)
		return;
	t->closing = true;
	uv_close(&t->u.handle, on_closed);
}

void transport_done(struct transport *t)
{
	tls_session_free(t->tls);
	buf_done(&t->cipher);
	buf_done(&t->writing);
}
