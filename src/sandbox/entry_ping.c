#include "sandbox/entry_ping.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "proto/http.h"
#include "proto/json_tree.h"
#include "sandbox/agent_call.h"

enum { READ_BYTES = 4096 };

static const char request[] =
	"GET /ping HTTP/1.1\r\nHost: localhost\r\nAccept: */*\r\nConnection: close\r\n\r\n";

/* --- the answer --- */

static bool is_ready(unsigned status, const char *body, size_t n)
{
	const char *reason, *word;
	json_t *root;
	bool ready;

	if (status == 404 || status == 405 || status == 501)
		return true;
	if (status != 200)
		return false;
	root = json_tree_parse(body, n, 0, &reason);
	word = json_tree_word(root, "status");
	ready = !word || strcmp(word, "Healthy") == 0 || strcmp(word, "HealthyBusy") == 0;
	json_decref(root);
	return ready;
}

struct answer {
	struct http_parser *parser;
	struct buf body;
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
		break;
	case HTTP_BODY:
		data = http_parser_body(a->parser, &n);
		if (buf_add(&a->body, data, n) < 0)
			a->broken = true; /* no answer to a ping is so long */
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
	const struct entry_dialler *d, uint16_t port, uint64_t deadline_ns, struct answer *a)
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

static bool send_request(int fd, uint64_t deadline_ns)
{
	size_t sent = 0;

	while (sent < strlen(request)) {
		ssize_t n = send(
			fd, request + sent, strlen(request) - sent, MSG_DONTWAIT | MSG_NOSIGNAL);

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

bool entry_ping(const struct entry_dialler *d, uint16_t port)
{
	uint64_t deadline_ns = clock_monotonic_ns() + ENTRY_PING_S * NS_PER_S;
	struct answer a = {.parser = http_parser_new(HTTP_ROLE_CLIENT, NULL),
		.body = BUF_INIT(ENTRY_PING_BODY_MAX)};
	_cleanup_close_ int fd = a.parser ? connect_port(d, port, deadline_ns, &a) : -1;
	bool ready;

	if (fd >= 0 && send_request(fd, deadline_ns))
		receive(fd, deadline_ns, &a);
	ready = a.whole && !a.broken &&
		is_ready(a.status, (const char *)buf_head(&a.body), buf_len(&a.body));
	buf_done(&a.body);
	http_parser_free(a.parser);
	return ready;
}
