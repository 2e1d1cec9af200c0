/* Fuzzes virtio-vsock: the input is a list of what a guest, its clients and its worker do.
 * Invariants: the device never blocks, and its descriptor does not stay readable when there is
 * nothing to do. */
#include <assert.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/bytes.h"
#include "base/fd.h"
#include "base/log.h"
#include "../unit/fake_driver.h"
#include "proto/egress_wire.h"
#include "vmm/vsock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum {
	RX = VIRTIO_VSOCK_RX_QUEUE,
	TX = VIRTIO_VSOCK_TX_QUEUE,
	CLIENTS = 8,
	PORTS = 8,
	RX_BUFFER = 4096,
	TX_AREA = FAKE_HEAP + 0x100000,
	/* Flags of a poll, which then also */
	TAKE_STREAM = 0x40,   /* makes a client of the next stream that the guest opened, */
	SWITCH_CHANNEL = 0x80 /* and gives the device another channel, or takes it away */
};

enum {
	DO_CLIENT_OPEN,
	DO_CLIENT_LINE,
	DO_CLIENT_SEND,
	DO_CLIENT_RECEIVE,
	DO_CLIENT_SHUTDOWN,
	DO_CLIENT_CLOSE,
	DO_POLL,
	DO_BUFFERS,
	DO_PACKET,
	DO_HOSTILE_PACKET,
	DO_RAW_CHAIN,
	DO_SAVE_AND_LOAD,
	DO_RESTART,
	DOS,
};

static struct fake_driver f;
static struct sockaddr_un address;
static socklen_t address_len;
static int clients[CLIENTS];
static int channel;	      /* the worker's end of the egress channel; -1: there is none */
static uint32_t ports[PORTS]; /* host ports that the device used, the latest first */

static void switch_channel(void)
{
	int pair[2] = {-1, -1}, r = 0;

	if (channel >= 0)
		(void)close(channel); /* with all that waits in it */
	else
		r = socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, pair);
	assert(r == 0);
	vsock_set_egress(f.dev, pair[0]);
	channel = pair[1];
}

static void make_device(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), r;

	address = (struct sockaddr_un){.sun_family = AF_UNIX};
	r = bind(fd, (struct sockaddr *)&address, sizeof(sa_family_t));
	assert(r == 0);
	address_len = sizeof(address);
	r = getsockname(fd, (struct sockaddr *)&address, &address_len);
	assert(r == 0);
	r = listen(fd, CLIENTS);
	assert(r == 0);
	r = vsock_create(&f.memory, fd, VSOCK_GUEST_CID, fake_raise_irq, &f, &f.dev, NULL);
	assert(r == 0);
}

static void client_open(unsigned i)
{
	if (clients[i] >= 0)
		return;
	clients[i] = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	(void)connect(
		clients[i], (struct sockaddr *)&address, address_len); /* or the queue is full */
}

static void client_send(unsigned i, const void *p, size_t n)
{
	if (clients[i] >= 0 && p)
		(void)send(clients[i], p, n, MSG_NOSIGNAL); /* any result will do */
}

static void client_receive(unsigned i)
{
	static uint8_t b[65536];

	if (clients[i] >= 0)
		(void)recv(clients[i], b, sizeof(b), 0); /* any result will do */
}

static void client_close(unsigned i)
{
	if (clients[i] >= 0)
		(void)close(clients[i]);
	clients[i] = -1;
}

/* Client i is now the worker's end of a stream that the guest opened, if there is one. */
static void take_stream(unsigned i)
{
	union {
		struct cmsghdr head;
		char space[CMSG_SPACE(sizeof(int))];
	} control;
	char data = 1;
	struct iovec iov = {.iov_base = &data, .iov_len = 1};
	struct msghdr m = {.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = &control,
		.msg_controllen = sizeof(control)};

	if (recvmsg(channel, &m, MSG_CMSG_CLOEXEC) != 1)
		return;
	assert(data == 0 && control.head.cmsg_len == CMSG_LEN(sizeof(int)));
	client_close(i);
	memcpy(&clients[i], CMSG_DATA(&control.head), sizeof(int));
}

static void poll_device(void)
{
	struct pollfd p = {.fd = vsock_poll_fd(f.dev), .events = POLLIN};

	for (unsigned i = 0; poll(&p, 1, 0) > 0; i++) {
		assert(i < 10000);
		vsock_poll(f.dev);
	}
}

static void give_buffers(unsigned n)
{
	for (unsigned i = 0; f.queues[RX].size && i < n; i++) {
		uint16_t d = (uint16_t)(f.queues[RX].avail_idx % f.queues[RX].size);

		fake_desc(&f, RX, d, FAKE_HEAP + d * (gpa_t)RX_BUFFER, RX_BUFFER,
			VIRTQ_DESC_F_WRITE, 0);
		fake_offer(&f, RX, d);
	}
	fake_kick(&f, RX);
}

/* Learns the ports that the device uses, and checks what it sends. */
static void take_packets(void)
{
	uint32_t id, len;

	while (f.queues[RX].size && fake_used(&f, RX, &id, &len)) {
		const uint8_t *p;

		if (id >= f.queues[RX].size || len > RX_BUFFER)
			continue; /* the driver broke its own ring */
		p = fake_at(&f, FAKE_HEAP + id * (gpa_t)RX_BUFFER);
		memmove(ports + 1, ports, sizeof(ports) - sizeof(ports[0]));
		ports[0] = get_le32(p + offsetof(struct virtio_vsock_hdr, src_port));
	}
}

