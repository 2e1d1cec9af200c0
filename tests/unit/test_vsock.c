/* virtio-vsock between a well-behaved guest and clients of any kind. */
#include "test.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/fd.h"
#include "vmm/vsock_internal.h"
#include "vsock_peers.h"

/* --- connecting --- */

static void config_holds_the_cid(void **state)
{
	uint8_t b[8];

	virtio_mmio_read(fake.dev, VIRTIO_MMIO_CONFIG, b, 8);
	assert_int_equal(get_le64(b), 3);
	assert_int_equal(fake_read(&fake, VIRTIO_MMIO_DEVICE_ID), 19);
}

static void connects_and_talks(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

	assert_false(vsock_idle(fake.dev));
	client_send(fd, "ping");
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.src_port, port);
	assert_int_equal(p.h.len, 4);
	assert_memory_equal(p.data, "ping", 4);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "pong", 4);
	client_expect(fd, "pong");
	guest_expect_nothing();
	(void)close(fd);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	assert_false(vsock_idle(fake.dev));
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	assert_true(vsock_idle(fake.dev));
	guest_expect_nothing();
}

static void ports_differ(void **state)
{
	uint32_t last = 0;

	for (unsigned i = 0; i < 10; i++) {
		uint32_t port;
		struct guest_packet p;
		int fd = peers_connect(&port);

		assert_true(port > last);
		last = port;
		(void)close(fd);
		poll_device();
		guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
		guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
		guest_give_buffers(2);
	}
}

static void refused(void **state)
{
	uint32_t port;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\n");
	poll_device();
	port = guest_expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	client_expect(fd, "ERR refused\n");
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void pipelined_bytes_follow_the_response(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\nfirst bytes");
	poll_device();
	port = guest_expect_request();
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
	struct guest_packet p;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\nall of it");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	poll_device();
	port = guest_expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 9);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "answer", 6);
	guest_shutdown(port, 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

static void client_before_the_vm_runs(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\nhello");
	fake_start(&fake, FAKE_FEATURES, 0);
	for (uint16_t i = 0; i < 8; i++) {
		fake_desc(&fake, VSOCK_RX, i, VSOCK_RX_AREA + i * (gpa_t)VSOCK_RX_BUFFER,
			VSOCK_RX_BUFFER, VIRTQ_DESC_F_WRITE, 0);
		fake_offer(&fake, VSOCK_RX, i);
	}
	fake.irqs = 0;
	virtio_resume(fake.dev);
	assert_int_equal(fake.irqs, 1);
	port = guest_expect_request();
	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "hello", 5);
	(void)close(fd);
}

static void client_before_the_driver_is_up(void **state)
{
	int fd = client_open();

	client_send(fd, "CONNECT 1000\n");
	poll_device();
	fake_start(&fake, FAKE_FEATURES, 0); /* begins with a reset */
	guest_expect_nothing();
	guest_give_buffers(4);
	(void)guest_expect_request();
	(void)close(fd);
}

static void line_in_pieces(void **state)
{
	uint32_t port;
	int fd = client_open();

	client_send(fd, "CONN");
	poll_device();
	client_send(fd, "ECT 10");
	poll_device();
	guest_expect_nothing();
	client_send(fd, "00\nxyz");
	poll_device();
	port = guest_expect_request();
	assert_true(port >= 1024);
	(void)close(fd);
	poll_device();
	assert_true(fake.dev->status & VIRTIO_STATUS_DRIVER_OK);
}

static void bad_lines(void **state)
{
	static const char *const lines[] = {"CONNECT\n", "CONNECT \n", "CONNECT x\n", "connect 1\n",
		"CONNECT 4294967296\n", "CONNECT 1 \n", "CONNECT -1\n", "\n", "GET / HTTP/1.1\r\n",
		"CONNECT 00000000000000000000000000000000001\n", "CONNECT 1\r\n"};

	for (unsigned i = 0; i < sizeof(lines) / sizeof(lines[0]); i++) {
		int fd = client_open();

		client_send(fd, lines[i]);
		poll_device();
		client_expect(fd, "ERR request\n");
		client_expect_end(fd);
		(void)close(fd);
	}
	guest_expect_nothing();
	assert_true(vsock_idle(fake.dev));
}

