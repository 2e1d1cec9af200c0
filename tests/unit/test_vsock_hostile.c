/* virtio-vsock with guests that break the protocol, and its state in snapshots. */
#include "test.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "vsock_peers.h"

/* --- hostile guests --- */

static void expect_reset_of(uint32_t port)
{
	struct guest_packet p;

	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	assert_int_equal(p.h.src_port, port);
	assert_true(vsock_idle(fake.dev));
	assert_false(fake_status(&fake) & VIRTIO_STATUS_NEEDS_RESET);
}

static void hostile_unknown_operation(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_send(port, 99, NULL, 0);
	expect_reset_of(port);
	client_expect_end(fd);
	(void)close(fd);
}

static void hostile_unknown_type(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_RW);
	struct guest_packet p;

	h.type = 2;
	guest_send_raw(&h, NULL, 0);
	guest_expect(&p, VIRTIO_VSOCK_OP_RST);
	(void)close(fd);
}

static void hostile_addresses(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);
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
	assert_false(vsock_idle(fake.dev));
	guest_send(port, VIRTIO_VSOCK_OP_RW, "fine", 4);
	client_expect(fd, "fine");
	(void)close(fd);
}

static void hostile_second_response(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	expect_reset_of(port);
	(void)close(fd);
}

static void hostile_request_on_a_connection(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_send(port, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	expect_reset_of(port);
	(void)close(fd);
}

static void hostile_data_before_the_response(void **state)
{
	static const uint16_t ops[] = {VIRTIO_VSOCK_OP_RW, VIRTIO_VSOCK_OP_SHUTDOWN};

	for (unsigned i = 0; i < 2; i++) {
		int fd = client_open();
		uint32_t port;

		client_send(fd, "CONNECT 1000\n");
		poll_device();
		port = guest_expect_request();
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

	peers_setup_bare(state);
	fake_start(&fake, FAKE_FEATURES, 0);
	fd = client_open();
	client_send(fd, "CONNECT 1000\n");
	poll_device();
	for (port = 1024; port < 1024 + 4096; port++)
		guest_send(port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	assert_int_equal(client_recv(fd, &port, 4), -1);
	(void)close(fd);
}

static void hostile_data_after_shutdown(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	guest_shutdown(port, VIRTIO_VSOCK_SHUTDOWN_SEND);
	guest_send(port, VIRTIO_VSOCK_OP_RW, "oops", 4);
	expect_reset_of(port);
	(void)close(fd);
}

static void needs_reset_drops_clients(int fd)
{
	assert_true(fake_status(&fake) & VIRTIO_STATUS_NEEDS_RESET);
	client_expect_end(fd);
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
	fd = client_open();
	client_send(fd, "CONNECT 1000\n");
	poll_device();
	client_expect(fd, "ERR reset\n");
	(void)close(fd);
}

static void hostile_length_beyond_the_chain(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);
	struct virtio_vsock_hdr h = guest_header(port, VIRTIO_VSOCK_OP_RW);

	h.len = 5;
	guest_send_raw(&h, "four", 4);
	needs_reset_drops_clients(fd);
}

static void hostile_short_packet(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	fake_desc(&fake, VSOCK_TX, 0, VSOCK_TX_AREA, 43, 0, 0);
	fake_offer(&fake, VSOCK_TX, 0);
	fake_kick(&fake, VSOCK_TX);
	needs_reset_drops_clients(fd);
}

static void hostile_writable_packet(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port);

	fake_desc(&fake, VSOCK_TX, 0, VSOCK_TX_AREA, 4096, VIRTQ_DESC_F_WRITE, 0);
	fake_offer(&fake, VSOCK_TX, 0);
	fake_kick(&fake, VSOCK_TX);
	needs_reset_drops_clients(fd);
}

static void hostile_small_receive_buffer(uint32_t bytes, uint16_t flags)
{
	int fd;

	peers_setup_bare(NULL);
	fake_start(&fake, FAKE_FEATURES, 0);
	fd = client_open();
	client_send(fd, "CONNECT 1000\n");
	fake_desc(&fake, VSOCK_RX, 0, VSOCK_RX_AREA, bytes, flags, 0);
	fake_offer(&fake, VSOCK_RX, 0);
	poll_device();
	assert_true(fake_status(&fake) & VIRTIO_STATUS_NEEDS_RESET);
	(void)close(fd);
}

static void hostile_receive_buffers(void **state)
{
	hostile_small_receive_buffer(43, VIRTQ_DESC_F_WRITE);
	fake_done(&fake);
	hostile_small_receive_buffer(4096, 0);
}

static void hostile_flood_of_unknown_packets(void **state)
{
	struct guest_packet p;
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
	guest_give_buffers(100);
	while (guest_recv(&p))
		resets++;
	assert_int_equal(resets, 128); /* and as many that waited */
	assert_true(vsock_idle(fake.dev));
}

static void driver_reset_ends_connections(void **state)
{
	uint32_t port;
	int fd = peers_connect(&port), waiting = client_open();

	client_send(waiting, "CONNECT 1000\n");
	poll_device();
	(void)guest_expect_request();
	fake_start(&fake, FAKE_FEATURES, 0);
	client_expect_end(fd);
	client_expect(waiting, "ERR reset\n");
	assert_true(vsock_idle(fake.dev));
	(void)close(fd);
	(void)close(waiting);
}

/* --- snapshots --- */

static void reload(struct buf *b)
{
	struct reader in = reader_of(buf_head(b), buf_len(b));

	virtio_destroy(fake.dev);
	peers_make_device();
	assert_int_equal(virtio_load(fake.dev, &in), 0);
	assert_true(reader_finished(&in));
	fake.irqs = 0;
}

static void load_resets_connections(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint32_t port[3];
	int fd[3] = {peers_connect(&port[0]), peers_connect(&port[1]), client_open()}, fresh;
	struct guest_packet p;

	client_send(fd[2], "CONNECT 1000\n");
	poll_device();
	port[2] = guest_expect_request();
	assert_int_equal(virtio_save(fake.dev, &b), 0);
	guest_send(port[0], VIRTIO_VSOCK_OP_RW, "goes on", 7);
	client_expect(fd[0], "goes on");
	fake.queues[VSOCK_TX].avail_idx--; /* as in the snapshot */
	fake_store16(&fake, fake.queues[VSOCK_TX].avail + 2, fake.queues[VSOCK_TX].avail_idx);
	reload(&b);
	assert_false(vsock_idle(fake.dev));
	fresh = client_open();
	client_send(fresh, "CONNECT 1000\n");
	virtio_resume(fake.dev);
	for (unsigned i = 0; i < 3; i++) {
		guest_expect(&p, VIRTIO_VSOCK_OP_RST);
		assert_int_equal(p.h.src_port, port[i]);
		assert_int_equal(p.h.dst_port, GUEST_PORT);
	}
	assert_true(guest_expect_request() > port[2]);
	assert_int_equal(fake.irqs, 1);
	for (unsigned i = 0; i < 3; i++)
		(void)close(fd[i]);
	(void)close(fresh);
	buf_done(&b);
}

static void load_without_connections_sends_nothing(void **state)
{
	struct buf b = BUF_INIT(65536);

	assert_int_equal(virtio_save(fake.dev, &b), 0);
	reload(&b);
	assert_true(vsock_idle(fake.dev));
	virtio_resume(fake.dev);
	guest_expect_nothing();
	assert_int_equal(fake.irqs, 0);
	buf_done(&b);
}

static void load_survives_damage(void **state)
{
	struct buf b = BUF_INIT(65536);
	uint8_t copy[2048];
	uint32_t port;
	int fd = peers_connect(&port);
	size_t n;

	assert_int_equal(virtio_save(fake.dev, &b), 0);
	n = buf_len(&b);
	assert_in_range(n, 1, sizeof(copy));
	for (size_t i = 0; i < n; i++) {
		struct reader in = reader_of(buf_head(&b), i);

		assert_int_equal(virtio_load(fake.dev, &in), -EINVAL);
	}
	for (size_t i = 0; i < n * 8; i++) {
		struct reader in = reader_of(copy, n);

		memcpy(copy, buf_head(&b), n);
		copy[i / 8] ^= (uint8_t)(1 << i % 8);
		if (virtio_load(fake.dev, &in) == 0)
			virtio_resume(fake.dev);
	}
	(void)close(fd);
	buf_done(&b);
}

#define T(name)	 cmocka_unit_test_setup_teardown(name, peers_setup, peers_teardown)
#define TN(name) cmocka_unit_test_setup_teardown(name, NULL, peers_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
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
	return cmocka_run_group_tests_name("vsock_hostile", tests, NULL, NULL);
}
