/* virtio-vsock: a fake guest on one side, Unix socket clients on the other. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "base/log.h"
#include "fake_driver.h"
#include "vmm/vsock.h"

enum {
	RX = VIRTIO_VSOCK_RX_QUEUE,
	TX = VIRTIO_VSOCK_TX_QUEUE,
	RX_BUFFER = 4096,
	RX_AREA = FAKE_HEAP,
	TX_AREA = FAKE_HEAP + 0x100000,
	GUEST_BUF = 256 * 1024, /* what the fake guest advertises */
	PORT = 1000,
};

static struct fake_driver f;
static struct sockaddr_un address;
static socklen_t address_len;
static uint32_t guest_fwd; /* bytes that the fake guest consumed */

static void make_device(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address = (struct sockaddr_un){.sun_family = AF_UNIX};
	assert_true(fd >= 0);
	/* The kernel picks an abstract name. */
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	address_len = sizeof(address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &address_len), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(
		vsock_create(&f.memory, fd, VSOCK_GUEST_CID, fake_raise_irq, &f, &f.dev, NULL), 0);
}

static void give_buffers(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint16_t d = (uint16_t)(f.queues[RX].avail_idx % 128);

		fake_desc(&f, RX, d, RX_AREA + d * (gpa_t)RX_BUFFER, RX_BUFFER, VIRTQ_DESC_F_WRITE,
			0);
		fake_offer(&f, RX, d);
	}
	fake_kick(&f, RX);
}

static int setup_bare(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	guest_fwd = 0;
	fake_init(&f);
	make_device();
	return 0;
}

static int setup(void **state)
{
	setup_bare(state);
	fake_start(&f, UINT64_C(1) << VIRTIO_F_VERSION_1, 0);
	give_buffers(64);
	return 0;
}

static int teardown(void **state)
{
	fake_done(&f);
	return 0;
}

/* --- host side --- */

static int client(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, address_len), 0);
	assert_int_equal(fd_set_nonblock(fd, 1), 0);
	return fd;
}

static void client_send(int fd, const char *s)
{
	assert_int_equal(send(fd, s, strlen(s), MSG_NOSIGNAL), strlen(s));
}

/* Everything that is there, at most n bytes; -1 for "nothing, and not the end". */
static ssize_t client_recv(int fd, void *p, size_t n)
{
	ssize_t r = recv(fd, p, n, 0);

	if (r < 0 && errno == ECONNRESET)
		return 0;
	assert_true(r >= 0 || errno == EAGAIN);
	return r;
}

static void client_expect(int fd, const char *s)
{
	char b[256] = {0};

	assert_int_equal(client_recv(fd, b, sizeof(b) - 1), strlen(s));
	assert_string_equal(b, s);
}

static void client_expect_end(int fd)
{
	char b[1];

	assert_int_equal(client_recv(fd, b, 1), 0);
}

