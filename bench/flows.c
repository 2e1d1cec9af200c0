/* Flows through something, for bench/egress: a server, and a client that measures.
 *
 *	serve				prints its port
 *	connect COUNT WAY		ns of each: from the connect to the server's first byte
 *	up|down FLOWS BYTES WAY		ns of all together; each flow moves BYTES
 *	hold FLOWS WAY			opens them, says so, waits for the end of its input
 *
 * WAY is `tcp [ADDRESS] PORT`, `unix PATH`, or `worker ADDRESS PORT`: then descriptor 3 is the
 * channel of mayfly-egress, and this program is mayfly-vmm and the agent (docs/egress-protocol.md).
 * The program is static, so that it runs in any guest (bench/network_vm). */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"
#include "base/net.h"
#include "base/str.h"
#include "channel.h"

enum { COPY_BYTES = 256 << 10, FLOWS_MAX = 512, WARM_UP = 20, ORDER_BYTES = 9 };

static _Noreturn void die(const char *what)
{
	(void)fprintf(stderr, "bench-flows: %s: %s\n", what, strerror(errno)); /* all there is */
	exit(1);
}

/* --- bytes --- */

static void send_all(int fd, const void *data, size_t n)
{
	errno = -fd_send_full(fd, data, n);
	if (errno)
		die("send");
}

/* At most n bytes; false: the end came first. */
static bool receive_all(int fd, void *data, size_t n)
{
	for (size_t got = 0; got < n;) {
		ssize_t r = recv(fd, (char *)data + got, n - got, 0);

		if (r < 0)
			die("recv");
		if (r == 0)
			return false;
		got += (size_t)r;
	}
	return true;
}

static void pour(int fd, uint64_t bytes)
{
	static const char zeros[COPY_BYTES];

	for (; bytes; bytes -= bytes < COPY_BYTES ? bytes : COPY_BYTES)
		send_all(fd, zeros, bytes < COPY_BYTES ? bytes : COPY_BYTES);
}

static void drain(int fd, uint64_t bytes)
{
	char *space = malloc(COPY_BYTES);

	if (!space)
		die("memory");
	while (bytes) {
		ssize_t r = recv(fd, space, bytes < COPY_BYTES ? bytes : COPY_BYTES, 0);

		if (r <= 0)
			die("recv");
		bytes -= (uint64_t)r;
	}
	free(space);
}

/* --- the server: greets, takes an order ('u' or 'd' and a number of bytes), executes it --- */

static void *serve_one(void *arg)
{
	int fd = (int)(intptr_t)arg, one = 1;
	uint8_t order[ORDER_BYTES];
	uint64_t bytes;

	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower without */
	send_all(fd, "h", 1);
	if (recv(fd, order, 1, MSG_PEEK) == 1 && receive_all(fd, order, sizeof(order))) {
		memcpy(&bytes, order + 1, sizeof(bytes));
		if (order[0] == 'u')
			drain(fd, bytes);
		else
			pour(fd, bytes);
		send_all(fd, "d", 1);
	}
	(void)close(fd); /* a socket */
	return NULL;
}

static int serve(void)
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t length = sizeof(at);
	int fd = socket(AF_INET, SOCK_STREAM, 0), one;
	pthread_attr_t attr;
	pthread_t t;

	if (fd < 0 || bind(fd, (struct sockaddr *)&at, sizeof(at)) < 0 ||
		listen(fd, FLOWS_MAX) < 0 || getsockname(fd, (struct sockaddr *)&at, &length) < 0)
		die("listen");
	(void)printf("%u\n", ntohs(at.sin_port)); /* who started it waits for it */
	(void)fflush(stdout);
	(void)pthread_attr_init(&attr); /* these two never fail */
	(void)pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	for (;;) {
		one = accept(fd, NULL, NULL);
		if (one >= 0 && pthread_create(&t, &attr, serve_one, (void *)(intptr_t)one) != 0)
			(void)close(one); /* the client sees it */
	}
}

/* --- ways to the server --- */

struct way {
	enum { TCP, UNIX, WORKER } kind;
	const char *path;
	struct sockaddr_in to;
};

static int way_tcp(const struct way *w)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	if (fd < 0 || connect(fd, (const struct sockaddr *)&w->to, sizeof(w->to)) < 0)
		die("connect");
	(void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); /* only slower without */
	return fd;
}

static int way_unix(const struct way *w)
{
	struct sockaddr_un to = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM, 0);

	(void)strncpy(to.sun_path, w->path, sizeof(to.sun_path) - 1); /* too long: nobody listens */
	if (fd < 0 || connect(fd, (struct sockaddr *)&to, sizeof(to)) < 0)
		die("connect");
	return fd;
}

