/* `mayfly port`: forwards a TCP port of this host to one in a sandbox, over tunnels of the daemon
 * (Upgrade: tcp, docs/api.md). One poll loop; each connection holds a bounded number of bytes in
 * each direction. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/str.h"
#include "cli/clean.h"
#include "cli/cli.h"
#include "cli/remote/remote.h"
#include "cli/remote/sink.h"

enum {
	CONNECTIONS_MAX = 200, /* the agent takes 256 of all clients */
	BACKLOG = 128,
	CHUNK = 64 * 1024,
	FDS_PER_CONNECTION = 2,
};

/*	OPENING  the daemon dials the port
 *	OPEN     bytes go both ways
 *	DRAINING the sandbox's side has ended: what it sent is still passed on
 *	OVER     to be closed
 */
enum tunnel_state { TUNNEL_OPENING, TUNNEL_OPEN, TUNNEL_DRAINING, TUNNEL_OVER };

struct tunnel {
	enum tunnel_state state;
	int fd;		  /* the local connection */
	struct sink sink; /* of it */
	struct client *client;
	bool ended; /* the local side sends no more */
};

struct forward {
	struct remote remote;
	uint16_t port;
	int listen_fd;
	struct tunnel tunnels[CONNECTIONS_MAX];
	unsigned count;
};

/* --- one connection --- */

static void tunnel_close(struct tunnel *t)
{
	client_close(t->client);
	sink_close(&t->sink);
	(void)close(t->fd); /* a socket */
}

static int tunnel_open(struct forward *f, int fd, struct error *e)
{
	const struct client_request request = {.method = "GET",
		.target = "/",
		.sandbox = f->remote.id,
		.port = f->port,
		.upgrade = "tcp"};
	struct tunnel t = {.fd = fd};
	int r = client_open(&f->remote.home, &t.client, e);

	if (r == 0)
		r = client_begin(t.client, &request, e);
	if (r < 0) {
		client_close(t.client);
		(void)close(fd); /* nothing was passed */
		return r;
	}
	sink_open(&t.sink, fd);
	f->tunnels[f->count++] = t;
	return 0;
}

/* Bytes of the local side, while the daemon takes them. */
static void read_local(struct tunnel *t)
{
	uint8_t data[CHUNK];
	ssize_t n;

	if (t->ended || t->state == TUNNEL_OVER || client_room(t->client) < CHUNK)
		return;
	n = recv(t->fd, data, sizeof(data), MSG_DONTWAIT);
	if (n > 0 && client_send(t->client, data, (size_t)n, NULL) < 0)
		t->state = TUNNEL_OVER;
	if (n < 0 && errno != EAGAIN && errno != EINTR)
		t->state = TUNNEL_OVER;
	t->ended = n == 0;
}

/* The end of the local side is passed on when there is a tunnel to pass it through. */
static void pass_end(struct tunnel *t)
{
	if (t->ended && t->state == TUNNEL_OPEN)
		client_shutdown(t->client);
}

/* The port, or the sandbox, refused. */
static int refused(struct forward *f, struct tunnel *t, struct error *e)
{
	_cleanup_free_ char *target = str_printf("/sandboxes/%s", f->remote.id);
	const struct client_request request = {.method = "GET", .target = target};
	_cleanup_(client_closep) struct client *c = NULL;
	struct error why = {0};
	char prefix[40];
	int r;

	t->state = TUNNEL_OVER;
	(void)client_refusal(t->client, &why);				      /* says why */
	(void)snprintf(prefix, sizeof(prefix), "mayfly: port %u: ", f->port); /* fits */
	clean_print_error(prefix, why.message);
	r = client_open(&f->remote.home, &c, e);
	if (r == 0)
		r = client_call(c, &request, NULL, CLIENT_PATIENCE_S, NULL, e);
	return r;
}

/* Bytes of the sandbox's side, while the local one takes them. */
static int read_remote(struct forward *f, struct tunnel *t, struct error *e)
{
	while (t->state <= TUNNEL_OPEN && !sink_is_pending(&t->sink)) {
		enum client_event ev;
		const uint8_t *data;
		size_t n;

		if (client_next(t->client, &ev, NULL) < 0)
			t->state = TUNNEL_OVER;
		else if (ev == CLIENT_HEAD)
			return refused(f, t, e);
		else if (ev == CLIENT_TUNNEL)
			t->state = TUNNEL_OPEN;
		else if (ev == CLIENT_CLOSED)
			t->state = TUNNEL_DRAINING;
		else if (ev == CLIENT_WAIT)
			return 0;
		if (t->state != TUNNEL_OPEN || ev != CLIENT_BODY)
			continue;
		data = client_body(t->client, &n);
		sink_write(&t->sink, data, n);
	}
	return 0;
}

static int move(struct forward *f, struct tunnel *t, struct error *e)
{
	int r;

	if (sink_is_pending(&t->sink))
		sink_flush(&t->sink);
	read_local(t);
	r = read_remote(f, t, e);
	pass_end(t);
	if (client_flush(t->client, NULL) < 0 || t->sink.closed || t->sink.err ||
		(t->state == TUNNEL_DRAINING && !sink_is_pending(&t->sink)))
		t->state = TUNNEL_OVER;
	return r;
}

