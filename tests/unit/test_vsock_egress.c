/* Streams that a guest opens over virtio-vsock, and the egress channel that they go to. */
#include "test.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/egress_wire.h"
#include "vsock_peers.h"

enum {
	FIRST_PORT = 5000,			 /* of the guest */
	WAITING_MAX = 2 * VSOCK_CONNECTIONS_MAX, /* resets, while a guest takes no packets */
	HANDSHAKE_PORT_MIN = 2048,		 /* of host ports for the host's own connections */
};

static int channel = -1; /* the worker's end */

/* --- both sides --- */

static void give_channel(void)
{
	int pair[2];

	assert_int_equal(
		socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair), 0);
	vsock_set_egress(fake.dev, pair[0]);
	channel = pair[1];
}

static int setup(void **state)
{
	peers_setup(state);
	give_channel();
	return 0;
}

static int teardown(void **state)
{
	if (channel >= 0)
		(void)close(channel);
	channel = -1;
	return peers_teardown(state);
}

/* The next stream of the channel, or -1. */
static int worker_take(void)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int) * 4)];
	} control;
	char data[8] = {1, 1};
	struct iovec iov = {.iov_base = data, .iov_len = sizeof(data)};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};
	ssize_t n = recvmsg(channel, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
	int fd;

	if (n < 0) {
		assert_int_equal(errno, EAGAIN);
		return -1;
	}
	assert_int_equal(n, 1);
	assert_int_equal(data[0], 0);
	assert_int_equal(control.head.cmsg_type, SCM_RIGHTS);
	assert_int_equal(control.head.cmsg_len, CMSG_LEN(sizeof(int)));
	memcpy(&fd, CMSG_DATA(&control.head), sizeof(fd));
	return fd;
}

static struct virtio_vsock_hdr header(uint32_t guest_port, uint16_t op)
{
	struct virtio_vsock_hdr h = guest_header(EGRESS_PORT, op);

	h.src_port = guest_port;
	return h;
}

static void request(uint32_t guest_port)
{
	struct virtio_vsock_hdr h = header(guest_port, VIRTIO_VSOCK_OP_REQUEST);

	guest_send_raw(&h, NULL, 0);
}

static void reset(uint32_t guest_port)
{
	struct virtio_vsock_hdr h = header(guest_port, VIRTIO_VSOCK_OP_RST);

	guest_send_raw(&h, NULL, 0);
}

static void end(uint32_t guest_port, uint32_t flags)
{
	struct virtio_vsock_hdr h = header(guest_port, VIRTIO_VSOCK_OP_SHUTDOWN);

	h.flags = flags;
	guest_send_raw(&h, NULL, 0);
}

static void say(uint32_t guest_port, const char *text)
{
	struct virtio_vsock_hdr h = header(guest_port, VIRTIO_VSOCK_OP_RW);

	h.len = (uint32_t)strlen(text);
	guest_send_raw(&h, text, h.len);
}

static void expect(struct guest_packet *p, uint32_t guest_port, uint16_t op)
{
	guest_expect(p, op);
	assert_int_equal(p->h.src_port, EGRESS_PORT);
	assert_int_equal(p->h.dst_port, guest_port);
}

static void expect_refusal(uint32_t guest_port)
{
	struct guest_packet p;

	expect(&p, guest_port, VIRTIO_VSOCK_OP_RST);
}

/* An open stream: the worker's end. */
static int open_stream(uint32_t guest_port)
{
	struct guest_packet p;
	int fd;

	request(guest_port);
	expect(&p, guest_port, VIRTIO_VSOCK_OP_RESPONSE);
	assert_int_equal(p.h.buf_alloc, VSOCK_BUFFER_BYTES);
	guest_give_buffers(1);
	fd = worker_take();
	assert_true(fd >= 0);
	return fd;
}

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	assert_non_null(d);
	while (readdir(d))
		n++;
	(void)closedir(d); /* only read */
	return n;
}