static bool device_wants_poll(void)
{
	struct pollfd p = {.fd = vsock_poll_fd(f.dev), .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

/* As an event loop would; fails when the descriptor stays readable for no reason. */
static void run(void)
{
	for (unsigned i = 0; device_wants_poll(); i++) {
		assert_true(i < 1000);
		vsock_poll(f.dev);
	}
}

/* --- guest side --- */

struct packet {
	struct virtio_vsock_hdr h;
	uint8_t data[RX_BUFFER];
};

/* The next packet from the device. */
static bool guest_recv(struct packet *p)
{
	uint32_t id, len;

	if (!fake_used(&f, RX, &id, &len))
		return false;
	assert_true(len >= sizeof(p->h) && len <= RX_BUFFER);
	memcpy(&p->h, fake_at(&f, RX_AREA + id * (gpa_t)RX_BUFFER), sizeof(p->h));
	memcpy(p->data, (uint8_t *)fake_at(&f, RX_AREA + id * (gpa_t)RX_BUFFER) + sizeof(p->h),
		len - sizeof(p->h));
	assert_int_equal(p->h.len, len - sizeof(p->h));
	assert_int_equal(p->h.src_cid, 2);
	assert_int_equal(p->h.dst_cid, 3);
	assert_int_equal(p->h.type, VIRTIO_VSOCK_TYPE_STREAM);
	return true;
}

static void guest_expect(struct packet *p, uint16_t op)
{
	assert_true(guest_recv(p));
	assert_int_equal(p->h.op, op);
}

static void guest_expect_nothing(void)
{
	struct packet p;

	assert_false(guest_recv(&p));
}

static struct virtio_vsock_hdr guest_header(uint32_t host_port, uint16_t op)
{
	return (struct virtio_vsock_hdr){.src_cid = 3,
		.dst_cid = 2,
		.src_port = PORT,
		.dst_port = host_port,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.buf_alloc = GUEST_BUF,
		.fwd_cnt = guest_fwd};
}

/* Header and payload in descriptors of their own. */
static void guest_send_raw(const struct virtio_vsock_hdr *h, const void *data, uint32_t n)
{
	uint32_t id, len;

	memcpy(fake_at(&f, TX_AREA), h, sizeof(*h));
	if (n)
		memcpy(fake_at(&f, TX_AREA + 64), data, n);
	fake_desc(&f, TX, 0, TX_AREA, sizeof(*h), n ? VIRTQ_DESC_F_NEXT : 0, 1);
	fake_desc(&f, TX, 1, TX_AREA + 64, n, 0, 0);
	fake_offer(&f, TX, 0);
	fake_kick(&f, TX);
	(void)fake_used(&f, TX, &id, &len); /* there is none after a violation */
}

static void guest_send(uint32_t host_port, uint16_t op, const void *data, uint32_t n)
{
	struct virtio_vsock_hdr h = guest_header(host_port, op);

	h.len = n;
	guest_send_raw(&h, data, n);
}

static void guest_shutdown(uint32_t host_port, uint32_t flags)
{
	struct virtio_vsock_hdr h = guest_header(host_port, VIRTIO_VSOCK_OP_SHUTDOWN);

	h.flags = flags;
	guest_send_raw(&h, NULL, 0);
}

static uint32_t expect_request(void)
{
	struct packet p;

	guest_expect(&p, VIRTIO_VSOCK_OP_REQUEST);
	assert_int_equal(p.h.dst_port, PORT);
	assert_int_equal(p.h.buf_alloc, VSOCK_BUFFER_BYTES);
	assert_true(p.h.src_port >= 1024);
	return p.h.src_port;
}

/* An established connection. */
static int connect_ok(uint32_t *ret_host_port)
{
	int fd = client();
	char want[32];

	client_send(fd, "CONNECT 1000\n");
	run();
	*ret_host_port = expect_request();
	guest_send(*ret_host_port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	(void)snprintf(want, sizeof(want), "OK %u\n", *ret_host_port);
	client_expect(fd, want);
	return fd;
}

/* --- connecting --- */

static void config_holds_the_cid(void **state)
{
	uint8_t b[8];

	virtio_mmio_read(f.dev, VIRTIO_MMIO_CONFIG, b, 8);
	assert_int_equal(get_le64(b), 3);
	assert_int_equal(fake_read(&f, VIRTIO_MMIO_DEVICE_ID), 19);
}

static void connects_and_talks(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	assert_false(vsock_idle(f.dev));
	client_send(fd, "ping");
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.src_port, port);
	assert_int_equal(p.h.len, 4);
	assert_memory_equal(p.data, "ping", 4);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "pong", 4);
	client_expect(fd, "pong");
	guest_expect_nothing();
	(void)close(fd);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	assert_false(vsock_idle(f.dev));
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	assert_true(vsock_idle(f.dev));
	guest_expect_nothing();
}

static void ports_differ(void **state)
{
	uint32_t last = 0;

	for (unsigned i = 0; i < 10; i++) {
		uint32_t port;
		struct packet p;
		int fd = connect_ok(&port);

		assert_true(port > last);
		last = port;
		(void)close(fd);
		run();
		guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
		guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
		give_buffers(2);
	}
}

static void refused(void **state)
{
	uint32_t port;
	int fd = client();

	client_send(fd, "CONNECT 1000\n");
	run();
	port = expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	client_expect(fd, "ERR refused\n");
	client_expect_end(fd);
	assert_true(vsock_idle(f.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void pipelined_bytes_follow_the_response(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = client();

	client_send(fd, "CONNECT 1000\nfirst bytes");
	run();
	port = expect_request();
	guest_expect_nothing();
	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0); /* no poll in between */
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 11);
	assert_memory_equal(p.data, "first bytes", 11);
	(void)close(fd);
}

static void pipelined_half_close(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = client();

	client_send(fd, "CONNECT 1000\nall of it");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	run();
	port = expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 9);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "answer", 6);
	guest_shutdown(port, 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
}

static void client_before_the_vm_runs(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = client();

	client_send(fd, "CONNECT 1000\nhello");
	fake_start(&f, FAKE_FEATURES, 0);
	for (uint16_t i = 0; i < 8; i++) {
		fake_desc(&f, RX, i, RX_AREA + i * (gpa_t)RX_BUFFER, RX_BUFFER, VIRTQ_DESC_F_WRITE,
			0);
		fake_offer(&f, RX, i);
	}
	f.irqs = 0;
	virtio_resume(f.dev);
	assert_int_equal(f.irqs, 1);
	port = expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "hello", 5);
	(void)close(fd);
}

