#include "http/server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "http/peers.h"
#include "proto/timestamp.h"

enum { TICK_MS = 1000, HOST_MAX = 64 };

/* --- addresses --- */

static bool is_loopback(const struct sockaddr_storage *a)
{
	if (a->ss_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)a)->sin6_addr);
}

int server_parse_listen(
	const char *listen, struct sockaddr_storage *ret, bool *ret_loopback, struct error *e)
{
	const char *colon = strrchr(listen, ':'), *host = listen;
	size_t n = colon ? (size_t)(colon - listen) : 0;
	char name[HOST_MAX];
	uint64_t port;

	if (n >= 2 && host[0] == '[' && host[n - 1] == ']') {
		host++;
		n -= 2;
	}
	if (!n || n >= sizeof(name) || str_parse_u64(colon + 1, &port) < 0 || port > UINT16_MAX)
		return error_set(e, ERROR_USAGE, EINVAL,
			"'%s' is no address to listen on: give ADDRESS:PORT, such as "
			"127.0.0.1:3000",
			listen);
	memcpy(name, host, n);
	name[n] = '\0';
	if (uv_ip4_addr(name, (int)port, (struct sockaddr_in *)ret) < 0 &&
		uv_ip6_addr(name, (int)port, (struct sockaddr_in6 *)ret) < 0)
		return error_set(
			e, ERROR_USAGE, EINVAL, "'%s' is no IP address to listen on", name);
	*ret_loopback = is_loopback(ret);
	return 0;
}

/* --- accepting --- */

static unsigned peer_count(const struct connection *c)
{
	return c->who->trusted ? 1 : c->who->connections;
}

/* Whether a should be closed before b: it is worth less, its address has more, or it is older. */
static bool is_worse(const struct connection *a, const struct connection *b, uint64_t now_ns)
{
	enum connection_worth x = connection_worth(a, now_ns), y = connection_worth(b, now_ns);

	if (x != y)
		return x < y;
	if (peer_count(a) != peer_count(b))
		return peer_count(a) > peer_count(b);
	return a->deadline_ns < b->deadline_ns;
}

/* Closes a connection that does nothing, of that address or (NULL) of any. */
static bool make_way(struct server *s, const struct connection *newcomer, const struct peer *who)
{
	uint64_t now_ns = clock_monotonic_ns();
	struct connection *worst = NULL;

	for (struct connection *c = s->all.first; c; c = c->next)
		if (c != newcomer && c->who && (!who || c->who == who) &&
			connection_worth(c, now_ns) != CONNECTION_BUSY &&
			(!worst || is_worse(c, worst, now_ns)))
			worst = c;
	if (worst) {
		metrics_add(METRIC_CONNECTIONS_CLOSED, NULL, NULL, 1);
		connection_close(worst);
	}
	return worst;
}

/* Returns the status that says why there is no place for a client, or NULL if there is one. */
static const char *no_place(struct server *s, const struct connection *c)
{
	if (!c->who->trusted && c->who->connections > s->peer_max && !make_way(s, c, c->who))
		return "429 Too Many Requests";
	if ((s->all.count > s->max || connection_is_scarce(c)) && !make_way(s, c, NULL))
		return "503 Service Unavailable";
	return NULL;
}

static void on_connection(struct listener *listener, int fd)
{
	static struct log_limit limit = LOG_LIMIT_INIT(5);
	const char *refusal;
	struct server *s = listener->data;
	enum server_door door = (enum server_door)(listener - s->listeners);
	struct connection *c = fd < 0 ? NULL : connection_new(&s->all, door);

	if (!c) {
		if (log_limited(&limit))
			log_warn("cannot accept a connection: %s",
				fd < 0 ? uv_strerror(fd) : "out of memory");
		if (fd >= 0)
			(void)close(fd); /* nothing was written */
		return;
	}
	if (connection_accept(c, fd) < 0)
		return;
	refusal = door == SERVER_PUBLIC ? no_place(s, c) : NULL;
	if (refusal) {
		metrics_add(METRIC_CONNECTIONS_REFUSED, NULL, NULL, 1);
		if (log_limited(&limit))
			log_warn(
				"connection refused: %u are open, %u of peer=%s, and none is idle; "
				"see --max-connections and the limit of open files",
				s->all.count - 1, c->who->connections - 1, c->peer);
		connection_turn_away(c, refusal);
		return;
	}
	connection_start(c);
}

/* --- turns --- */

static void on_idle(uv_idle_t *h)
{
	/* an active idle handle keeps the loop from waiting */
}

static void on_prepare(uv_prepare_t *h)
{
	struct server *s = h->data;
	struct connection *c = s->all.dirty;

	/* connections that get dirty now have their turn in the next round, after the others'
	 * I/O */
	s->all.dirty = s->all.dirty_last = NULL;
	while (c) {
		struct connection *next = c->dirty_next;

		connection_turn(c);
		c = next;
	}
	if (s->all.dirty)
		(void)uv_idle_start(&s->idle, on_idle); /* cannot fail */
	else
		(void)uv_idle_stop(&s->idle); /* always 0 */
}