static int way_worker(const struct way *w)
{
	int fd = channel_open(&w->to);

	if (fd < 0)
		die("the worker");
	return fd;
}

/* A stream to the server, which has greeted. */
static int way_open(const struct way *w)
{
	static int (*const open[])(const struct way *) = {
		[TCP] = way_tcp, [UNIX] = way_unix, [WORKER] = way_worker};
	int fd = open[w->kind](w);
	char greeting;

	if (!receive_all(fd, &greeting, 1))
		die("no greeting");
	return fd;
}

static void way_parse(struct way *w, char **argv)
{
	uint32_t address = INADDR_LOOPBACK;
	bool has_address = argv[1] && argv[2];

	errno = EINVAL;
	w->kind = strcmp(argv[0], "tcp") == 0 ? TCP : strcmp(argv[0], "unix") == 0 ? UNIX : WORKER;
	w->path = argv[1];
	if (w->kind == UNIX)
		return;
	if ((w->kind == WORKER && !has_address) ||
		(has_address && net_parse_address(*++argv, &address) < 0))
		die("usage");
	w->to = (struct sockaddr_in){.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(address),
		.sin_port = htons((uint16_t)atoi(argv[1]))};
}

/* --- what is measured --- */

static int measure_connects(unsigned count, const struct way *w)
{
	for (unsigned i = 0; i < count + WARM_UP; i++) {
		uint64_t begin = clock_monotonic_ns();
		int fd = way_open(w);
		uint64_t ns = clock_monotonic_ns() - begin;

		(void)close(fd); /* a socket */
		if (i >= WARM_UP)
			(void)printf("%llu\n", (unsigned long long)ns);
		(void)usleep(
			500); /* others settle: what they do afterwards is no part of the next */
	}
	return 0;
}

struct transfer {
	const struct way *way;
	pthread_barrier_t ready;
	char order;
	uint64_t bytes;
};

static void *move(void *arg)
{
	struct transfer *t = arg;
	int fd = way_open(t->way);
	uint8_t order[ORDER_BYTES] = {(uint8_t)t->order}, done;

	memcpy(order + 1, &t->bytes, sizeof(t->bytes));
	(void)pthread_barrier_wait(&t->ready); /* these have no errors */
	(void)pthread_barrier_wait(&t->ready);
	send_all(fd, order, sizeof(order));
	if (t->order == 'u')
		pour(fd, t->bytes);
	else
		drain(fd, t->bytes);
	if (!receive_all(fd, &done, 1))
		die("the transfer is cut");
	(void)close(fd); /* a socket */
	return NULL;
}

static int measure_transfer(char order, unsigned flows, uint64_t bytes, const struct way *w)
{
	struct transfer t = {.way = w, .order = order, .bytes = bytes};
	pthread_t threads[FLOWS_MAX];
	uint64_t begin;

	(void)pthread_barrier_init(&t.ready, NULL, flows + 1); /* no errors for such counts */
	for (unsigned i = 0; i < flows; i++)
		if (pthread_create(&threads[i], NULL, move, &t) != 0)
			die("a thread");
	(void)pthread_barrier_wait(&t.ready);
	begin = clock_monotonic_ns();
	(void)pthread_barrier_wait(&t.ready);
	for (unsigned i = 0; i < flows; i++)
		(void)pthread_join(threads[i], NULL); /* they are ours */
	(void)printf("%llu\n", (unsigned long long)(clock_monotonic_ns() - begin));
	return 0;
}

static int hold(unsigned flows, const struct way *w)
{
	for (unsigned i = 0; i < flows; i++)
		(void)way_open(w); /* until this ends */
	(void)puts("open");
	(void)fflush(stdout);
	while (getchar() != EOF)
		;
	return 0;
}

int main(int argc, char **argv)
{
	struct way w = {0};
	unsigned count = argc > 2 ? (unsigned)atoi(argv[2]) : 0;
	bool transfer = argc > 1 && (strcmp(argv[1], "up") == 0 || strcmp(argv[1], "down") == 0);
	uint64_t bytes;

	if (argc == 2 && strcmp(argv[1], "serve") == 0)
		return serve();
	if (argc < 5 + transfer || count == 0 || (transfer && count > FLOWS_MAX)) {
		(void)fputs("usage: see bench/flows.c\n", stderr);
		return 2;
	}
	way_parse(&w, argv + 3 + transfer);
	if (transfer && str_parse_u64(argv[3], &bytes) == 0)
		return measure_transfer(argv[1][0], count, bytes, &w);
	return strcmp(argv[1], "connect") == 0 ? measure_connects(count, &w) : hold(count, &w);
}
