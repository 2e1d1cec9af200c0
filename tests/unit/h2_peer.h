/* A program or a server that speaks HTTP/2 with an exchange, by nghttp2: what it got is a text. For
 * tests. */
#ifndef TESTS_H2_PEER_H
#define TESTS_H2_PEER_H

#include <stdlib.h>

#include <nghttp2/nghttp2.h>

#include "exchange_fixture.h"

enum { PEER_FIELDS_MAX = 300 };

/* What a server answers when it has a request, or its head if `early`. */
struct peer_answer {
	const char *fields;   /* "name=value\n..." after :status */
	const char *body;     /* NULL: none */
	size_t endless;	      /* bytes of 'x' instead of the body */
	const char *trailers; /* like fields; NULL: none */
	const char *interim;  /* fields of an answer before it */
	unsigned interims;    /* how many of them; 0: one */
	bool early, silent;   /* silent: none */
	bool stays;	      /* nothing follows the body, not even its end */
};

struct peer {
	nghttp2_session *n;
	struct peer_body *bodies; /* all that were made */
	struct fixture *f;
	enum exchange_side side;
	struct buf log;	 /* of all but endless bodies */
	struct buf wait; /* bytes that the exchange has not taken yet */
	struct peer_answer answer;
	uint64_t bytes; /* of bodies */
	bool hold;	/* takes no bodies: its windows are not opened again */
	bool deaf;	/* takes nothing at all */
	unsigned heads, resets;
};

/* A body that is being sent. */
struct peer_body {
	struct peer_body *next;
	const char *text;
	size_t left;
	const char *trailers;
	bool stays;
};

/* Splits "name=value\n..."; a value may have '='. */
static inline size_t peer_fields(const char *text, nghttp2_nv *nv)
{
	size_t n = 0;

	while (text && *text && n < PEER_FIELDS_MAX) {
		const char *equals = strchr(text + 1, '='), *end = strchr(equals, '\n');

		if (!end)
			end = equals + strlen(equals);
		nv[n++] = (nghttp2_nv){(uint8_t *)text, (uint8_t *)equals + 1,
			(size_t)(equals - text), (size_t)(end - equals) - 1, 0};
		text = *end ? end + 1 : end;
	}
	return n;
}

static inline ssize_t peer_read(nghttp2_session *n, int32_t id, uint8_t *out, size_t room,
	uint32_t *flags, nghttp2_data_source *source, void *arg)
{
	struct peer_body *b = source->ptr;
	size_t part = b->left < room ? b->left : room;
	nghttp2_nv nv[PEER_FIELDS_MAX];

	if (b->text)
		memcpy(out, b->text, part);
	else
		memset(out, 'x', part);
	if (b->text)
		b->text += part;
	b->left -= part;
	if (b->left || (b->stays && part))
		return (ssize_t)part;
	if (b->stays)
		return NGHTTP2_ERR_DEFERRED;
	*flags |= NGHTTP2_DATA_FLAG_EOF;
	if (b->trailers) {
		*flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
		(void)nghttp2_submit_trailer(n, id, nv, peer_fields(b->trailers, nv));
	}
	return (ssize_t)part;
}

static inline nghttp2_data_provider peer_body(
	struct peer *p, const char *text, size_t endless, const char *trailers)
{
	struct peer_body *b = calloc(1, sizeof(*b));

	*b = (struct peer_body){.next = p->bodies,
		.text = endless ? NULL : text,
		.left = endless ? endless : strlen(text),
		.trailers = trailers,
		.stays = p->answer.stays};
	p->bodies = b;
	return (nghttp2_data_provider){.source.ptr = b, .read_callback = peer_read};
}

static inline void peer_respond(struct peer *p, int32_t id)
{
	nghttp2_nv nv[PEER_FIELDS_MAX];
	const struct peer_answer *a = &p->answer;
	nghttp2_data_provider body;

	if (a->silent)
		return;
	for (unsigned i = 0; a->interim && i < (a->interims ? a->interims : 1); i++)
		(void)nghttp2_submit_headers(
			p->n, 0, id, NULL, nv, peer_fields(a->interim, nv), NULL);
	if (a->body || a->endless)
		body = peer_body(p, a->body, a->endless, a->trailers);
	(void)nghttp2_submit_response(
		p->n, id, nv, peer_fields(a->fields, nv), a->body || a->endless ? &body : NULL);
}

static inline int peer_on_header(nghttp2_session *n, const nghttp2_frame *frame,
	const uint8_t *name, size_t name_bytes, const uint8_t *value, size_t value_bytes,
	uint8_t flags, void *arg)
{
	struct peer *p = arg;

	(void)buf_printf(&p->log, "%d %.*s=%.*s%s\n", frame->hd.stream_id, (int)name_bytes, name,
		(int)value_bytes, value, flags & NGHTTP2_NV_FLAG_NO_INDEX ? " (hidden)" : "");
	return 0;
}