static void client_before_the_driver_is_up(void **state)
{
	int fd = client();

	client_send(fd, "CONNECT 1000\n");
	run();
	fake_start(&f, FAKE_FEATURES, 0); /* begins with a reset */
	guest_expect_nothing();
	give_buffers(4);
	(void)expect_request();
	(void)close(fd);
}

static void line_in_pieces(void **state)
{
	uint32_t port;
	int fd = client();

	client_send(fd, "CONN");
	run();
	client_send(fd, "ECT 10");
	run();
	guest_expect_nothing();
	client_send(fd, "00\nxyz");
	run();
	port = expect_request();
	assert_true(port >= 1024);
	(void)close(fd);
	run();
	assert_true(f.dev->status & VIRTIO_STATUS_DRIVER_OK);
}

static void bad_lines(void **state)
{
	static const char *const lines[] = {"CONNECT\n", "CONNECT \n", "CONNECT x\n", "connect 1\n",
		"CONNECT 4294967296\n", "CONNECT 1 \n", "CONNECT -1\n", "\n", "GET / HTTP/1.1\r\n",
		"CONNECT 00000000000000000000000000000000001\n", "CONNECT 1\r\n"};

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		int fd = client();

		client_send(fd, lines[i]);
		run();
		client_expect(fd, "ERR request\n");
		client_expect_end(fd);
		(void)close(fd);
	}
	guest_expect_nothing();
	assert_true(vsock_idle(f.dev));
}

static void clients_that_leave_early(void **state)
{
	struct packet p;
	int fd = client();

	run();
	(void)close(fd);
	run();
	assert_true(vsock_idle(f.dev));
	fd = client();
	client_send(fd, "CONNECT 10");
	run();
	(void)close(fd);
	run();
	assert_true(vsock_idle(f.dev));
	fd = client();
	client_send(fd, "CONNECT 1000\n");
	run();
	(void)expect_request();
	(void)close(fd);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(f.dev));
}

static void handshake_times_out(void **state)
{
	uint64_t start = clock_monotonic_ns();
	int fd = client();

	client_send(fd, "CONNECT");
	run();
	while (!device_wants_poll()) {
		struct pollfd p = {.fd = vsock_poll_fd(f.dev), .events = POLLIN};

		(void)poll(&p, 1, 10000);
	}
	assert_in_range((clock_monotonic_ns() - start) / NS_PER_MS, VSOCK_HANDSHAKE_MS - 10,
		VSOCK_HANDSHAKE_MS + 1000);
	run();
	client_expect(fd, "ERR timeout\n");
	client_expect_end(fd);
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
}

static void guest_initiated_is_refused(void **state)
{
	struct packet p;

	guest_send(5000, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, 5000);
	assert_int_equal(p.h.dst_port, PORT);
	assert_true(vsock_idle(f.dev));
}