static void send_packet(const struct virtio_vsock_hdr *h, uint32_t n, uint32_t id, uint32_t len)
{
	if (!f.queues[TX].size)
		return;
	memcpy(fake_at(&f, TX_AREA), h, sizeof(*h));
	fake_desc(&f, TX, 0, TX_AREA, sizeof(*h), n ? VIRTQ_DESC_F_NEXT : 0, 1);
	fake_desc(&f, TX, 1, TX_AREA + 64, n, 0, 0);
	fake_offer(&f, TX, 0);
	fake_kick(&f, TX);
	(void)fake_used(&f, TX, &id, &len); /* there may be none */
}

static void packet(struct reader *in, bool hostile)
{
	struct virtio_vsock_hdr h = {.src_cid = 3, .dst_cid = 2, .type = VIRTIO_VSOCK_TYPE_STREAM};
	uint32_t n = 0;
	unsigned port;

	h.op = reader_u8(in) % 9;
	port = reader_u8(in) % PORTS;
	h.dst_port = port < PORTS - 1 ? ports[port] : EGRESS_PORT;
	port = reader_u8(in);
	h.src_port = 1000 + port % 2 + port / 128 * 1024; /* some share a bucket */
	h.flags = reader_u8(in) % 4;
	h.buf_alloc = reader_u8(in) * 4096u;
	h.fwd_cnt = reader_u8(in) * 64u;
	if (h.op == VIRTIO_VSOCK_OP_RW)
		n = reader_u8(in) * 256u;
	h.len = n;
	if (hostile) {
		uint8_t at = reader_u8(in) % sizeof(h);

		((uint8_t *)&h)[at] ^= reader_u8(in);
	}
	send_packet(&h, n, 0, 0);
}

/* A chain of up to four descriptors at any of the queues. */
static void raw_chain(struct reader *in)
{
	unsigned queue = reader_u8(in) % 3, n = 1 + reader_u8(in) % 4;

	if (f.queues[queue].size < 4)
		return;
	for (uint16_t i = 0; i < n; i++) {
		uint8_t flags = reader_u8(in);

		fake_desc(&f, queue, i, FAKE_HEAP + reader_le16(in) * 64u, reader_le16(in),
			(uint16_t)(flags % 8 | (i + 1u < n ? VIRTQ_DESC_F_NEXT : 0)),
			(uint16_t)(i + 1));
	}
	fake_offer(&f, queue, 0);
	fake_kick(&f, queue);
}

static void save_and_load(struct reader *in)
{
	struct buf b = BUF_INIT(65536);
	uint16_t at = reader_le16(in);
	uint8_t value = reader_u8(in);
	struct reader saved;
	int r = virtio_save(f.dev, &b);

	assert(r == 0);
	if (at % 2) /* damaged */
		b.data[b.start + at % buf_len(&b)] ^= value;
	virtio_destroy(f.dev);
	make_device();
	switch_channel();
	saved = reader_of(buf_head(&b), buf_len(&b));
	if (virtio_load(f.dev, &saved) == 0)
		virtio_resume(f.dev);
	buf_done(&b);
}

static void step(struct reader *in)
{
	uint8_t what = reader_u8(in), n = reader_u8(in);
	unsigned i = n % CLIENTS;
	char line[32];

	switch (what % DOS) {
	case DO_CLIENT_OPEN:
		client_open(i);
		break;
	case DO_CLIENT_LINE:
		client_open(i);
		(void)snprintf(line, sizeof(line), "CONNECT %d\n", 1000 + n / CLIENTS % 2);
		client_send(i, line, strlen(line));
		break;
	case DO_CLIENT_SEND:
		n = reader_u8(in);
		if (n > reader_left(in))
			n = (uint8_t)reader_left(in);
		client_send(i, reader_bytes(in, n), n);
		break;
	case DO_CLIENT_RECEIVE:
		client_receive(i);
		break;
	case DO_CLIENT_SHUTDOWN:
		if (clients[i] >= 0)
			(void)shutdown(clients[i], n / CLIENTS % 3); /* any result will do */
		break;
	case DO_CLIENT_CLOSE:
		client_close(i);
		break;
	case DO_POLL:
		poll_device();
		if (n & TAKE_STREAM)
			take_stream(i);
		if (n & SWITCH_CHANNEL)
			switch_channel();
		break;
	case DO_BUFFERS:
		give_buffers(n % 64);
		break;
	case DO_PACKET:
		packet(in, false);
		break;
	case DO_HOSTILE_PACKET:
		packet(in, true);
		break;
	case DO_RAW_CHAIN:
		raw_chain(in);
		break;
	case DO_SAVE_AND_LOAD:
		save_and_load(in);
		break;
	case DO_RESTART:
		fake_start(&f, n & 1 ? FAKE_FEATURES : UINT64_C(1) << VIRTIO_F_VERSION_1,
			n & 2 ? 8 : 0);
		break;
	default:
		break;
	}
	take_packets();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct reader in = reader_of(data, size);

	log_set_level(LOG_LEVEL_ERROR);
	fake_init(&f);
	make_device();
	channel = -1;
	switch_channel();
	memset(ports, 0, sizeof(ports));
	for (unsigned i = 0; i < CLIENTS; i++)
		clients[i] = -1;
	fake_start(&f, FAKE_FEATURES, 0);
	give_buffers(16);
	while (reader_left(&in) && !in.bad)
		step(&in);
	for (unsigned i = 0; i < CLIENTS; i++)
		client_close(i);
	poll_device();
	if (channel >= 0)
		(void)close(channel); /* with all that waits in it */
	fake_done(&f);
	return 0;
}