static void tunnel_poll(const struct tunnel *t, struct pollfd fds[FDS_PER_CONNECTION])
{
	bool pending = sink_is_pending(&t->sink);
	bool reads = !t->ended && client_room(t->client) >= CHUNK;
	short events = (short)((reads ? POLLIN : 0) | (pending ? POLLOUT : 0));

	fds[0] = (struct pollfd){.fd = events ? t->fd : -1, .events = events};
	fds[1] = client_poll(t->client, pending || t->state > TUNNEL_OPEN);
}

/* --- all of them --- */

static int accept_one(struct forward *f, struct error *e)
{
	int fd = accept4(f->listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);

	if (fd < 0) /* it went again; or descriptors are short, and the next one may fit */
		return 0;
	return tunnel_open(f, fd, e);
}

static void drop_over(struct forward *f)
{
	for (unsigned i = f->count; i-- > 0;)
		if (f->tunnels[i].state == TUNNEL_OVER) {
			tunnel_close(&f->tunnels[i]);
			f->tunnels[i] = f->tunnels[--f->count];
		}
}

static int serve(struct forward *f, struct error *e)
{
	struct pollfd fds[1 + CONNECTIONS_MAX * FDS_PER_CONNECTION];
	int r = 0;

	while (r == 0) {
		unsigned count = f->count;

		fds[0] = (struct pollfd){
			.fd = count < CONNECTIONS_MAX ? f->listen_fd : -1, .events = POLLIN};
		for (unsigned i = 0; i < count; i++)
			tunnel_poll(&f->tunnels[i], fds + 1 + i * FDS_PER_CONNECTION);
		if (poll(fds, 1 + count * FDS_PER_CONNECTION, -1) < 0 && errno != EINTR)
			return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
		for (unsigned i = 0; r == 0 && i < count; i++)
			r = move(f, &f->tunnels[i], e);
		if (r == 0 && fds[0].revents)
			r = accept_one(f, e);
		drop_over(f);
	}
	return r;
}

static int listen_on(struct forward *f, uint16_t port, struct error *e)
{
	struct sockaddr_in a = {.sin_family = AF_INET,
		.sin_port = htons(port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t n = sizeof(a);
	int on = 1;

	f->listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (f->listen_fd < 0)
		return error_set_errno(e, ERROR_INTERNAL, errno, "socket");
	/* what was in use a moment ago may be used again */
	(void)setsockopt(f->listen_fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	if (bind(f->listen_fd, (struct sockaddr *)&a, sizeof(a)) < 0 ||
		listen(f->listen_fd, BACKLOG) < 0 ||
		getsockname(f->listen_fd, (struct sockaddr *)&a, &n) < 0)
		return error_set_errno(e, ERROR_HOST, errno,
			"cannot listen on 127.0.0.1:%u (give another LOCAL_PORT, 0 for any)", port);
	printf("127.0.0.1:%u leads to port %u of %s\n", ntohs(a.sin_port), f->port, f->remote.id);
	return fflush(stdout) == 0 ? 0
				   : error_set_errno(e, ERROR_INTERNAL, errno, "standard output");
}

static int take_port(const char *text, uint64_t min, uint16_t *ret, struct error *e)
{
	uint64_t v;

	if (str_parse_u64(text, &v) < 0 || v < min || v > UINT16_MAX)
		return error_set(e, ERROR_USAGE, EINVAL, "'%s' is no port", text);
	*ret = (uint16_t)v;
	return 0;
}

static void forward_free(struct forward *f)
{
	for (unsigned i = 0; i < f->count; i++)
		tunnel_close(&f->tunnels[i]);
	if (f->listen_fd >= 0)
		(void)close(f->listen_fd); /* a socket */
	remote_close(&f->remote);
	free(f);
}

static int run(void *values, int argc, char **argv, struct error *e)
{
	struct forward *f;
	uint16_t local = 0;
	int r;

	if (argc < 2 || argc > 3)
		return error_set(e, ERROR_USAGE, EINVAL, "give a sandbox and one or two ports");
	f = calloc(1, sizeof(*f));
	if (!f)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	f->remote = (struct remote)REMOTE_INIT;
	f->listen_fd = -1;
	r = take_port(argv[1], 1, &f->port, e);
	if (r == 0)
		r = take_port(argv[argc - 1], argc == 3 ? 0 : 1, &local, e);
	if (r == 0)
		r = remote_open(argv[0], &f->remote, e);
	if (r == 0)
		r = listen_on(f, local, e);
	if (r == 0)
		r = serve(f, e);
	forward_free(f);
	return r;
}

static const struct option_spec options[] = {CLI_OPTION_HELP, CLI_OPTIONS_END};

const struct cli_verb cli_verb_port = {
	.name = "port",
	.arguments = "ID PORT [LOCAL_PORT]",
	.summary = "Forward a port of this host to one in a sandbox",
	.description = "Listens on 127.0.0.1:LOCAL_PORT until it is interrupted or the sandbox "
		       "ends. LOCAL_PORT is\n"
		       "PORT by default, and 0 means any free port. Passes any protocol over TCP, "
		       "up to 200\n"
		       "connections at the same time.",
	.options = options,
	.values_bytes = sizeof(struct cli_common),
	.run = run,
};