/* --- a stream's life --- */

static void stream_carries_bytes(void **state)
{
	struct guest_packet p;
	int fd = open_stream(FIRST_PORT);

	say(FIRST_PORT, "question");
	client_expect(fd, "question");
	client_send(fd, "answer");
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RW);
	assert_memory_equal(p.data, "answer", 6);
	assert_int_equal(p.h.fwd_cnt, 8);
	guest_expect_nothing();
	(void)close(fd);
}

static void guest_half_closes(void **state)
{
	struct guest_packet p;
	int fd = open_stream(FIRST_PORT);

	say(FIRST_PORT, "all");
	end(FIRST_PORT, VIRTIO_VSOCK_SHUTDOWN_SEND);
	client_expect(fd, "all");
	client_expect_end(fd);
	client_send(fd, "late");
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RW);
	(void)close(fd);
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_SHUTDOWN);
	reset(FIRST_PORT);
	assert_true(vsock_idle(fake.dev));
}

static void worker_half_closes(void **state)
{
	struct guest_packet p;
	int fd = open_stream(FIRST_PORT);

	assert_int_equal(shutdown(fd, SHUT_WR), 0);
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_SEND);
	say(FIRST_PORT, "still");
	client_expect(fd, "still");
	end(FIRST_PORT, VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND);
	expect_refusal(FIRST_PORT); /* confirms the end */
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

/* In both directions, while the other side could still have said something. */
static void worker_goes(void **state)
{
	struct guest_packet p;
	int fd = open_stream(FIRST_PORT);

	client_send(fd, "refused");
	(void)close(fd);
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RW);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_SHUTDOWN);
	assert_int_equal(p.h.flags, VIRTIO_VSOCK_SHUTDOWN_RCV | VIRTIO_VSOCK_SHUTDOWN_SEND);
	reset(FIRST_PORT);
	assert_true(vsock_idle(fake.dev));
	(void)close(open_stream(FIRST_PORT));
}

/* Whatever the worker has done by then, the guest hears first that it is connected. */
static void response_comes_first(void **state)
{
	struct guest_packet p;
	int fd;

	peers_setup_bare(state);
	fake_start(&fake, FAKE_FEATURES, 0);
	give_channel();
	request(FIRST_PORT);
	fd = worker_take();
	client_send(fd, "answer");
	(void)close(fd);
	poll_device();
	guest_give_buffers(8);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RESPONSE);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RW);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_SHUTDOWN);
}

static void guest_waits_for_credit(void **state)
{
	struct virtio_vsock_hdr h = header(FIRST_PORT, VIRTIO_VSOCK_OP_REQUEST);
	struct guest_packet p;
	int fd;

	h.buf_alloc = 3;
	guest_send_raw(&h, NULL, 0);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RESPONSE);
	fd = worker_take();
	client_send(fd, "answer");
	poll_device();
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_RW);
	assert_int_equal(p.h.len, 3);
	expect(&p, FIRST_PORT, VIRTIO_VSOCK_OP_CREDIT_REQUEST);
	guest_expect_nothing();
	(void)close(fd);
}

/* --- refusals --- */

static void no_channel(void **state)
{
	vsock_set_egress(fake.dev, -1);
	request(FIRST_PORT);
	expect_refusal(FIRST_PORT);
	assert_true(vsock_idle(fake.dev));
}

static void other_ports(void **state)
{
	static const uint32_t ports[] = {0, 1024, 1026, 2048, 0xffffffff};
	struct guest_packet p;

	for (unsigned i = 0; i < sizeof(ports) / sizeof(ports[0]); i++) {
		struct virtio_vsock_hdr h = guest_header(ports[i], VIRTIO_VSOCK_OP_REQUEST);

		guest_send_raw(&h, NULL, 0);
		guest_expect(&p, VIRTIO_VSOCK_OP_RST);
		assert_int_equal(p.h.src_port, ports[i]);
	}
	assert_int_equal(worker_take(), -1);
	assert_true(vsock_idle(fake.dev));
}