static inline int peer_on_frame(nghttp2_session *n, const nghttp2_frame *frame, void *arg)
{
	struct peer *p = arg;
	bool end = frame->hd.flags & NGHTTP2_FLAG_END_STREAM;

	if (frame->hd.type == NGHTTP2_GOAWAY)
		(void)buf_printf(&p->log, "GOAWAY %u\n", frame->goaway.error_code);
	if (frame->hd.type != NGHTTP2_HEADERS && frame->hd.type != NGHTTP2_DATA)
		return 0;
	if (frame->hd.type == NGHTTP2_HEADERS)
		p->heads++;
	if (end)
		(void)buf_printf(&p->log, "%d END\n", frame->hd.stream_id);
	if (p->side == EXCHANGE_SERVER &&
		(p->answer.early ? frame->headers.cat == NGHTTP2_HCAT_REQUEST &&
					   frame->hd.type == NGHTTP2_HEADERS
				 : end))
		peer_respond(p, frame->hd.stream_id);
	return 0;
}

static inline int peer_on_data(
	nghttp2_session *n, uint8_t flags, int32_t id, const uint8_t *data, size_t bytes, void *arg)
{
	struct peer *p = arg;

	p->bytes += bytes;
	if (bytes < 1000)
		(void)buf_printf(&p->log, "%d DATA %.*s\n", id, (int)bytes, (const char *)data);
	if (!p->hold)
		(void)nghttp2_session_consume(n, id, bytes);
	return 0;
}

static inline int peer_on_close(nghttp2_session *n, int32_t id, uint32_t code, void *arg)
{
	struct peer *p = arg;

	if (code) {
		p->resets++;
		(void)buf_printf(&p->log, "%d RESET %u\n", id, code);
	}
	return 0;
}

static inline bool peer_open(struct peer *p, struct fixture *f, enum exchange_side side)
{
	nghttp2_session_callbacks *c;
	nghttp2_option *o;
	int r;

	*p = (struct peer){.f = f,
		.side = side,
		.log = BUF_INIT(16 << 20),
		.wait = BUF_INIT(64 << 20),
		.answer = {.fields = ":status=200\n", .body = "ok"}};
	if (nghttp2_session_callbacks_new(&c) < 0 || nghttp2_option_new(&o) < 0)
		return false;
	nghttp2_session_callbacks_set_on_header_callback(c, peer_on_header);
	nghttp2_session_callbacks_set_on_frame_recv_callback(c, peer_on_frame);
	nghttp2_session_callbacks_set_on_data_chunk_recv_callback(c, peer_on_data);
	nghttp2_session_callbacks_set_on_stream_close_callback(c, peer_on_close);
	nghttp2_option_set_no_auto_window_update(o, 1);
	nghttp2_option_set_no_http_messaging(o, 1); /* also sends what is not allowed */
	nghttp2_option_set_peer_max_concurrent_streams(o, 1000);
	r = side == EXCHANGE_GUEST ? nghttp2_session_client_new2(&p->n, c, p, o)
				   : nghttp2_session_server_new2(&p->n, c, p, o);
	nghttp2_session_callbacks_del(c);
	nghttp2_option_del(o);
	return r == 0 && nghttp2_submit_settings(p->n, 0, NULL, 0) == 0;
}

static inline void peer_close(struct peer *p)
{
	nghttp2_session_del(p->n);
	while (p->bodies) {
		struct peer_body *b = p->bodies;

		p->bodies = b->next;
		free(b);
	}
	buf_done(&p->log);
	buf_done(&p->wait);
}

/* fields as of peer_fields; body NULL: none. Returns the stream. */
static inline int32_t peer_request(
	struct peer *p, const char *fields, const char *body, size_t endless, const char *trailers)
{
	nghttp2_nv nv[PEER_FIELDS_MAX];
	nghttp2_data_provider provider;

	if (body || endless)
		provider = peer_body(p, body, endless, trailers);
	return nghttp2_submit_request(
		p->n, NULL, nv, peer_fields(fields, nv), body || endless ? &provider : NULL, NULL);
}

/* Moves bytes of one peer in both directions. Returns whether there were any. */
static inline bool peer_move(struct peer *p)
{
	struct exchange *x = p->f->x;
	const uint8_t *data;
	ssize_t n;
	size_t m;
	bool moved = false;

	while (buf_len(&p->wait) < 1 << 20 && (n = nghttp2_session_mem_send(p->n, &data)) > 0)
		(void)buf_add(&p->wait, data, (size_t)n);
	if (buf_len(&p->wait) && exchange_wants(x, p->side)) {
		m = exchange_receive(x, p->side, buf_head(&p->wait), buf_len(&p->wait));
		buf_consume(&p->wait, m);
		moved = m > 0;
	}
	data = exchange_output(x, p->side, &m);
	if (m && !p->deaf) {
		n = nghttp2_session_mem_recv(p->n, data, m);
		exchange_sent(x, p->side, m);
		if (n < 0)
			(void)buf_printf(&p->log, "ERROR %s\n", nghttp2_strerror((int)n));
		moved = true;
	}
	return moved;
}

static inline const char *peer_log(struct peer *p)
{
	(void)buf_add(&p->log, "", 1);
	p->log.end--;
	return (const char *)buf_head(&p->log);
}

#endif
