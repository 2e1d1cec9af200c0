/* What a server in a sandbox says on a port of `httpsPorts`. The first byte: as it comes, or as
 * changes of what a real server says, in TLS 1.2 or 1.3; the second: in pieces of how many bytes.
 * The stream into the guest is this target's. */
#include "fuzz.h"

#include <errno.h>
#include <openssl/ec.h>
#include <openssl/evp.h>
#include <openssl/x509.h>
#include <time.h>
#include <uv.h>

#include "envd/port.h"
#include "tls_peer.h"

enum { ROOM = 64 << 10, TURNS_MAX = 16, RAW = 1, OLD = 2 };

/* --- the stream below --- */

struct upstream {
	const struct upstream_ops *ops;
	void *arg;
	BIO *to; /* NULL: nobody hears it */
	struct budget_hold hold;
};

static struct upstream below;

int upstream_open(uv_loop_t *loop, struct instance *i, uint16_t port,
	const struct upstream_ops *ops, void *arg, struct upstream **ret)
{
	below.ops = ops;
	below.arg = arg;
	*ret = &below;
	return 0;
}

struct budget_hold *upstream_hold(struct upstream *u)
{
	return &u->hold;
}

int upstream_write(struct upstream *u, const void *data, size_t n)
{
	return !u->to || BIO_write(u->to, data, (int)n) == (int)n ? 0 : -EIO;
}

void upstream_shutdown(struct upstream *u)
{
}

void upstream_pause(struct upstream *u)
{
}

void upstream_resume(struct upstream *u)
{
}

void upstream_close(struct upstream *u)
{
}

void request_hold(const struct request *r, struct budget_hold *h)
{
}

/* --- the owner --- */

struct owner {
	bool over; /* nothing follows */
};

static void on_opened(void *arg)
{
	check(!((struct owner *)arg)->over);
}

static void on_data(const uint8_t *data, size_t n, void *arg)
{
	check(!((struct owner *)arg)->over && n > 0);
}

static void on_end(void *arg)
{
	struct owner *o = arg;

	check(!o->over);
	o->over = true;
}

static void on_lost(enum agent_error_class why, void *arg)
{
	on_end(arg);
}

static void on_no_tls(const char *why, void *arg)
{
	check(why && *why);
	on_end(arg);
}

static void on_writable(void *arg)
{
	check(!((struct owner *)arg)->over);
}

/* --- the server --- */

static SSL_CTX *server;

static void prepare(void)
{
	EVP_PKEY *key = server ? NULL : EVP_EC_gen("P-256");
	X509 *x = X509_new();

	if (!server) {
		X509_gmtime_adj(X509_getm_notBefore(x), -3600);
		X509_gmtime_adj(X509_getm_notAfter(x), 36000);
		check(key && X509_set_pubkey(x, key) == 1 && X509_sign(x, key, EVP_sha256()) > 0);
		server = SSL_CTX_new(TLS_server_method());
		check(server && SSL_CTX_use_certificate(server, x) == 1 &&
			SSL_CTX_use_PrivateKey(server, key) == 1);
		(void)SSL_CTX_set_session_cache_mode(server, SSL_SESS_CACHE_OFF); /* the old mode */
	}
	X509_free(x);
	EVP_PKEY_free(key);
}

static void feed(const struct owner *o, const uint8_t *data, size_t n, size_t piece)
{
	for (size_t at = 0; at < n && !o->over; at += piece)
		below.ops->data(&below, data + at, n - at < piece ? n - at : piece, below.arg);
}

static void play(const struct owner *o, struct port *port, struct tls_peer *p, size_t piece)
{
	static uint8_t data[ROOM];

	for (int turn = 0; turn < TURNS_MAX && !o->over; turn++) {
		size_t n = tls_peer_turn(p, data, sizeof(data));

		feed(o, data, n, piece);
		if (!o->over && turn % 2)
			(void)port_write(port, "GET /", 5); /* it may be full */
		if (!o->over && turn == TURNS_MAX / 2)
			port_shutdown(port);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct port_ops ops = {
		on_opened, on_data, on_end, on_writable, on_lost, on_no_tls};
	struct owner o = {.over = false};
	struct tls_peer p;
	struct port *port;
	size_t piece;

	if (size < 2)
		return 0;
	prepare();
	p = tls_peer_make(server, data + 2, size - 2);
	SSL_set_accept_state(p.ssl);
	(void)SSL_set_max_proto_version(p.ssl, data[0] & OLD ? TLS1_2_VERSION : 0);
	below = (struct upstream){.to = p.in};
	check(port_open(uv_default_loop(), NULL, 443, true, &ops, &o, &port) == 0);
	below.ops->opened(&below, below.arg);
	piece = data[1] ? data[1] : size + ROOM;
	if (data[0] & RAW)
		feed(&o, data + 2, size - 2, piece);
	else
		play(&o, port, &p, piece);
	if (!o.over)
		below.ops->eof(&below, below.arg);
	port_close(port);
	SSL_free(p.ssl);
	(void)uv_run(uv_default_loop(), UV_RUN_NOWAIT); /* the timer's end */
	return 0;
}