/* Only a REQUEST opens anything, and only as a stream. */
static void other_packets(void **state)
{
	for (uint16_t op = 0; op < 9; op++) {
		struct virtio_vsock_hdr h = header(FIRST_PORT, op);

		if (op == VIRTIO_VSOCK_OP_REQUEST)
			h.type = 2;
		guest_send_raw(&h, NULL, 0);
		if (op != VIRTIO_VSOCK_OP_RST)
			expect_refusal(FIRST_PORT);
	}
	assert_int_equal(worker_take(), -1);
	assert_true(vsock_idle(fake.dev));
}

static void worker_is_gone(void **state)
{
	unsigned before = count_fds();

	(void)close(channel);
	channel = -1;
	for (unsigned i = 0; i < 10; i++) {
		request(FIRST_PORT + i);
		expect_refusal(FIRST_PORT + i);
	}
	assert_int_equal(count_fds(), before - 1);
	assert_true(vsock_idle(fake.dev));
}

/* Nobody takes streams from the channel, then somebody takes one. */
static void full_channel(void **state)
{
	unsigned before = count_fds(), n = 0;
	struct guest_packet p;

	for (;; n++) {
		assert_true(n < VSOCK_GUEST_CONNECTIONS_MAX);
		request(FIRST_PORT + n);
		guest_give_buffers(1);
		assert_true(guest_recv(&p));
		if (p.h.op == VIRTIO_VSOCK_OP_RST)
			break;
	}
	assert_true(n > 16);
	assert_int_equal(count_fds(), before + n);
	(void)close(worker_take());
	poll_device();
	guest_expect(&p, VIRTIO_VSOCK_OP_SHUTDOWN);
	request(FIRST_PORT + n);
	expect(&p, FIRST_PORT + n, VIRTIO_VSOCK_OP_RESPONSE);
}

static void channel_is_replaced(void **state)
{
	int old = channel, fd = open_stream(FIRST_PORT), other;

	give_channel();
	other = open_stream(FIRST_PORT + 1);
	say(FIRST_PORT, "old");
	client_expect(fd, "old");
	say(FIRST_PORT + 1, "new");
	client_expect(other, "new");
	vsock_set_egress(fake.dev, -1);
	say(FIRST_PORT + 1, "still");
	client_expect(other, "still");
	request(FIRST_PORT + 2);
	expect_refusal(FIRST_PORT + 2);
	(void)close(old);
	(void)close(fd);
	(void)close(other);
}

/* --- hostile guests --- */

static void hostile_same_port_twice(void **state)
{
	int fd = open_stream(FIRST_PORT), again;

	request(FIRST_PORT);
	expect_refusal(FIRST_PORT);
	client_expect_end(fd);
	assert_int_equal(worker_take(), -1);
	assert_true(vsock_idle(fake.dev));
	again = open_stream(FIRST_PORT);
	say(FIRST_PORT, "fine");
	client_expect(again, "fine");
	(void)close(fd);
	(void)close(again);
}

static void hostile_response(void **state)
{
	struct virtio_vsock_hdr h = header(FIRST_PORT, VIRTIO_VSOCK_OP_RESPONSE);
	int fd = open_stream(FIRST_PORT);

	guest_send_raw(&h, NULL, 0);
	expect_refusal(FIRST_PORT);
	client_expect_end(fd);
	(void)close(fd);
}

/* Sends as much as the guest may, to a worker that does not read. Returns how much that was. */
static uint32_t fill_stream(uint32_t guest_port)
{
	static const char block[4096] = {1};
	struct virtio_vsock_hdr h = header(guest_port, VIRTIO_VSOCK_OP_RW);
	struct guest_packet p = {0};
	uint32_t sent = 0;

	h.len = sizeof(block);
	do {
		for (; sent - p.h.fwd_cnt + h.len <= VSOCK_BUFFER_BYTES; sent += h.len)
			guest_send_raw(&h, block, h.len);
		guest_give_buffers(1);
	} while (guest_recv(&p));
	return sent;
}

