/* A bare guest that opens streams to the host's egress port (docs/egress-protocol.md).
 *
 *	talks	one stream after the other, for ever: says a struct report, ends its direction, and
 *		expects "answer" and the end. What was refused is tried again
 *	many	as many as it gets, until one is refused; then says their number over the first */
#include "driver.h"
#include "proto/egress_wire.h"

enum {
	HEADER = sizeof(struct virtio_vsock_hdr),
	PAYLOAD = 256,
	BUFFER = 64 * 1024, /* what the host may send before we have taken it */
	FIRST_PORT = 7000,
	CALM = 1000 * 1000, /* cycles after a refusal */
};

struct packet {
	struct virtio_vsock_hdr h;
	uint8_t data[PAYLOAD];
} __attribute__((packed, aligned(16)));

/* Since the last report. */
struct report {
	uint32_t refused, reset; /* before and after it was open */
};

static struct device device;
static struct queue rx, tx, events;
static struct ring rx_ring, tx_ring, event_ring;
static struct packet rx_packets[QUEUE_SIZE], tx_packet, arrived;

static void send(uint32_t port, uint16_t op, uint32_t flags, const void *data, uint32_t n)
{
	uint16_t head;
	uint32_t len;

	tx_packet.h = (struct virtio_vsock_hdr){.src_cid = 3,
		.dst_cid = VIRTIO_VSOCK_CID_HOST,
		.src_port = port,
		.dst_port = EGRESS_PORT,
		.len = n,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.flags = flags,
		.buf_alloc = BUFFER};
	memcpy(tx_packet.data, data, n);
	(void)queue_add(&tx, &(struct segment){&tx_packet, HEADER + n, false}, 1);
	queue_notify(&tx);
	CHECK(queue_take(&tx, &head, &len));
}

static void offer(unsigned i)
{
	(void)queue_add(&rx, &(struct segment){&rx_packets[i], sizeof(rx_packets[i]), true}, 1);
}

/* Waits for the next packet, and leaves for the VMM all the time, which shows that it runs.
 * Descriptor i is packet i: each is offered again before the next is taken. */
static void take(void)
{
	uint32_t len, at;
	uint16_t head;

	while (rx.ring->used.idx == rx.seen)
		set_reg(&device, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
	CHECK(queue_take(&rx, &head, &len));
	at = head;
	memcpy(&arrived, &rx_packets[at], sizeof(arrived));
	rx.next_desc = head;
	offer(at);
	queue_notify(&rx);
	EQUAL(arrived.h.src_port, EGRESS_PORT);
}

/* The next packet of a connection. A reset of an earlier one may still come: the host ended it at
 * the moment when the guest did. */
static void take_for(uint32_t port)
{
	do
		take();
	while (arrived.h.op == VIRTIO_VSOCK_OP_RST && arrived.h.dst_port != port);
	EQUAL(arrived.h.dst_port, port);
}

static void open_vsock(void)
{
	device_open(&device, SLOT_VSOCK, 0);
	queue_open(&rx, &device, VIRTIO_VSOCK_RX_QUEUE, &rx_ring);
	queue_open(&tx, &device, VIRTIO_VSOCK_TX_QUEUE, &tx_ring);
	queue_open(&events, &device, VIRTIO_VSOCK_EVENT_QUEUE, &event_ring);
	tx_ring.avail.flags = rx_ring.avail.flags = VIRTQ_AVAIL_F_NO_INTERRUPT;
	device_start(&device);
	for (unsigned i = 0; i < QUEUE_SIZE; i++)
		offer(i);
	queue_notify(&rx);
}

/* False: refused. */
static bool connect(uint32_t port)
{
	send(port, VIRTIO_VSOCK_OP_REQUEST, 0, NULL, 0);
	take_for(port);
	CHECK(arrived.h.op == VIRTIO_VSOCK_OP_RESPONSE || arrived.h.op == VIRTIO_VSOCK_OP_RST);
	return arrived.h.op == VIRTIO_VSOCK_OP_RESPONSE;
}

/* False: reset before the answer's end. */
static bool take_answer(uint32_t port)
{
	static const char answer[] = "answer";
	uint32_t got = 0;

	for (;;) {
		take_for(port);
		if (arrived.h.op == VIRTIO_VSOCK_OP_RST)
			return false;
		if (arrived.h.op == VIRTIO_VSOCK_OP_SHUTDOWN)
			break;
		if (arrived.h.op != VIRTIO_VSOCK_OP_RW)
			continue;
		CHECK(got + arrived.h.len < sizeof(answer));
		CHECK(memcmp(arrived.data, answer + got, arrived.h.len) == 0);
		got += arrived.h.len;
	}
	EQUAL(got, sizeof(answer) - 1);
	return true;
}

static void talk(uint32_t port, struct report *r)
{
	if (!connect(port)) {
		r->refused++;
		for (uint64_t end = cycles() + CALM; cycles() < end;)
			cpu_relax();
		return;
	}
	send(port, VIRTIO_VSOCK_OP_RW, 0, r, sizeof(*r));
	send(port, VIRTIO_VSOCK_OP_SHUTDOWN, VIRTIO_VSOCK_SHUTDOWN_SEND, NULL, 0);
	*r = (struct report){0};
	if (take_answer(port))
		send(port, VIRTIO_VSOCK_OP_RST, 0, NULL, 0);
	else
		r->reset++;
}

static void talks(void)
{
	struct report r = {0};

	open_vsock();
	for (uint32_t port = FIRST_PORT;; port++)
		talk(port, &r);
}

static void many(void)
{
	uint32_t n = 0;

	open_vsock();
	while (connect(FIRST_PORT + n))
		n++;
	send(FIRST_PORT, VIRTIO_VSOCK_OP_RW, 0, &n, sizeof(n));
	for (;;)
		take();
}

const struct guest_test guest_tests[] = {
	{"talks", talks},
	{"many", many},
	{0},
};