static void table_full(void **state)
{
	static int fds[VSOCK_CONNECTIONS_MAX];
	struct rlimit limit = {.rlim_cur = 4096, .rlim_max = 4096}, old;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	limit.rlim_max = old.rlim_max;
	if (old.rlim_max < 4096 || setrlimit(RLIMIT_NOFILE, &limit) < 0)
		skip();
	for (unsigned i = 0; i < VSOCK_CONNECTIONS_MAX; i++) {
		fds[i] = client();
		client_send(fds[i], "CONNECT 1000\n");
		if (i % 64 == 0)
			run();
	}
	run();
	fd = client();
	run();
	client_expect(fd, "ERR busy\n");
	client_expect_end(fd);
	(void)close(fd);
	for (unsigned i = 0; i < VSOCK_CONNECTIONS_MAX; i++)
		(void)close(fds[i]);
	run();
	fd = client();
	client_send(fd, "CONNECT 1000\n");
	run();
	client_send(fd, "x");
	(void)close(fd);
	(void)setrlimit(RLIMIT_NOFILE, &old);
}

static void out_of_descriptors_does_not_spin(void **state)
{
	struct rlimit old, none;
	int fd = client();

	client_send(fd, "CONNECT 1000\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (unsigned i = 0; i < 3; i++)
		vsock_poll(f.dev);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_false(device_wants_poll());
	guest_expect_nothing();
	(void)usleep(150 * 1000);
	run();
	(void)expect_request();
	(void)close(fd);
}

/* --- data --- */

enum { BULK = 10 << 20 };

static void bulk_to_the_guest(void **state)
{
	static uint8_t chunk[30000];
	uint32_t port, crc_sent = 0, crc_got = 0;
	size_t sent = 0, got = 0;
	int fd = connect_ok(&port);
	struct packet p;

	while (got < BULK) {
		for (size_t i = 0; i < sizeof(chunk); i++)
			chunk[i] = (uint8_t)(sent + i * 13);
		if (sent < BULK) {
			size_t n = BULK - sent < sizeof(chunk) ? BULK - sent : sizeof(chunk);
			ssize_t r = send(fd, chunk, n, MSG_NOSIGNAL);

			if (r > 0) {
				crc_sent = crc32c(crc_sent, chunk, (size_t)r);
				sent += (size_t)r;
			}
		}
		run();
		while (guest_recv(&p)) {
			if (p.h.op != VIRTIO_VSOCK_OP_RW)
				continue;
			crc_got = crc32c(crc_got, p.data, p.h.len);
			got += p.h.len;
			guest_fwd += p.h.len;
			give_buffers(1);
		}
		guest_send(port, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
	}
	assert_int_equal(sent, BULK);
	assert_int_equal(got, BULK);
	assert_int_equal(crc_got, crc_sent);
	(void)close(fd);
}

static void bulk_to_the_host(void **state)
{
	static uint8_t chunk[48000], in[65536];
	uint32_t port, crc_sent = 0, crc_got = 0, fwd = 0, sent = 0;
	size_t got = 0;
	int fd = connect_ok(&port);
	struct packet p;

	while (got < BULK) {
		uint32_t credit = VSOCK_BUFFER_BYTES - (sent - fwd), n = BULK - sent;
		ssize_t r;

		n = n > credit ? credit : n;
		n = n > sizeof(chunk) ? sizeof(chunk) : n;
		for (size_t i = 0; i < n; i++)
			chunk[i] = (uint8_t)(sent + i * 13);
		if (n) {
			guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, n);
			crc_sent = crc32c(crc_sent, chunk, n);
			sent += n;
		}
		if (sent % 7 < 5 || !n) {
			r = client_recv(fd, in, sizeof(in));
			if (r > 0) {
				crc_got = crc32c(crc_got, in, (size_t)r);
				got += (size_t)r;
			}
		}
		run();
		while (guest_recv(&p)) {
			assert_int_equal(p.h.op, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
			fwd = p.h.fwd_cnt;
			assert_true(sent - fwd <= VSOCK_BUFFER_BYTES);
			give_buffers(1);
		}
	}
	assert_int_equal(got, BULK);
	assert_int_equal(crc_got, crc_sent);
	(void)close(fd);
}

static void guest_stalls_by_credit_when_the_client_does_not_read(void **state)
{
	static uint8_t chunk[32768];
	uint32_t port, fwd = 0, sent = 0;
	int fd = connect_ok(&port), size = 4096;
	struct packet p;
	ssize_t r;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	for (;;) {
		run();
		while (guest_recv(&p)) {
			fwd = p.h.fwd_cnt;
			give_buffers(1);
		}
		if (sent - fwd + sizeof(chunk) > VSOCK_BUFFER_BYTES)
			break;
		guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, sizeof(chunk));
		sent += sizeof(chunk);
		assert_true(sent < 16 << 20);
	}
	/* Stuck; now the client reads, and the guest hears of it. */
	while (client_recv(fd, chunk, sizeof(chunk)) > 0)
		run();
	run();
	r = 0;
	while (guest_recv(&p)) {
		r++;
		fwd = p.h.fwd_cnt;
	}
	assert_true(r > 0);
	assert_int_equal(fwd, sent);
	/* One byte more than the credit ends the connection. */
	(void)close(fd);
}

static void hostile_more_than_the_credit(void **state)
{
	static uint8_t chunk[65000];
	uint32_t port, sent = 0;
	int fd = connect_ok(&port);
	struct packet p;
	bool reset = false;

	while (!reset && sent < 16 << 20) {
		guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, sizeof(chunk));
		sent += sizeof(chunk);
		while (guest_recv(&p))
			reset |= p.h.op == VIRTIO_VSOCK_OP_RST;
	}
	assert_true(reset);
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
}

