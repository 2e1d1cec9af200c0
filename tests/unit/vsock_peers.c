#include "vsock_peers.h"

#include "test.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log.h"

struct fake_driver fake;
static struct sockaddr_un address;
static socklen_t address_len;
uint32_t guest_consumed;

void peers_make_device(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	address = (struct sockaddr_un){.sun_family = AF_UNIX};
	assert_true(fd >= 0);
	/* The kernel picks an abstract name. */
	assert_int_equal(bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t)), 0);
	address_len = sizeof(address);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&address, &address_len), 0);
	assert_int_equal(listen(fd, 128), 0);
	assert_int_equal(vsock_create(&fake.memory, fd, VSOCK_GUEST_CID, fake_raise_irq, &fake,
				 &fake.dev, NULL),
		0);
}

void guest_give_buffers(unsigned n)
{
	for (unsigned i = 0; i < n; i++) {
		uint16_t d = (uint16_t)(fake.queues[VSOCK_RX].avail_idx % 128);

		fake_desc(&fake, VSOCK_RX, d, VSOCK_RX_AREA + d * (gpa_t)VSOCK_RX_BUFFER,
			VSOCK_RX_BUFFER, VIRTQ_DESC_F_WRITE, 0);
		fake_offer(&fake, VSOCK_RX, d);
	}
	fake_kick(&fake, VSOCK_RX);
}

int peers_setup_bare(void **state)
{
	log_set_level(LOG_LEVEL_ERROR);
	guest_consumed = 0;
	fake_init(&fake);
	peers_make_device();
	return 0;
}

int peers_setup(void **state)
{
	peers_setup_bare(state);
	fake_start(&fake, UINT64_C(1) << VIRTIO_F_VERSION_1, 0);
	guest_give_buffers(64);
	return 0;
}

int peers_teardown(void **state)
{
	fake_done(&fake);
	return 0;
}

/* --- host side --- */

int client_open(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_true(fd >= 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&address, address_len), 0);
	assert_int_equal(fd_set_nonblock(fd, 1), 0);
	return fd;
}

void client_send(int fd, const char *s)
{
	assert_int_equal(send(fd, s, strlen(s), MSG_NOSIGNAL), strlen(s));
}

ssize_t client_recv(int fd, void *p, size_t n)
{
	ssize_t r = recv(fd, p, n, 0);

	if (r < 0 && errno == ECONNRESET)
		return 0;
	assert_true(r >= 0 || errno == EAGAIN);
	return r;
}

void client_expect(int fd, const char *s)
{
	char b[256] = {0};

	assert_int_equal(client_recv(fd, b, sizeof(b) - 1), strlen(s));
	assert_string_equal(b, s);
}

void client_expect_end(int fd)
{
	char b[1];

	assert_int_equal(client_recv(fd, b, 1), 0);
}

bool device_wants_poll(void)
{
	struct pollfd p = {.fd = vsock_poll_fd(fake.dev), .events = POLLIN};

	return poll(&p, 1, 0) > 0;
}

void poll_device(void)
{
	for (unsigned i = 0; device_wants_poll(); i++) {
		assert_true(i < 1000);
		vsock_poll(fake.dev);
	}
}

/* --- guest side --- */

bool guest_recv(struct guest_packet *p)
{
	uint32_t id, len;

	if (!fake_used(&fake, VSOCK_RX, &id, &len))
		return false;
	assert_true(len >= sizeof(p->h) && len <= VSOCK_RX_BUFFER);
	memcpy(&p->h, fake_at(&fake, VSOCK_RX_AREA + id * (gpa_t)VSOCK_RX_BUFFER), sizeof(p->h));
	memcpy(p->data,
		(uint8_t *)fake_at(&fake, VSOCK_RX_AREA + id * (gpa_t)VSOCK_RX_BUFFER) +
			sizeof(p->h),
		len - sizeof(p->h));
	assert_int_equal(p->h.len, len - sizeof(p->h));
	assert_int_equal(p->h.src_cid, 2);
	assert_int_equal(p->h.dst_cid, 3);
	assert_int_equal(p->h.type, VIRTIO_VSOCK_TYPE_STREAM);
	return true;
}

void guest_expect(struct guest_packet *p, uint16_t op)
{
	assert_true(guest_recv(p));
	assert_int_equal(p->h.op, op);
}

void guest_expect_nothing(void)
{
	struct guest_packet p;

	assert_false(guest_recv(&p));
}

struct virtio_vsock_hdr guest_header(uint32_t host_port, uint16_t op)
{
	return (struct virtio_vsock_hdr){.src_cid = 3,
		.dst_cid = 2,
		.src_port = GUEST_PORT,
		.dst_port = host_port,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.buf_alloc = GUEST_BUFFER,
		.fwd_cnt = guest_consumed};
}

void guest_send_raw(const struct virtio_vsock_hdr *h, const void *data, uint32_t n)
{
	uint32_t id, len;

	memcpy(fake_at(&fake, VSOCK_TX_AREA), h, sizeof(*h));
	if (n)
		memcpy(fake_at(&fake, VSOCK_TX_AREA + 64), data, n);
	fake_desc(&fake, VSOCK_TX, 0, VSOCK_TX_AREA, sizeof(*h), n ? VIRTQ_DESC_F_NEXT : 0, 1);
	fake_desc(&fake, VSOCK_TX, 1, VSOCK_TX_AREA + 64, n, 0, 0);
	fake_offer(&fake, VSOCK_TX, 0);
	fake_kick(&fake, VSOCK_TX);
	(void)fake_used(&fake, VSOCK_TX, &id, &len); /* there is none after a violation */
}

void guest_send(uint32_t host_port, uint16_t op, const void *data, uint32_t n)
{
	struct virtio_vsock_hdr h = guest_header(host_port, op);

	h.len = n;
	guest_send_raw(&h, data, n);
}

void guest_shutdown(uint32_t host_port, uint32_t flags)
{
	struct virtio_vsock_hdr h = guest_header(host_port, VIRTIO_VSOCK_OP_SHUTDOWN);

	h.flags = flags;
	guest_send_raw(&h, NULL, 0);
}

uint32_t guest_expect_request(void)
{
	struct guest_packet p;

	guest_expect(&p, VIRTIO_VSOCK_OP_REQUEST);
	assert_int_equal(p.h.dst_port, GUEST_PORT);
	assert_int_equal(p.h.buf_alloc, VSOCK_BUFFER_BYTES);
	assert_true(p.h.src_port >= 1024);
	return p.h.src_port;
}

int peers_connect(uint32_t *ret_host_port)
{
	int fd = client_open();
	char want[32];

	client_send(fd, "CONNECT 1000\n");
	poll_device();
	*ret_host_port = guest_expect_request();
	guest_send(*ret_host_port, VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
	(void)snprintf(want, sizeof(want), "OK %u\n", *ret_host_port);
	client_expect(fd, want);
	return fd;
}
