/* Clients that break the protocol, do not read, ask for too much, or vanish. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent_test.h"
#include "base/bytes.h"
#include "base/clock.h"
#include "base/fd.h"

enum { REPLY_MAX = 4096, RSS_LIMIT_KIB = 24 * 1024 };

/* Sends bytes, reads what comes until the agent closes or is silent; how much came. */
static size_t converse(const void *data, size_t n, uint8_t reply[REPLY_MAX], bool *closed)
{
	int fd = raw_socket();
	size_t got = 0;
	ssize_t k = 1;

	*closed = false;
	(void)send(fd, data, n, MSG_NOSIGNAL);
	while (got < REPLY_MAX) {
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, 300) != 1)
			break;
		k = read(fd, reply + got, REPLY_MAX - got);
		if (k <= 0)
			break;
		got += (size_t)k;
	}
	*closed = k <= 0;
	(void)close(fd);
	return got;
}

/* The class of an ERROR at the start of a reply, 0 when it is none. */
static unsigned error_in(const uint8_t *reply, size_t n)
{
	struct agent_error e;

	if (n < 8 || reply[0] != AGENT_ERROR || get_le32(reply + 4) > n - 8 ||
		agent_error_decode(reply + 8, get_le32(reply + 4), &e) < 0)
		return 0;
	return e.class;
}

static void still_serves(void)
{
	struct agent_hello_reply h;

	CHECK(agent_hello(dial_agent(), soon(), &h, NULL) == 0);
}

static void test_bad_frames(void)
{
	static const struct {
		uint8_t bytes[16];
		size_t n;
	} bad[] = {
		{{0x01, 0x02, 0, 0, 0, 0, 0, 0}, 8},		  /* flag */
		{{0x01, 0, 1, 0, 0, 0, 0, 0}, 8},		  /* reserved */
		{{0x01, 0, 0, 0, 1, 0, 1, 0}, 8},		  /* length */
		{{0x01, 0, 0, 0, 0xff, 0xff, 0xff, 0xff}, 8},	  /* length */
		{{0x01, 0, 0, 0, 3, 0, 0, 0, 1, 0, 1}, 11},	  /* short HELLO */
		{{0x01, 0, 0, 0, 5, 0, 0, 0, 1, 0, 1, 0, 0}, 13}, /* long HELLO */
		{{0x20, 0x01, 0, 0, 1, 0, 0, 0, 'x'}, 9},	  /* raw bytes in pieces */
		{{0x10, 0x01, 0, 0, 0, 0, 0, 0}, 8},		  /* empty piece */
	};
	uint8_t reply[REPLY_MAX];
	bool closed;

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		size_t n = converse(bad[i].bytes, bad[i].n, reply, &closed);

		if (error_in(reply, n) != AGENT_ERR_MALFORMED || !closed)
			test_fail("case %zu: %zu bytes, error %u, closed %d", i, n,
				error_in(reply, n), closed);
	}
	still_serves();
}

static void test_random_bytes(void)
{
	static uint8_t data[20000];
	uint8_t reply[REPLY_MAX];
	uint32_t seed = 12345;
	bool closed;

	for (int round = 0; round < 50; round++) {
		for (size_t i = 0; i < sizeof(data); i++) {
			seed = seed * 1664525 + 1013904223;
			data[i] = (uint8_t)(seed >> 24);
		}
		data[1] = data[2] = data[3] = data[6] = data[7] = 0; /* past the first header */
		if (data[0] == AGENT_SHUTDOWN || data[0] == 'C')
			data[0] = AGENT_EXEC;
		data[5] &= 0x3f;
		(void)converse(data, sizeof(data), reply, &closed);
	}
	still_serves();
}