static void clients_that_leave_early(void **state)
{
	struct guest_packet p;
	int fd = client_open();

	poll_device();
	(void)close(fd);
	poll_device();
	assert_true(vsock_idle(fake.dev));
	fd = client_open();
	client_send(fd, "CONNECT 10");
	poll_device();
	(void)close(fd);
	poll_device();
	assert_true(vsock_idle(fake.dev));
	fd = client_open();
	client_send(fd, "CONNECT 1000\n");
	poll_device();
	(void)guest_expect_request();
	(void)close(fd);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(fake.dev));
}

static void handshake_times_out(void **state)
{
	uint64_t start = clock_monotonic_ns();
	int fd = client_open();

	client_send(fd, "CONNECT");
	poll_device();
	while (!device_wants_poll()) {
		struct pollfd p = {.fd = vsock_poll_fd(fake.dev), .events = POLLIN};

		(void)poll(&p, 1, 10000);
	}
	assert_in_range((clock_monotonic_ns() - start) / NS_PER_MS, VSOCK_HANDSHAKE_MS - 10,
		VSOCK_HANDSHAKE_MS + 1000);
	poll_device();
	client_expect(fd, "ERR timeout\n");
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

static void guest_initiated_is_refused(void **state)
{
	struct guest_packet p;

	guest_send(5000, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, 5000);
	assert_int_equal(p.h.dst_port, GUEST_PORT);
	assert_true(vsock_idle(fake.dev));
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
		fds[i] = client_open();
		client_send(fds[i], "CONNECT 1000\n");
		if (i % 64 == 0)
			poll_device();
	}
	poll_device();
	fd = client_open();
	poll_device();
	client_expect(fd, "ERR busy\n");
	client_expect_end(fd);
	(void)close(fd);
	for (unsigned i = 0; i < VSOCK_CONNECTIONS_MAX; i++)
		(void)close(fds[i]);
	poll_device();
	fd = client_open();
	client_send(fd, "CONNECT 1000\n");
	poll_device();
	client_send(fd, "x");
	(void)close(fd);
	(void)setrlimit(RLIMIT_NOFILE, &old);
}

static void out_of_descriptors_does_not_spin(void **state)
{
	struct rlimit old, none;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	for (unsigned i = 0; i < 3; i++)
		vsock_poll(fake.dev);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_false(device_wants_poll());
	guest_expect_nothing();
	(void)usleep(150 * 1000);
	poll_device();
	(void)guest_expect_request();
	(void)close(fd);
}

/* The timer fires for another reason than the pause of the listener, which goes on. */
static void a_paused_listener_comes_back(void **state)
{
	struct rlimit old, none;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\n");
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	none = (struct rlimit){.rlim_cur = 3, .rlim_max = old.rlim_max};
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	vsock_poll(fake.dev);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	vsock_timer_set((struct vsock *)(void *)fake.dev, 1);
	vsock_poll(fake.dev);
	(void)usleep(150 * 1000);
	poll_device();
	(void)guest_expect_request();
	(void)close(fd);
}

/* --- data --- */

enum { BULK = 10 << 20 };

static void bulk_to_the_guest(void **state)
{
	static uint8_t chunk[30000];
	uint32_t port, crc_sent = 0, crc_got = 0;
	size_t sent = 0, got = 0;
	int fd = peers_connect(&port);
	struct guest_packet p;

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
		poll_device();
		while (guest_recv(&p)) {
			if (p.h.op != VIRTIO_VSOCK_OP_RW)
				continue;
			crc_got = crc32c(crc_got, p.data, p.h.len);
			got += p.h.len;
			guest_consumed += p.h.len;
			guest_give_buffers(1);
		}
		guest_send(port, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
	}
	assert_int_equal(sent, BULK);
	assert_int_equal(got, BULK);
	assert_int_equal(crc_got, crc_sent);
	(void)close(fd);
}

/* Gives receive buffer number n in pieces of these sizes, one behind the other. */
static void give_pieces(unsigned n, const uint32_t sizes[4])
{
	uint16_t head = (uint16_t)(n % 32 * 4);
	gpa_t at = VSOCK_RX_AREA + head * (gpa_t)VSOCK_RX_BUFFER;

	for (uint16_t i = 0; i < 4 && sizes[i]; i++) {
		bool more = i < 3 && sizes[i + 1];

		fake_desc(&fake, VSOCK_RX, (uint16_t)(head + i), at, sizes[i],
			VIRTQ_DESC_F_WRITE | (more ? VIRTQ_DESC_F_NEXT : 0),
			(uint16_t)(head + i + 1));
		at += sizes[i];
	}
	fake_offer(&fake, VSOCK_RX, head);
}

