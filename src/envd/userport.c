#include "envd/userport.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "envd/code_access.h"
#include "envd/envd_absent.h"
#include "envd/envd_call.h"
#include "envd/envd_words.h"
#include "envd/port.h"
#include "fleet/fleet_of.h"
#include "proto/http_proxy.h"
#include "proto/json_tree.h"
#include "proto/signature.h"

enum { HEAD_MAX = 128 * 1024, PIECE_MAX = 128 * 1024 };

/*
 *	HEAD    the request is being sent and no final answer has come. For a bare tunnel: the port
 *		is being dialled
 *	BODY    the answer's head was passed on
 *	TUNNEL  101 was sent: raw bytes both ways
 *	OVER    the answer has ended or was cut
 */
enum tunnel_state { TUNNEL_HEAD, TUNNEL_BODY, TUNNEL_TUNNEL, TUNNEL_OVER };

struct tunnel {
	struct request *r;
	struct port *up;
	struct http_parser *parser; /* for answers */
	enum tunnel_state state;
	struct buf piece; /* scratch, to build a piece */
	uint16_t port;
	bool bare;   /* a tunnel from the first byte: the guest gets no request */
	bool opened; /* the port has accepted */
};

/* --- ending --- */

static void finish(struct tunnel *t)
{
	t->state = TUNNEL_OVER;
	port_close(t->up);
	t->up = NULL;
}

/* The sandbox has ended, or the connection into it. */
static void refuse_absent(struct tunnel *t)
{
	if (t->state == TUNNEL_HEAD)
		envd_absent_reply(t->r);
	else
		request_abort(t->r); /* the client must not take the answer for complete */
	finish(t);
}

static void refuse(struct tunnel *t, unsigned status, bool with_port, const char *message)
{
	if (t->state == TUNNEL_HEAD)
		envd_reply_proxy(
			t->r, status, t->r->route.sandbox_id, with_port ? t->port : 0, message);
	else
		request_abort(t->r); /* the client must not take the answer for complete */
	finish(t);
}

static void bad_answer(struct tunnel *t, const char *message)
{
	refuse(t, 502, true, message);
}

/* --- to the guest --- */

static void to_guest(struct tunnel *t, const void *data, size_t n)
{
	int r = port_write(t->up, data, n);

	if (r < 0)
		refuse(t, 502, true, "the connection to the port was lost");
	else if (r > 0)
		request_pause(t->r);
}

static void on_body(struct request *r, const uint8_t *data, size_t n)
{
	struct tunnel *t = r->data;

	if (t->state == TUNNEL_OVER)
		return;
	if (t->state == TUNNEL_TUNNEL || !r->head->chunked) {
		to_guest(t, data, n);
		return;
	}
	buf_clear(&t->piece);
	if (http_chunk(&t->piece, data, n) < 0)
		refuse(t, 503, false, "the server is out of memory");
	else
		to_guest(t, buf_head(&t->piece), buf_len(&t->piece));
}

static void on_body_end(struct request *r)
{
	struct tunnel *t = r->data;

	if (t->state == TUNNEL_OVER)
		return;
	if (t->state == TUNNEL_TUNNEL) {
		port_shutdown(t->up);
		return;
	}
	buf_clear(&t->piece);
	if (!r->head->chunked)
		return;
	if (http_chunk_last(&t->piece) < 0)
		refuse(t, 503, false, "the server is out of memory");
	else
		to_guest(t, buf_head(&t->piece), buf_len(&t->piece));
}

static void enter_tunnel(struct tunnel *t, const void *head, size_t n)
{
	t->state = TUNNEL_TUNNEL;
	if (request_upgrade(t->r, head, n) < 0)
		refuse(t, 502, true, "the tunnel cannot be opened");
	else
		request_resume(t->r);
}

static void on_opened(void *arg)
{
	static const char switching[] =
		"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"
		"Upgrade: tcp\r\n\r\n";
	struct tunnel *t = arg;

	t->opened = true;
	if (t->bare)
		enter_tunnel(t, switching, sizeof(switching) - 1);
}

static void on_writable(void *arg)
{
	struct tunnel *t = arg;

	request_resume(t->r);
}

/* --- to the client --- */

static void to_client(struct tunnel *t, const void *data, size_t n)
{
	int r = n ? request_write(t->r, data, n) : 0;

	if (r < 0)
		refuse(t, 502, true, "the client does not take the answer");
	else if (r > 0)
		port_pause(t->up);
}

static void on_drained(struct request *r)
{
	struct tunnel *t = r->data;

	if (t->up)
		port_resume(t->up);
}

static bool write_head(struct tunnel *t, bool *chunked, bool *close)
{
	const struct http_backward b = {.client_minor = t->r->head->minor,
		.client_head = strcmp(t->r->head->method, "HEAD") == 0,
		.close = !t->r->head->keep_alive};

	buf_clear(&t->piece);
	if (http_proxy_response(&t->piece, http_parser_head(t->parser), &b, chunked, close) == 0)
		return true;
	bad_answer(t, "the port's answer cannot be passed on");
	return false;
}