static void client_stalls_without_guest_credit(void **state)
{
	uint32_t port;
	struct virtio_vsock_hdr h;
	struct packet p;
	int fd = client();

	client_send(fd, "CONNECT 1000\n0123456789");
	run();
	port = expect_request();
	h = guest_header(port, VIRTIO_VSOCK_OP_RESPONSE);
	h.buf_alloc = 4;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 4);
	guest_expect(&p, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
	client_send(fd, "abc");
	run(); /* must not spin */
	guest_expect_nothing();
	h = guest_header(port, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	h.buf_alloc = 4;
	h.fwd_cnt = 3;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "456", 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
	h.fwd_cnt = 2; /* overtaken: ignored */
	guest_send_raw(&h, NULL, 0);
	guest_expect_nothing();
	h.fwd_cnt = 1000; /* bytes that were never sent: ignored */
	guest_send_raw(&h, NULL, 0);
	guest_expect_nothing();
	h.fwd_cnt = 7;
	h.buf_alloc = 100;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "789abc", 6);
	(void)close(fd);
}

static void client_stalls_without_receive_buffers(void **state)
{
	uint32_t port;
	struct packet p;
	int fd;

	setup_bare(state);
	fake_start(&f, FAKE_FEATURES, 0);
	give_buffers(1);
	fd = connect_ok(&port);
	client_send(fd, "hello");
	run(); /* must not spin */
	guest_expect_nothing();
	give_buffers(1);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "hello", 5);
	(void)close(fd);
}

static void credit_request_is_answered(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RW, "abc", 3);
	guest_expect_nothing();
	guest_send(port, VIRTIO_VSOCK_OP_CREDIT_REQUEST, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
	assert_int_equal(p.h.fwd_cnt, 3);
	assert_int_equal(p.h.buf_alloc, VSOCK_BUFFER_BYTES);
	(void)close(fd);
}

static void connections_take_turns(void **state)
{
	static const char block[100000];
	uint32_t port[2];
	unsigned seen[2] = {0};
	struct packet p;
	int fd[2] = {connect_ok(&port[0]), connect_ok(&port[1])};

	for (unsigned i = 0; i < 2; i++)
		assert_true(send(fd[i], block, sizeof(block), MSG_NOSIGNAL) > 60000);
	run();
	for (unsigned i = 0; i < 20; i++) {
		guest_expect(&p, VIRTIO_VSOCK_OP_RW);
		seen[p.h.src_port == port[1]]++;
	}
	assert_int_equal(seen[0], 10);
	assert_int_equal(seen[1], 10);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

/* --- closing --- */

static void client_half_closes(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	client_send(fd, "last");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "still here", 10);
	client_expect(fd, "still here");
	guest_shutdown(port, 3);
	client_expect_end(fd);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
}