/* One read fills buffers whatever pieces they have, and those that stay empty are the next ones. */
static void bulk_into_pieces(void **state)
{
	static const uint32_t shapes[][4] = {{4096}, {44, 4052}, {20, 24, 4052}, {44, 100, 3952},
		{1000, 3096}, {10, 10, 24, 4052}, {44, 4052}, {45}};
	static uint8_t chunk[50000];
	uint32_t port, given = 0, sent = 0, got = 0;
	struct guest_packet p;
	int fd;

	peers_setup_bare(state);
	fake_start(&fake, FAKE_FEATURES, 0);
	for (; given < 32; given++)
		give_pieces(given, shapes[given % ARRAY_SIZE(shapes)]);
	fd = peers_connect(&port);
	give_pieces(given++, shapes[0]); /* in place of the request's */
	for (size_t i = 0; i < sizeof(chunk); i++)
		chunk[i] = (uint8_t)(i * 13 + i / 251);
	while (got < BULK / 8) {
		size_t at = sent % sizeof(chunk), n = sent % 3 ? sizeof(chunk) - at : 17;
		ssize_t r = send(fd, chunk + at, n < sizeof(chunk) - at ? n : sizeof(chunk) - at,
			MSG_NOSIGNAL);

		sent += r > 0 ? (uint32_t)r : 0;
		poll_device();
		while (guest_recv(&p)) {
			if (p.h.op == VIRTIO_VSOCK_OP_RW)
				for (uint32_t i = 0; i < p.h.len; i++, got++)
					assert_int_equal(p.data[i], chunk[got % sizeof(chunk)]);
			guest_consumed = got;
			give_pieces(given, shapes[given % ARRAY_SIZE(shapes)]);
			given++;
		}
		fake_kick(&fake, VSOCK_RX);
		guest_send(port, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
	}
	assert_true(got <= sent);
	(void)close(fd);
}

/* The read stops where the credit does, in the middle of a buffer. */
static void bulk_to_the_end_of_the_credit(void **state)
{
	static uint8_t chunk[60000];
	uint32_t port, got = 0;
	int fd = peers_connect(&port);
	struct guest_packet p;
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_CREDIT_UPDATE);

	h.buf_alloc = 8192;
	guest_send_raw(&h, NULL, 0);
	assert_int_equal(send(fd, chunk, sizeof(chunk), MSG_NOSIGNAL), sizeof(chunk));
	for (uint32_t credit = 8192; credit < sizeof(chunk); credit += 15000) {
		h.buf_alloc = credit;
		guest_send_raw(&h, NULL, 0);
		poll_device();
		while (guest_recv(&p)) {
			got += p.h.op == VIRTIO_VSOCK_OP_RW ? p.h.len : 0;
			guest_give_buffers(1);
		}
		assert_int_equal(got, credit);
	}
	(void)close(fd);
}

static void bulk_to_the_host(void **state)
{
	static uint8_t chunk[48000], in[65536];
	uint32_t port, crc_sent = 0, crc_got = 0, fwd = 0, sent = 0;
	size_t got = 0;
	int fd = peers_connect(&port);
	struct guest_packet p;

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
		poll_device();
		while (guest_recv(&p)) {
			assert_int_equal(p.h.op, VIRTIO_VSOCK_OP_CREDIT_UPDATE);
			fwd = p.h.fwd_cnt;
			assert_true(sent - fwd <= VSOCK_BUFFER_BYTES);
			guest_give_buffers(1);
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
	int fd = peers_connect(&port), size = 4096;
	struct guest_packet p;
	ssize_t r;

	assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)), 0);
	for (;;) {
		poll_device();
		while (guest_recv(&p)) {
			fwd = p.h.fwd_cnt;
			guest_give_buffers(1);
		}
		if (sent - fwd + sizeof(chunk) > VSOCK_BUFFER_BYTES)
			break;
		guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, sizeof(chunk));
		sent += sizeof(chunk);
		assert_true(sent < 16 << 20);
	}
	/* Stuck; now the client reads, and the guest hears of it. */
	while (client_recv(fd, chunk, sizeof(chunk)) > 0)
		poll_device();
	poll_device();
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
	int fd = peers_connect(&port);
	struct guest_packet p;
	bool reset = false;

	while (!reset && sent < 16 << 20) {
		guest_send(port, VIRTIO_VSOCK_OP_RW, chunk, sizeof(chunk));
		sent += sizeof(chunk);
		while (guest_recv(&p))
			reset |= p.h.op == VIRTIO_VSOCK_OP_RST;
	}
	assert_true(reset);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