/* Every bit of a real request flipped, one at a time. */
static void test_flipped_bits(void)
{
	static const char *const argv[] = {"true"}, *const env[] = {"A=b"};
	struct agent_exec x = {.user = "root",
		.cwd = "/",
		.argv = {.array = argv, .count = 1},
		.env = {.array = env, .count = 1}};
	struct buf b = BUF_INIT(4096);
	uint8_t reply[64];

	CHECK(agent_exec_encode(&b, &x) == 0);
	for (size_t bit = 0; bit < buf_len(&b) * 8; bit++) {
		struct pollfd p = {.fd = raw_socket(), .events = POLLIN};

		b.data[b.start + bit / 8] ^= (uint8_t)(1 << bit % 8);
		if (b.data[b.start] == AGENT_SHUTDOWN)
			b.data[b.start] = AGENT_EXEC;
		(void)send(p.fd, buf_head(&b), buf_len(&b), MSG_NOSIGNAL);
		if (poll(&p, 1, 20) == 1)
			(void)!read(p.fd, reply, sizeof(reply));
		(void)close(p.fd);
		b.data[b.start + bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	buf_done(&b);
	still_serves();
}

static void test_unknown(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_entry e;
	uint8_t reply[REPLY_MAX];
	bool closed;
	static const uint8_t unknown[] = {0x4f, 0, 0, 0, 2, 0, 0, 0, 1, 2, /* request */
		0x24, 0, 0, 0, 0, 0, 0, 0,  /* a late STOP: ignored */
		0x05, 0, 0, 0, 0, 0, 0, 0}; /* METRICS */
	size_t n = converse(unknown, sizeof(unknown), reply, &closed);

	CHECK(error_in(reply, n) == AGENT_ERR_UNSUPPORTED && !closed);
	CHECK(reply[8 + get_le32(reply + 4)] == AGENT_METRICS);
	CHECK(agent_stat(c, soon(), "/", 0x800, &e, NULL) == -EOPNOTSUPP);
	CHECK(agent_stat(c, soon(), "/", 0, &e, NULL) == 0);
}

static void append_string(struct buf *b, size_t n, char fill)
{
	(void)buf_add_le32(b, (uint32_t)n);
	for (size_t i = 0; i < n; i++)
		(void)buf_add_u8(b, (uint8_t)fill);
	(void)buf_add_u8(b, 0);
}

/* What our own encoder would refuse to send. */
static void test_limits(void)
{
	struct buf b = BUF_INIT(4 << 20);
	uint8_t reply[REPLY_MAX], header[8];
	bool closed;
	size_t n;

	/* A path of 5000 bytes: refused, the connection goes on. */
	agent_header_encode(header, AGENT_STAT, 0, 4 + 5 + 5005);
	(void)buf_add(&b, header, 8);
	(void)buf_add_le32(&b, 0);
	append_string(&b, 0, 0);
	append_string(&b, 5000, 'p');
	agent_header_encode(header, AGENT_GET_METRICS, 0, 0);
	(void)buf_add(&b, header, 8);
	n = converse(buf_head(&b), buf_len(&b), reply, &closed);
	CHECK(error_in(reply, n) == AGENT_ERR_LIMIT && !closed);
	CHECK(reply[8 + get_le32(reply + 4)] == AGENT_METRICS);
	/* A message over 512 KiB, in pieces. */
	buf_clear(&b);
	for (int i = 0; i < 10; i++) {
		agent_header_encode(header, AGENT_EXEC, AGENT_MORE, AGENT_PAYLOAD_MAX);
		(void)buf_add(&b, header, 8);
		for (int k = 0; k < AGENT_PAYLOAD_MAX; k++)
			(void)buf_add_u8(&b, 0);
	}
	n = converse(buf_head(&b), buf_len(&b), reply, &closed);
	CHECK(error_in(reply, n) == AGENT_ERR_LIMIT && closed);
	buf_done(&b);
	still_serves();
}

static void test_long_commands(void)
{
	static char big[120 * 1024], value[100 * 1024];
	const char *argv[] = {"sh", "-c", "echo ${#0} ${#A} ${#B}", big};
	const char *env[] = {value, "B=2", value};
	struct agent_conn *c = dial_agent();
	struct command k = {0};
	struct error e = {0};
	struct agent_exec x;
	struct outcome o;

	memset(big, 'b', sizeof(big) - 1);
	memset(value, 'v', sizeof(value) - 1);
	memcpy(value, "A=", 2);
	make_exec(&k, &x);
	x.argv = (struct agent_strings){.array = argv, .count = 4};
	x.env = (struct agent_strings){.array = env, .count = 2};
	CHECK(agent_exec_start(c, &x, &e) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "122879 102397 1\n"));
	outcome_done(&o);
	x.env.count = 3;
	x.argv.count = 3;
	CHECK(agent_exec_start(c, &x, &e) == -E2BIG || e.code == 0);
	e = (struct error){0};
	argv[1] = argv[0] = big;
	x.argv.count = 2;
	CHECK(agent_exec_start(c, &x, &e) == -E2BIG && e.code == ERROR_LIMIT);
	env[0] = "no equals sign";
	x.argv.count = 0;
	x.env.count = 1;
	e = (struct error){0};
	CHECK(agent_exec_start(c, &x, &e) == -EINVAL && e.code == ERROR_USAGE);
}

/* Ten half-sent long messages do not cost the agent ten times half a megabyte. */
static void test_half_sent(void)
{
	static uint8_t frame[8 + AGENT_PAYLOAD_MAX];
	int fds[20], refused = 0;

	agent_header_encode(frame, AGENT_EXEC, AGENT_MORE, AGENT_PAYLOAD_MAX);
	for (int i = 0; i < 20; i++) {
		fds[i] = raw_socket();
		(void)fd_write_full(fds[i], frame, sizeof(frame));
	}
	usleep(200000);
	for (int i = 0; i < 20; i++) {
		uint8_t type = 0;

		refused += recv(fds[i], &type, 1, MSG_DONTWAIT) == 1 && type == AGENT_ERROR;
		(void)close(fds[i]);
	}
	CHECK(refused == 12);
	still_serves();
}

static void test_connections(void)
{
	static struct agent_conn *c[AGENT_CONNECTIONS_MAX + 20];
	struct agent_event ev;
	struct error e = {0};
	int fds[AGENT_CONNECTIONS_MAX + 20], refused = 0, served = 0;

	for (int i = 0; i < AGENT_CONNECTIONS_MAX + 20; i++) {
		fds[i] = raw_socket();
		if (fds[i] < 0 || agent_open(fds[i], 0, &c[i], &e) < 0)
			break;
		(void)agent_request(c[i], AGENT_GET_METRICS, NULL, NULL);
		if (agent_wait_event(c[i], soon(), &ev, NULL) == 1) {
			served += ev.type == AGENT_METRICS;
			refused += ev.type == AGENT_ERROR && ev.error.class == AGENT_ERR_LIMIT;
		}
	}
	for (int i = 0; i < AGENT_CONNECTIONS_MAX + 20; i++)
		agent_close(c[i]);
	CHECK(served == AGENT_CONNECTIONS_MAX && refused == 20);
	usleep(50000);
	still_serves();
}

/* Twenty clients start endless output and do not read a byte. */
static void test_slow_readers(void)
{
	enum { N = 20 };
	struct agent_conn *c[N];
	struct agent_read r = {.length = UINT64_MAX, .path = "/proc/self/exe"};
	long before = agent_rss_kib(), after;
	struct outcome o;

	for (int i = 0; i < N; i++) {
		c[i] = dial_agent();
		if (i % 2) {
			CHECK(start_shell(c[i], "yes", AGENT_EXEC_KILL_ON_CLOSE));
		} else {
			for (int k = 0; k < 100; k++)
				(void)agent_request(c[i], AGENT_READ, &r, NULL);
			(void)agent_flush(c[i], NULL);
		}
	}
	usleep(700000);
	after = agent_rss_kib();
	/* Others are served meanwhile. */
	run_shell(dial_agent(), "echo fine", &o);
	CHECK(output_is(&o.out, "fine\n"));
	outcome_done(&o);
	if (after - before > RSS_LIMIT_KIB && !getenv("AGENT_TEST_SANITIZED"))
		test_fail("the agent grew from %ld to %ld KiB", before, after);
}

/* One of two attached readers stops: the process waits for it, until it goes. */
static void test_slow_attacher(void)
{
	struct agent_conn *fast = dial_agent(), *slow = dial_agent();
	struct agent_attach a;
	struct outcome o;

	a.process = (struct agent_selector){
		.pid = start_shell(fast, "sleep 0.2; yes | head -c 4000000", 0)};
	CHECK(agent_request(slow, AGENT_ATTACH, &a, NULL) == 0 && agent_flush(slow, NULL) == 1);
	usleep(900000);
	(void)shutdown(agent_fd(slow), SHUT_RDWR);
	collect(fast, &o, NULL, 0);
	CHECK(buf_len(&o.out) == 4000000 && o.exit.status == 0);
	outcome_done(&o);
}

/* Takes what has come and counts the ENTRYs in it; less than 0 when the agent is gone. */
static int take_entries(int fd, struct agent_rx *rx)
{
	struct agent_frame f;
	size_t space;
	uint8_t *p = agent_rx_space(rx, &space);
	ssize_t n = p ? recv(fd, p, space, MSG_DONTWAIT) : -1;
	int entries = 0;

	if (n == 0 || (n < 0 && errno != EAGAIN))
		return -1;
	agent_rx_received(rx, n > 0 ? (size_t)n : 0);
	while (agent_rx_next(rx, &f) == 1)
		entries += f.type == AGENT_ENTRY;
	return entries;
}

/* Requests pile up unread on both sides: all are answered in the end. */
static void test_many_requests(void)
{
	enum { N = 5000 };
	struct agent_stat m = {.path = "/"};
	struct buf out = BUF_INIT(4 << 20);
	struct agent_rx rx;
	size_t sent = 0;
	int fd = raw_socket(), answers = 0, r = 0;

	for (int i = 0; i < N; i++)
		CHECK(agent_stat_encode(&out, &m) == 0);
	while (sent < buf_len(&out)) { /* until the agent takes no more */
		ssize_t k = send(fd, buf_head(&out) + sent, buf_len(&out) - sent, MSG_DONTWAIT);

		if (k < 0)
			break;
		sent += (size_t)k;
		usleep(1000);
	}
	usleep(100000);
	agent_rx_init(&rx);
	while (answers < N && r >= 0) {
		ssize_t k = sent < buf_len(&out) ? send(fd, buf_head(&out) + sent,
							   buf_len(&out) - sent, MSG_DONTWAIT)
						 : 0;

		sent += k > 0 ? (size_t)k : 0;
		r = take_entries(fd, &rx);
		answers += r;
		if (r == 0 && k <= 0)
			usleep(500);
	}
	agent_rx_done(&rx);
	(void)close(fd);
	buf_done(&out);
	CHECK(answers == N);
}

static void test_vanishing_clients(void)
{
	struct agent_list l = {.depth = 5, .path = "/usr"};
	struct agent_watch w = {.flags = AGENT_WATCH_RECURSIVE, .path = "/usr"};
	struct agent_write wr = {
		.mode = 0600, .flags = AGENT_WRITE_PARENTS, .path = "/tmp/agent-test-v"};
	static const char *const argv[] = {"sh", "-c", "echo; exec sleep 1"};
	struct agent_exec x = {.flags = AGENT_EXEC_KILL_ON_CLOSE | AGENT_EXEC_PTY,
		.argv = {.array = argv, .count = 3}};

	for (int i = 0; i < 60; i++) {
		static const enum agent_type types[] = {
			AGENT_LIST, AGENT_WATCH, AGENT_WRITE, AGENT_EXEC, AGENT_SYNC};
		static const struct agent_sync s;
		const void *const messages[] = {&l, &w, &wr, &x, &s};
		struct agent_conn *c;

		CHECK(agent_open(raw_socket(), AGENT_OPEN_PREAMBLE, &c, NULL) == 0);
		(void)agent_request(c, types[i % 5], messages[i % 5], NULL);
		(void)agent_flush(c, NULL);
		if (i % 3)
			usleep(3000);
		agent_close(c);
	}
	(void)unlink("/tmp/agent-test-v");
	still_serves();
}

const struct test hostile_tests[] = {
	{"bad frames", test_bad_frames},
	{"random bytes", test_random_bytes},
	{"flipped bits", test_flipped_bits},
	{"unknown requests", test_unknown},
	{"limits", test_limits},
	{"long commands", test_long_commands},
	{"half-sent messages", test_half_sent},
	{"connection limit", test_connections},
	{"clients that do not read", test_slow_readers},
	{"slow attacher", test_slow_attacher},
	{"many requests", test_many_requests},
	{"vanishing clients", test_vanishing_clients},
	{NULL, NULL},
};