/* The guest opens the port anew while what it said there before still waits for the worker. */
static void hostile_reset_and_reopen(void **state)
{
	int fd = open_stream(FIRST_PORT), again;
	uint32_t left = fill_stream(FIRST_PORT);
	char b[4096];

	reset(FIRST_PORT);
	again = open_stream(FIRST_PORT);
	say(FIRST_PORT, "new");
	client_expect(again, "new");
	for (ssize_t n; (n = client_recv(fd, b, sizeof(b))) > 0; left -= (uint32_t)n)
		poll_device();
	assert_int_equal(left, 0);
	poll_device();
	client_expect_end(fd);
	reset(FIRST_PORT);
	client_expect_end(again);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
	(void)close(again);
}

static void hostile_reset_in_the_middle(void **state)
{
	int fd = open_stream(FIRST_PORT);

	say(FIRST_PORT, "half");
	reset(FIRST_PORT);
	reset(FIRST_PORT);
	client_expect(fd, "half");
	client_expect_end(fd);
	guest_expect_nothing();
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
}

/* As many streams as there may be, whose ports all share a bucket; the host's clients still get
 * in. */
static void hostile_full_table(void **state)
{
	int fds[VSOCK_GUEST_CONNECTIONS_MAX], client;
	uint32_t port;

	for (uint32_t i = 0; i < VSOCK_GUEST_CONNECTIONS_MAX; i++)
		fds[i] = open_stream(i << 20);
	request(1);
	expect_refusal(1);
	for (uint32_t i = 0; i < VSOCK_GUEST_CONNECTIONS_MAX; i++) {
		say(i << 20, "x");
		client_expect(fds[i], "x");
	}
	guest_give_buffers(2);
	client = peers_connect(&port);
	reset(5 << 20);
	client_expect_end(fds[5]);
	(void)close(open_stream(7));
	for (uint32_t i = 0; i < VSOCK_GUEST_CONNECTIONS_MAX; i++)
		(void)close(fds[i]);
	(void)close(client);
}

static void hostile_flood(void **state)
{
	unsigned before = count_fds();
	struct guest_packet p;

	for (uint32_t i = 0; i < 20000; i++) {
		request(i);
		guest_expect(&p, VIRTIO_VSOCK_OP_RESPONSE);
		reset(i);
		guest_give_buffers(1);
		(void)close(worker_take());
	}
	assert_int_equal(count_fds(), before);
	assert_true(vsock_idle(fake.dev));
}

/* A guest that takes no packets, so that answers wait: with all that may wait, its state can still
 * be loaded. */
static void hostile_deaf_guest(void **state)
{
	struct buf b = BUF_INIT(65536);
	struct reader in;
	unsigned n;

	peers_setup_bare(state);
	fake_start(&fake, FAKE_FEATURES, 0);
	for (n = 0; n < WAITING_MAX - 1; n++)
		request(n);
	give_channel();
	for (n = 0; n < VSOCK_GUEST_CONNECTIONS_MAX; n++) {
		request(n);
		(void)close(worker_take());
	}
	for (n = 0; n < 4 * VSOCK_CONNECTIONS_MAX; n++)
		request(n); /* resets those, then opens others, then nothing happens any more */
	while ((n = (unsigned)worker_take()) != (unsigned)-1)
		(void)close((int)n);
	assert_int_equal(virtio_save(fake.dev, &b), 0);
	in = reader_of(buf_head(&b), buf_len(&b));
	virtio_destroy(fake.dev);
	peers_make_device();
	assert_int_equal(virtio_load(fake.dev, &in), 0);
	assert_true(reader_finished(&in));
	buf_done(&b);
}