static void guest_half_closes(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RW, "last", 4);
	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_SEND);
	client_expect(fd, "last");
	client_expect_end(fd);
	client_send(fd, "more");
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "more", 4);
	(void)close(fd);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	assert_true(vsock_idle(f.dev));
}

static void guest_stops_receiving(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_RCV);
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	run();
	guest_send(port, VIRTIO_VSOCK_OP_RW, "but it talks", 12);
	client_expect(fd, "but it talks");
	guest_expect_nothing();
	(void)close(fd);
}

static void guest_closes_while_bytes_wait_for_the_client(void **state)
{
	static uint8_t chunk[60000];
	uint32_t port, sent = 0;
	size_t got = 0;
	struct packet p;
	int fd = connect_ok(&port);
	ssize_t r;

	/* Fill the socket until some of it stays in the device. */
	do {
		guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, sizeof(chunk));
		sent += sizeof(chunk);
		p.h.fwd_cnt = 0;
		while (guest_recv(&p))
			;
	} while (p.h.fwd_cnt == sent);
	guest_shutdown(port, 3);
	guest_expect_nothing();				/* not confirmed yet */
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0); /* out of patience */
	assert_false(vsock_idle(f.dev));
	while ((r = client_recv(fd, chunk, sizeof(chunk))) != 0) {
		got += r > 0 ? (size_t)r : 0;
		run();
	}
	assert_int_equal(got, sent);
	assert_true(vsock_idle(f.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void guest_resets(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	client_expect_end(fd);
	assert_true(vsock_idle(f.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void client_leaves_while_the_guest_talks(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	client_send(fd, "bye");
	(void)close(fd);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "into the void", 13);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "bye", 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "into the void", 13);
	guest_shutdown(port, 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(f.dev));
}

static void silent_guest_is_reset_after_a_while(void **state)
{
	uint32_t port;
	struct packet p;
	int fd = connect_ok(&port);

	(void)close(fd);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	(void)usleep((VSOCK_CLOSE_MS + 50) * 1000);
	run();
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, port);
	assert_true(vsock_idle(f.dev));
}

/* --- hostile guests --- */

static void expect_reset_of(uint32_t port)
{
	struct packet p;

	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, port);
	assert_true(vsock_idle(f.dev));
	assert_false(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
}

static void hostile_unknown_operation(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_send(port, 99, NULL, 0);
	expect_reset_of(port);
	client_expect_end(fd);
	(void)close(fd);
}

static void hostile_unknown_type(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_RW);
	struct packet p;

	h.type = 2;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	(void)close(fd);
}

static void hostile_addresses(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_RST);

	h.src_cid = 4;
	guest_send_raw(&h, NULL, 0);
	h = guest_header(port, VIRTIO_VSOCK_OP_RST);
	h.dst_cid = 0;
	guest_send_raw(&h, NULL, 0);
	h = guest_header(port, VIRTIO_VSOCK_OP_RST);
	h.src_port++;
	guest_send_raw(&h, NULL, 0);
	h = guest_header(port + VSOCK_CONNECTIONS_MAX, VIRTIO_VSOCK_OP_RST);
	guest_send_raw(&h, NULL, 0);
	guest_expect_nothing();
	assert_false(vsock_idle(f.dev));
	guest_send(port, VIRTIO_VSOCK_OP_RW, "fine", 4);
	client_expect(fd, "fine");
	(void)close(fd);
}

static void hostile_second_response(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	expect_reset_of(port);
	(void)close(fd);
}

