#include "sandbox/guest_http.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/http.h"
#include "sandbox/agent_call.h"

enum { READ_BYTES = 4096, REQUEST_MAX = 4096 };

/* --- the answer --- */

struct answer {
	struct http_parser *parser;
	struct buf *body; /* NULL: not wanted */
	unsigned status;
	bool whole, broken;
};

static void take_event(struct answer *a, enum http_event event)
{
	const uint8_t *data;
	size_t n;

	switch (event) {
	case HTTP_HEAD:
		a->status = http_parser_head(a->parser)->status;
		a->whole = !a->body;
		break;
	case HTTP_BODY:
		data = http_parser_body(a->parser, &n);
		if (buf_add(a->body, data, n) < 0)
			a->broken = true; /* longer than its user allows */
		break;
	case HTTP_END:
		a->whole = true;
		break;
	case HTTP_UPGRADE:
	case HTTP_ERROR:
		a->broken = true;
		break;
	default:
		break;
	}
}

static void take_bytes(struct answer *a, const uint8_t *data, size_t n)
{
	enum http_event event;
	size_t used;

	do {
		event = http_parser_next(a->parser, data, n, &used);
		take_event(a, event);
		data += used;
		n -= used;
	} while (!a->whole && !a->broken && event != HTTP_MORE && event != HTTP_REST);
}

/* --- the connection --- */

/* To the port of the guest; -1: nothing listens. What came already goes into the answer. */
static int connect_port(
	const struct guest_dialler *d, uint16_t port, uint64_t deadline_ns, struct answer *a)
{
	const struct agent_dial m = {.port = port, .host = ""};
	_cleanup_free_ uint8_t *early = NULL;
	struct agent_conn *c = NULL;
	struct agent_event ev;
	size_t n = 0;
	int fd = -1;

	if (d->dial(d->arg, &c, NULL) < 0)
		return -1;
	if (agent_call(c, deadline_ns, AGENT_DIAL, &m, AGENT_OK, &ev, NULL) < 0) {
		agent_close(c);
		return -1;
	}
	fd = agent_take_fd(c, &early, &n);
	if (fd >= 0 && n)
		take_bytes(a, early, n);
	return fd;
}

/* False: the deadline has passed, or the connection is broken. */
static bool await(int fd, short events, uint64_t deadline_ns)
{
	uint64_t now = clock_monotonic_ns();
	struct pollfd p = {.fd = fd, .events = events};
	int r;

	if (now >= deadline_ns)
		return false;
	r = poll(&p, 1, (int)((deadline_ns - now) / NS_PER_MS) + 1);
	return r > 0 || (r < 0 && errno == EINTR);
}

static bool send_request(int fd, const char *target, uint64_t deadline_ns)
{
	char request[REQUEST_MAX];
	int length = snprintf(request, sizeof(request),
		"GET %s HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n",
		target);
	size_t sent = 0;

	if (length < 0 || (size_t)length >= sizeof(request))
		return false;
	while (sent < (size_t)length) {
		ssize_t n = send(
			fd, request + sent, (size_t)length - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

		if (n > 0)
			sent += (size_t)n;
		else if ((errno != EAGAIN && errno != EINTR) || !await(fd, POLLOUT, deadline_ns))
			return false;
	}
	return true;
}

static void receive(int fd, uint64_t deadline_ns, struct answer *a)
{
	uint8_t data[READ_BYTES];

	while (!a->whole && !a->broken && await(fd, POLLIN, deadline_ns)) {
		ssize_t n = recv(fd, data, sizeof(data), MSG_DONTWAIT);

		if (n > 0) {
			take_bytes(a, data, (size_t)n);
		} else if (n == 0) {
			a->whole = http_parser_eof(a->parser) == HTTP_END;
			return;
		} else if (errno != EAGAIN && errno != EINTR) {
			return;
		}
	}
}

unsigned guest_http_get(
	const struct guest_dialler *d, uint16_t port, const char *target, struct buf *ret_body)
{
	uint64_t deadline_ns = clock_monotonic_ns() + GUEST_HTTP_S * NS_PER_S;
	struct answer a = {.parser = http_parser_new(HTTP_ROLE_CLIENT, NULL), .body = ret_body};
	_cleanup_close_ int fd = a.parser ? connect_port(d, port, deadline_ns, &a) : -1;

	if (fd >= 0 && send_request(fd, target, deadline_ns))
		receive(fd, deadline_ns, &a);
	http_parser_free(a.parser);
	return a.whole && !a.broken ? a.status : 0;
}