/* Refusals that wait for a guest are bounded, and it gets those. */
static void hostile_flood_of_refusals(void **state)
{
	struct guest_packet p;
	unsigned n = 0;

	vsock_set_egress(fake.dev, -1);
	for (uint32_t i = 0; i < 10000; i++)
		request(i);
	do {
		while (guest_recv(&p))
			n++;
		guest_give_buffers(64);
	} while (guest_recv(&p) && ++n);
	assert_int_equal(
		n, 64 + WAITING_MAX); /* receive buffers that there were, and what waited */
	assert_true(vsock_idle(fake.dev));
}

static void driver_reset(void **state)
{
	int fd = open_stream(FIRST_PORT);

	fake_start(&fake, FAKE_FEATURES, 0);
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	guest_give_buffers(16);
	(void)close(open_stream(FIRST_PORT));
	(void)close(fd);
}

/* --- snapshots --- */

static void reload(struct buf *b)
{
	struct reader in = reader_of(buf_head(b), buf_len(b));

	virtio_destroy(fake.dev);
	peers_make_device();
	assert_int_equal(virtio_load(fake.dev, &in), 0);
	assert_true(reader_finished(&in));
}

static void load_resets_streams(void **state)
{
	struct buf b = BUF_INIT(65536);
	int fd[2] = {open_stream(FIRST_PORT), open_stream(FIRST_PORT + 1)};

	assert_int_equal(virtio_save(fake.dev, &b), 0);
	reload(&b);
	virtio_resume(fake.dev);
	expect_refusal(FIRST_PORT);
	expect_refusal(FIRST_PORT + 1);
	request(FIRST_PORT); /* the channel was the saved VM's */
	expect_refusal(FIRST_PORT);
	(void)close(channel);
	give_channel();
	(void)close(open_stream(FIRST_PORT));
	(void)close(fd[0]);
	(void)close(fd[1]);
	buf_done(&b);
}

/* Sequence numbers begin anew some day. No connection of the host gets the guest's port then. */
static void host_ports_are_never_the_egress_port(void **state)
{
	static const uint8_t last[] = {0xfe, 0xff, 0x3f, 0}; /* of sequence numbers */
	struct buf b = BUF_INIT(65536);
	uint32_t port[2];
	int fd[2];
	uint8_t *sequence;

	assert_int_equal(virtio_save(fake.dev, &b), 0);
	sequence = (uint8_t *)buf_head(&b) + buf_len(&b) - 8;
	memcpy(sequence, last, sizeof(last));
	reload(&b);
	virtio_resume(fake.dev);
	for (unsigned i = 0; i < 2; i++) {
		fd[i] = peers_connect(&port[i]);
		assert_true(port[i] >= HANDSHAKE_PORT_MIN);
	}
	for (unsigned i = 0; i < 2; i++)
		(void)close(fd[i]);
	buf_done(&b);
}

#define T(name)	 cmocka_unit_test_setup_teardown(name, setup, teardown)
#define TN(name) cmocka_unit_test_setup_teardown(name, NULL, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(stream_carries_bytes),
		T(guest_half_closes),
		T(worker_half_closes),
		T(worker_goes),
		TN(response_comes_first),
		T(guest_waits_for_credit),
		T(no_channel),
		T(other_ports),
		T(other_packets),
		T(worker_is_gone),
		T(full_channel),
		T(channel_is_replaced),
		T(hostile_same_port_twice),
		T(hostile_response),
		T(hostile_reset_and_reopen),
		T(hostile_reset_in_the_middle),
		T(hostile_full_table),
		T(hostile_flood),
		TN(hostile_deaf_guest),
		T(hostile_flood_of_refusals),
		T(driver_reset),
		T(load_resets_streams),
		T(host_ports_are_never_the_egress_port),
	};

	(void)signal(SIGPIPE, SIG_IGN);
	return cmocka_run_group_tests_name("vsock_egress", tests, NULL, NULL);
}