static void client_stalls_without_guest_credit(void **state)
{
	uint32_t port;
	struct virtio_vsock_hdr h;
	struct guest_packet p;
	int fd = client_open();

	client_send(fd, "CONNECT 1000\n0123456789");
	poll_device();
	port = guest_expect_request();
	h = guest_header(port, VIRTIO_VSOCK_OP_RESPONSE);
	h.buf_alloc = 4;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 4);
	guest_expect(&p, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
	client_send(fd, "abc");
	poll_device(); /* must not spin */
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
	struct guest_packet p;
	int fd;

	peers_setup_bare(state);
	fake_start(&fake, FAKE_FEATURES, 0);
	guest_give_buffers(1);
	fd = peers_connect(&port);
	client_send(fd, "hello");
	poll_device(); /* must not spin */
	guest_expect_nothing();
	guest_give_buffers(1);
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "hello", 5);
	(void)close(fd);
}

static void credit_request_is_answered(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

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
	unsigned seen[2] = {0}, ahead;
	struct guest_packet p;
	int fd[2] = {peers_connect(&port[0]), peers_connect(&port[1])};

	for (unsigned i = 0; i < 2; i++)
		assert_true(send(fd[i], block, sizeof(block), MSG_NOSIGNAL) > 60000);
	poll_device();
	for (unsigned i = 0; i < 30; i++) { /* of 1, 2, 4 and 8 packets */
		guest_expect(&p, VIRTIO_VSOCK_OP_RW);
		seen[p.h.src_port == port[1]]++;
		ahead = seen[0] > seen[1] ? seen[0] - seen[1] : seen[1] - seen[0];
		assert_true(ahead <= 8);
	}
	assert_int_equal(seen[0], 15);
	assert_int_equal(seen[1], 15);
	(void)close(fd[0]);
	(void)close(fd[1]);
}

/* --- closing --- */

static void client_half_closes(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

	client_send(fd, "last");
	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "still here", 10);
	client_expect(fd, "still here");
	guest_shutdown(port, 3);
	client_expect_end(fd);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

static void guest_half_closes(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RW, "last", 4);
	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_SEND);
	client_expect(fd, "last");
	client_expect_end(fd);
	client_send(fd, "more");
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "more", 4);
	(void)close(fd);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	assert_true(vsock_idle(fake.dev));
}

static void guest_stops_receiving(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_RCV);
	assert_int_equal(send(fd, "x", 1, MSG_NOSIGNAL), -1);
	assert_int_equal(errno, EPIPE);
	poll_device();
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
	struct guest_packet p;
	int fd = peers_connect(&port);
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
	assert_false(vsock_idle(fake.dev));
	while ((r = client_recv(fd, chunk, sizeof(chunk))) != 0) {
		got += r > 0 ? (size_t)r : 0;
		poll_device();
	}
	assert_int_equal(got, sent);
	assert_true(vsock_idle(fake.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void guest_resets(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RST, NULL, 0);
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	guest_expect_nothing();
	(void)close(fd);
}

static void client_leaves_while_the_guest_talks(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

	client_send(fd, "bye");
	(void)close(fd);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "into the void", 13);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "bye", 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, 3);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "into the void", 13);
	guest_shutdown(port, 3);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_true(vsock_idle(fake.dev));
}

static void silent_guest_is_reset_after_a_while(void **state)
{
	uint32_t port;
	struct guest_packet p;
	int fd = peers_connect(&port);

	(void)close(fd);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	(void)usleep((VSOCK_CLOSE_MS + 50) * 1000);
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, port);
	assert_true(vsock_idle(fake.dev));
}

#define T(name)	 cmocka_unit_test_setup_teardown(name, peers_setup, peers_teardown)
#define TB(name) cmocka_unit_test_setup_teardown(name, peers_setup_bare, peers_teardown)
#define TN(name) cmocka_unit_test_setup_teardown(name, NULL, peers_teardown)

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
		T(a_paused_listener_comes_back),
		T(bulk_to_the_guest),
		TN(bulk_into_pieces),
		T(bulk_to_the_end_of_the_credit),
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
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("vsock", tests, NULL, NULL);
}