static void on_tick(uv_timer_t *t)
{
	struct server *s = t->data;
	uint64_t now = clock_monotonic_ns();

	for (struct connection *c = s->all.first; c; c = c->next)
		connection_check_time(c, now);
}

/* --- TLS --- */

static void log_certificate(const struct server *s, const char *what)
{
	char text[TIMESTAMP_BYTES];

	log_info("%s a TLS certificate valid until %s", what,
		timestamp_format_ns(tls_context_expiry_s(s->all.tls) * NS_PER_S, text));
}

int server_use_tls(struct server *s, const char *cert_file, const char *key_file, struct error *e)
{
	int r = tls_context_new(cert_file, key_file, &s->all.tls, e);

	if (r == 0)
		log_certificate(s, "using");
	return r;
}

void server_reload(struct server *s)
{
	struct error e = {0};

	if (!s->all.tls)
		return;
	if (tls_context_reload(s->all.tls, &e) < 0)
		log_error("the TLS certificate in use stays: %s", e.message);
	else
		log_certificate(s, "now using");
}

/* --- starting --- */

struct server *server_new(unsigned max, unsigned peer_max)
{
	struct server *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	for (size_t i = 0; i < SERVER_DOORS; i++)
		s->listeners[i].fd = -1;
	s->max = max ? max : SERVER_CONNECTIONS;
	s->all.budget.max = BUDGET_BYTES;
	s->all.key_max = (s->max + 1) / 2;
	s->peer_max = peer_max ? peer_max : (s->max + 3) / 4;
	s->all.peers = peers_new();
	if (s->all.peers)
		return s;
	free(s);
	return NULL;
}

static void start_rest(struct server *s)
{
	uv_loop_t *loop = s->all.loop;

	if (s->has_rest)
		return;
	s->has_rest = true;
	/* without randomness, the ids of all runs are alike */
	(void)!getrandom(&s->all.run, sizeof(s->all.run), 0);
	/* none of these can fail */
	(void)uv_prepare_init(loop, &s->prepare);
	(void)uv_idle_init(loop, &s->idle);
	(void)uv_timer_init(loop, &s->tick);
	s->prepare.data = s->idle.data = s->tick.data = s;
	(void)uv_prepare_start(&s->prepare, on_prepare);
	(void)uv_timer_start(&s->tick, on_tick, TICK_MS, TICK_MS);
}

static int start_door(struct server *s, enum server_door door, int fd)
{
	if (fd < 0)
		return fd;
	start_rest(s);
	s->listeners[door].data = s;
	return listener_start(&s->listeners[door], s->all.loop, fd, on_connection);
}

static int listen_on(struct server *s, enum server_door door, const char *listen,
	uint16_t *ret_port, struct error *e)
{
	struct sockaddr_storage a = {0};
	bool loopback;
	int r = server_parse_listen(listen, &a, &loopback, e);

	if (r < 0)
		return r;
	r = start_door(s, door, listener_tcp(&a));
	if (r < 0)
		return error_set(
			e, ERROR_HOST, -r, "cannot listen on %s: %s", listen, uv_strerror(r));
	*ret_port = listener_port(&s->listeners[door]);
	return 0;
}

int server_start(struct server *s, const char *listen, struct error *e)
{
	return listen_on(s, SERVER_PUBLIC, listen, &s->port, e);
}

int server_start_metrics(struct server *s, const char *listen, struct error *e)
{
	int r = listen_on(s, SERVER_METRICS, listen, &s->metrics_port, e);

	if (r == 0)
		log_info("serving metrics metrics_port=%u", s->metrics_port);
	return r;
}

int server_start_admin(struct server *s, const char *path, struct error *e)
{
	int r = -ENOMEM;

	s->admin_path = strdup(path);
	if (s->admin_path)
		r = start_door(s, SERVER_ADMIN, listener_unix(path));
	return r < 0 ? error_set(e, ERROR_HOST, -r, "cannot listen on %s: %s", path, uv_strerror(r))
		     : 0;
}

void server_stop(struct server *s)
{
	for (size_t i = 0; i < SERVER_DOORS; i++)
		listener_close(&s->listeners[i]);
	if (s->admin_path)
		(void)unlink(s->admin_path); /* a later daemon replaces it, too */
	free(s->admin_path);
	s->admin_path = NULL;
	for (struct connection *c = s->all.first; c; c = c->next) {
		connection_flush(c); /* what those that stopped before have said */
		connection_close(c);
	}
	if (!s->has_rest)
		return;
	on_prepare(&s->prepare); /* frees dirty connections */
	uv_close((uv_handle_t *)&s->prepare, NULL);
	uv_close((uv_handle_t *)&s->idle, NULL);
	uv_close((uv_handle_t *)&s->tick, NULL);
	s->has_rest = false;
}

void server_free(struct server *s)
{
	if (!s)
		return;
	tls_context_free(s->all.tls);
	peers_free(s->all.peers);
	free(s);
}