static void hostile_request_on_a_connection(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_send(port, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	expect_reset_of(port);
	(void)close(fd);
}

static void hostile_data_before_the_response(void **state)
{
	static const uint16_t ops[] = {VIRTIO_VSOCK_OP_RW, VIRTIO_VSOCK_OP_SHUTDOWN};

	for (unsigned i = 0; i < 2; i++) {
		int fd = client();
		uint32_t port;

		client_send(fd, "CONNECT 1000\n");
		run();
		port = expect_request();
		guest_send(port, ops[i], "early", i ? 0 : 5);
		expect_reset_of(port);
		client_expect(fd, "ERR reset\n");
		(void)close(fd);
	}
}

/* The port can be guessed before the request was sent: there is nothing to answer yet. */
static void hostile_response_before_the_request(void **state)
{
	uint32_t port;
	int fd;

	setup_bare(state);
	fake_start(&f, FAKE_FEATURES, 0);
	fd = client();
	client_send(fd, "CONNECT 1000\n");
	run();
	for (port = 1024; port < 1024 + 4096; port++)
		guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	assert_int_equal(client_recv(fd, &port, 4), -1);
	(void)close(fd);
}

static void hostile_data_after_shutdown(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "oops", 4);
	expect_reset_of(port);
	(void)close(fd);
}

static void needs_reset_drops_clients(int fd)
{
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	client_expect_end(fd);
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
	fd = client();
	client_send(fd, "CONNECT 1000\n");
	run();
	client_expect(fd, "ERR reset\n");
	(void)close(fd);
}

static void hostile_length_beyond_the_chain(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_RW);

	h.len = 5;
	guest_send_raw(&h, "four", 4);
	needs_reset_drops_clients(fd);
}

static void hostile_short_packet(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	fake_desc(&f, TX, 0, TX_AREA, 43, 0, 0);
	fake_offer(&f, TX, 0);
	fake_kick(&f, TX);
	needs_reset_drops_clients(fd);
}

static void hostile_writable_packet(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port);

	fake_desc(&f, TX, 0, TX_AREA, 4096, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&f, TX, 0);
	fake_kick(&f, TX);
	needs_reset_drops_clients(fd);
}

static void hostile_small_receive_buffer(uint32_t bytes, uint16_t flags)
{
	int fd;

	setup_bare(NULL);
	fake_start(&f, FAKE_FEATURES, 0);
	fd = client();
	client_send(fd, "CONNECT 1000\n");
	fake_desc(&f, RX, 0, RX_AREA, bytes, flags, 0);
	fake_offer(&f, RX, 0);
	run();
	assert_true(fake_status(&f) & VIRTIO_STATUS_NEEDS_RESET);
	(void)close(fd);
}

static void hostile_receive_buffers(void **state)
{
	hostile_small_receive_buffer(43, VIRTQ_DESC_F_WRITE);
	fake_done(&f);
	hostile_small_receive_buffer(4096, 0);
}

static void hostile_flood_of_unknown_packets(void **state)
{
	struct packet p;
	unsigned resets = 0;

	while (guest_recv(&p))
		;
	for (unsigned i = 0; i < 100000; i++)
		guest_send(5000 + i, VIRTIO_VSOCK_OP_RW, "x", 1);
	while (guest_recv(&p)) {
		assert_int_equal(p.h.op, VIRTIO_VSOCK_OP_RST);
		resets++;
	}
	assert_int_equal(resets, 64); /* receive buffers that there were */
	give_buffers(100);
	while (guest_recv(&p))
		resets++;
	assert_int_equal(resets, 128); /* and as many that waited */
	assert_true(vsock_idle(f.dev));
}

static void driver_reset_ends_connections(void **state)
{
	uint32_t port;
	int fd = connect_ok(&port), waiting = client();

	client_send(waiting, "CONNECT 1000\n");
	run();
	(void)expect_request();
	fake_start(&f, FAKE_FEATURES, 0);
	client_expect_end(fd);
	client_expect(waiting, "ERR reset\n");
	assert_true(vsock_idle(f.dev));
	(void)close(fd);
	(void)close(waiting);
}

/* --- snapshots --- */

static void reload(struct buf *b)
{
	struct reader in = reader_of(buf_head(b), buf_len(b));

	virtio_destroy(f.dev);
	make_device();
	assert_int_equal(virtio_load(f.dev, &in), 0);
	assert_true(reader_finished(&in));
	f.irqs = 0;
}