/* The daemon itself answers 100, when the handler wants the body. */
static void pass_interim(struct tunnel *t)
{
	bool chunked, close;

	if (http_parser_head(t->parser)->status == 100 || !t->r->head->minor)
		return;
	if (write_head(t, &chunked, &close))
		(void)request_interim(t->r, buf_head(&t->piece), buf_len(&t->piece)); /* optional */
}

static void pass_head(struct tunnel *t)
{
	unsigned status = http_parser_head(t->parser)->status;
	bool chunked, close;

	if (status == 101)
		return; /* the UPGRADE event follows */
	if (!write_head(t, &chunked, &close))
		return;
	t->state = TUNNEL_BODY;
	if (request_stream_proxied(
		    t->r, status, buf_head(&t->piece), buf_len(&t->piece), chunked, close) < 0)
		finish(t);
}

static void begin_tunnel(struct tunnel *t)
{
	bool chunked, close;

	if (!http_proxy_passes_upgrade(t->r->head)) {
		bad_answer(t, "the port switched protocols unasked");
		return;
	}
	if (write_head(t, &chunked, &close))
		enter_tunnel(t, buf_head(&t->piece), buf_len(&t->piece));
}

static void end_answer(struct tunnel *t)
{
	(void)request_end(t->r); /* or the client has gone */
	finish(t);
}

/* Handles one event of the answer. Returns false if there is no more for now. */
static bool act(struct tunnel *t, enum http_event event)
{
	const uint8_t *body;
	size_t n;

	switch (event) {
	case HTTP_HEAD:
		pass_head(t);
		return true;
	case HTTP_INTERIM:
		pass_interim(t);
		return true;
	case HTTP_BODY:
		body = http_parser_body(t->parser, &n);
		to_client(t, body, n);
		return true;
	case HTTP_UPGRADE:
		begin_tunnel(t);
		return true;
	case HTTP_END:
		end_answer(t);
		return false;
	case HTTP_ERROR:
		bad_answer(t, "the port's answer is no valid HTTP");
		return false;
	default:
		return false;
	}
}

static void on_data(const uint8_t *data, size_t n, void *arg)
{
	struct tunnel *t = arg;
	bool more = true;

	while (more && t->state != TUNNEL_TUNNEL && t->state != TUNNEL_OVER) {
		size_t used;
		enum http_event event = http_parser_next(t->parser, data, n, &used);

		data += used;
		n -= used;
		more = act(t, event);
	}
	if (t->state == TUNNEL_TUNNEL)
		to_client(t, data, n);
}

static void on_eof(void *arg)
{
	struct tunnel *t = arg;

	if (t->state == TUNNEL_TUNNEL)
		end_answer(t);
	else if (t->state != TUNNEL_OVER && http_parser_eof(t->parser) == HTTP_END)
		end_answer(t);
	else if (t->state != TUNNEL_OVER)
		bad_answer(t, "the port closed the connection without an answer");
}

/* 429 in the proxy's form (envd_reply.h), with the maximum. */
static void refuse_more(struct tunnel *t)
{
	char message[100]; /* longer than the text */

	(void)snprintf(message, sizeof(message),
		"The sandbox has too many concurrent incoming connections (limit: %d)",
		GATE_PLACES);
	envd_reply_connection_limit(t->r, t->r->route.sandbox_id, GATE_PLACES, message);
	finish(t);
}

static void on_lost(enum agent_error_class why, void *arg)
{
	struct tunnel *t = arg;

	if (why == AGENT_ERR_LIMIT && instance_find(fleet_of(t->r), t->r->route.sandbox_id))
		refuse_more(t);
	else if (why == AGENT_ERR_LIMIT)
		refuse_absent(t);
	else if (why)
		refuse(t, 502, true, ENVD_TEXT_CLOSED);
	else if (t->opened)
		refuse(t, 502, true, "the connection into the sandbox was lost");
	else
		refuse_absent(t);
}

static void on_no_tls(const char *why, void *arg)
{
	struct tunnel *t = arg;
	char text[256];

	(void)snprintf(text, sizeof(text), "the port is one of httpsPorts, and its TLS fails: %s",
		why); /* fits, or is cut */
	refuse(t, 502, true, text);
}

/* --- the request --- */

static void on_done(struct request *r, bool complete)
{
	struct tunnel *t = r->data;

	finish(t);
	http_parser_free(t->parser);
	buf_done(&t->piece);
	free(t);
}

/* The Host that the guest sees: maskRequestHost of the network object, with "${PORT}" replaced.
 * False: the client's Host is kept. */
static bool masked_host(const struct instance *i, uint16_t port, char out[HTTP_MASK_MAX])
{
	json_t *network = json_tree_stored(instance_network_json(i));
	const char *mask = json_string_value(json_object_get(network, "maskRequestHost"));
	bool masked = mask && http_proxy_mask(mask, port, out) == 0;

	json_decref(network);
	return masked;
}

/* Whether the port speaks TLS, as the sandbox said. */
static bool speaks_tls(const struct instance *i, uint16_t port)
{
	const char *text = instance_network_json(i);
	json_t *network = text && strstr(text, "httpsPorts") ? json_tree_stored(text) : NULL;
	const json_t *ports = json_object_get(network, "httpsPorts");
	bool found = false;

	for (size_t n = 0; n < json_array_size(ports) && !found; n++)
		found = json_integer_value(json_array_get(ports, n)) == port;
	json_decref(network);
	return found;
}

/* Drops X-Access-Token if it holds the sandbox's own token. Any other value belongs to the user's
 * service. */
static int write_request(struct tunnel *t, const struct instance *i)
{
	static const char *const all[] = {"e2b-sandbox-id", "e2b-sandbox-port",
		"e2b-traffic-access-token", "x-access-token", NULL};
	static const char *const others[] = {
		"e2b-sandbox-id", "e2b-sandbox-port", "e2b-traffic-access-token", NULL};
	const struct http_head *head = t->r->head;
	const char *token = http_header_get(&head->headers, "x-access-token");
	char host[HTTP_MASK_MAX];
	struct http_forward f = {.client = t->r->peer[0] ? t->r->peer : NULL,
		.scheme = t->r->encrypted ? "https" : "http",
		.drop = secret_equal(token, instance_envd_token(i)) ? all : others};

	if (masked_host(i, t->port, host))
		f.host = host;
	return http_proxy_request(&t->piece, head, &f);
}

static bool allow(struct request *r, const struct instance *i)
{
	const char *token = instance_traffic_token(i);
	const char *given = http_header_get(&r->head->headers, "e2b-traffic-access-token");

	if (!token || r->admin || (!instance_is_revoked(i) && secret_equal(given, token)))
		return true;
	envd_reply_proxy(r, 403, r->route.sandbox_id, 0,
		instance_is_revoked(i) ? ENVD_TEXT_REVOKED
		: given		       ? ENVD_TEXT_BAD_TOKEN
				       : ENVD_TEXT_NO_TOKEN);
	return false;
}

static bool allow_code(struct request *r, const struct instance *i)
{
	if (code_access_allowed(r, instance_envd_token(i), instance_is_revoked(i)))
		return true;
	envd_reply_proxy(r, 401, r->route.sandbox_id, 0,
		instance_is_revoked(i) ? ENVD_TEXT_REVOKED : ENVD_TEXT_NO_CODE);
	return false;
}

static struct tunnel *tunnel_new(struct request *r)
{
	static const struct request_ops ops = {on_body, on_body_end, on_drained, on_done};
	struct tunnel *t = calloc(1, sizeof(*t));

	if (t)
		t->parser = http_parser_new(HTTP_ROLE_CLIENT, NULL);
	if (!t || !t->parser) {
		free(t);
		return NULL;
	}
	t->r = r;
	t->port = r->route.port;
	t->bare = r->admin && r->head->upgrade && strcasecmp(r->head->upgrade, "tcp") == 0;
	buf_init(&t->piece, HEAD_MAX > PIECE_MAX ? HEAD_MAX : PIECE_MAX);
	if (strcmp(r->head->method, "HEAD") == 0)
		http_parser_expect_no_body(t->parser);
	request_set_ops(r, &ops, t);
	return t;
}

void userport_handle(struct request *r)
{
	static const struct port_ops ops = {
		on_opened, on_data, on_eof, on_writable, on_lost, on_no_tls};
	struct instance *i = instance_find(fleet_of(r), r->route.sandbox_id);
	struct tunnel *t;

	if (!i) {
		envd_absent_reply(r);
		return;
	}
	if (!allow(r, i) || !allow_code(r, i))
		return;
	request_meter(r, instance_id(i));
	if (!r->admin && !request_charge_to(r, instance_key_id(i)))
		return;
	t = tunnel_new(r);
	if (!t) {
		envd_reply_proxy(r, 503, r->route.sandbox_id, 0, "the server is out of memory");
		return;
	}
	if (!t->bare && write_request(t, i) < 0)
		refuse(t, 400, false, "the request cannot be passed on");
	else if (port_open(request_loop(r), i, t->port, !t->bare && speaks_tls(i, t->port), &ops, t,
			 &t->up) < 0)
		refuse_absent(t);
	else
		port_charge(t->up, r);
	if (t->up && !t->bare) {
		to_guest(t, buf_head(&t->piece), buf_len(&t->piece));
		request_resume(r);
	}
}