static void load_resets_connections(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint32_t port[3];
	int fd[3] = {connect_ok(&port[0]), connect_ok(&port[1]), client()}, fresh;
	struct packet p;

	client_send(fd[2], "CONNECT 1000\n");
	run();
	port[2] = expect_request();
	assert_int_equal(virtio_save(f.dev, &b), 0);
	guest_send(port[0], VIRTIO_VSOCK_OP_RW, "goes on", 7);
	client_expect(fd[0], "goes on");
	f.queues[TX].avail_idx--; /* as in the snapshot */
	fake_store16(&f, f.queues[TX].avail + 2, f.queues[TX].avail_idx);
	reload(&b);
	assert_false(vsock_idle(f.dev));
	fresh = client();
	client_send(fresh, "CONNECT 1000\n");
	virtio_resume(f.dev);
	for (unsigned i = 0; i < 3; i++) {
		guest_expect(&p, VIRTIO_VSOCK_OP_RST);
		assert_int_equal(p.h.src_port, port[i]);
		assert_int_equal(p.h.dst_port, PORT);
	}
	assert_true(expect_request() > port[2]);
	assert_int_equal(f.irqs, 1);
	for (unsigned i = 0; i < 3; i++)
		(void)close(fd[i]);
	(void)close(fresh);
	buf_done(&b);
}

static void load_without_connections_sends_nothing(void **state)
{
	struct buf b = BUF_INIT(65536);

	assert_int_equal(virtio_save(f.dev, &b), 0);
	reload(&b);
	assert_true(vsock_idle(f.dev));
	virtio_resume(f.dev);
	guest_expect_nothing();
	assert_int_equal(f.irqs, 0);
	buf_done(&b);
}

static void load_survives_damage(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint8_t copy[2048];
	uint32_t port;
	int fd = connect_ok(&port);
	size_t n;

	assert_int_equal(virtio_save(f.dev, &b), 0);
	n = buf_len(&b);
	assert_in_range(n, 1, sizeof(copy));
	for (size_t i = 0; i < n; i++) {
		struct reader in = reader_of(buf_head(&b), i);

		assert_int_equal(virtio_load(f.dev, &in), -EINVAL);
	}
	for (size_t i = 0; i < n * 8; i++) {
		struct reader in = reader_of(copy, n);

		memcpy(copy, buf_head(&b), n);
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		if (virtio_load(f.dev, &in) == 0)
			virtio_resume(f.dev);
	}
	(void)close(fd);
	buf_done(&b);
}

#define T(name)	 cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TB(name) cmocka_unit_test_setup_teardown(name, setup_bare, teardown)
#define TN(name) cmocka_unit_test_setup_teardown(name, NULL, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(config_holds_the_cid),
		T(connects_and_talks),
		T(ports_differ),
		T(refused),
		T(pipelined_bytes_follow_the_response),
		T(pipelined_half_close),
		TB(client_before_the_vm_runs),
		TB(client_before_the_driver_is_up),
		T(line_in_pieces),
		T(bad_lines),
		T(clients_that_leave_early),
		T(handshake_times_out),
		T(guest_initiated_is_refused),
		T(table_full),
		T(out_of_descriptors_does_not_spin),
		T(bulk_to_the_guest),
		T(bulk_to_the_host),
		T(guest_stalls_by_credit_when_the_client_does_not_read),
		T(hostile_more_than_the_credit),
		T(client_stalls_without_guest_credit),
		TN(client_stalls_without_receive_buffers),
		T(credit_request_is_answered),
		T(connections_take_turns),
		T(client_half_closes),
		T(guest_half_closes),
		T(guest_stops_receiving),
		T(guest_closes_while_bytes_wait_for_the_client),
		T(guest_resets),
		T(client_leaves_while_the_guest_talks),
		T(silent_guest_is_reset_after_a_while),
		T(hostile_unknown_operation),
		T(hostile_unknown_type),
		T(hostile_addresses),
		T(hostile_second_response),
		T(hostile_request_on_a_connection),
		T(hostile_data_before_the_response),
		TN(hostile_response_before_the_request),
		T(hostile_data_after_shutdown),
		T(hostile_length_beyond_the_chain),
		T(hostile_short_packet),
		T(hostile_writable_packet),
		TN(hostile_receive_buffers),
		T(hostile_flood_of_unknown_packets),
		T(driver_reset_ends_connections),
		T(load_resets_connections),
		T(load_without_connections_sends_nothing),
		T(load_survives_damage),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("vsock", tests, NULL, NULL);
}
