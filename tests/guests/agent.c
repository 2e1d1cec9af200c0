/* A bare guest that speaks the agent's protocol (docs/agent-protocol.md) well enough for the
 * daemon: identity, metrics, hold, and commands. So whole sandboxes run at full speed on hosts
 * where a guest's kernel would not get through its boot.
 *
 * A command prints "ok" and ends. One whose text contains "make noise: WORD" does what the table
 * `noises` says under that word, most of them for ever: a neighbour that nobody wants.
 *
 * A command with the flag BRIEF is the program of a hosted agent (invoked.h). One waits
 * already, for whoever attaches first. */
#include "driver.h"
#include "invoked.h"
#include "proto/agent_wire.h"
#include "proto/egress_wire.h"

enum {
	VECTOR = 0x50,
	VSOCK_PIN = SLOT_GSI + SLOT_VSOCK,
	CONNECTIONS = 64,
	HEADER = sizeof(struct virtio_vsock_hdr),
	PACKET = 4096,	    /* of payload */
	BUFFER = 64 * 1024, /* what the host may send before we have taken it */
	REPLY = 1024,
	COMMAND_PID = 100,
	PROGRAM_PID = 101,
	NOISE_BYTES = 32 * 1024 * 1024,
	MIB = 1024 * 1024,
};

struct packet {
	struct virtio_vsock_hdr h;
	uint8_t data[PACKET];
} __attribute__((packed, aligned(16)));

/* All zero: free. Small: a search passes them all, and the first touch of each page is dear in a
 * guest that was just restored. */
struct connection {
	uint32_t port;	/* the host's */
	uint32_t taken; /* bytes since the beginning */
	uint32_t told;	/* of them the host knows that they were taken */
	uint32_t have;	/* of the input */
};

/* A reply while it is written. */
struct reply {
	uint8_t bytes[REPLY];
	uint32_t n;
};

static struct device device;
static struct queue rx, tx, events;
static struct ring rx_ring, tx_ring, event_ring, disk_ring;
static struct packet rx_packets[QUEUE_SIZE], tx_packet;
static struct connection connections[CONNECTIONS], nobody; /* the latter: for packets of none */
static uint8_t inputs[CONNECTIONS][AGENT_HEADER_BYTES + AGENT_PAYLOAD_MAX]; /* frames that arrive */
static uint32_t own_port = AGENT_PORT;
static struct connection *invoker;   /* whose program runs */
static bool waits = true;	     /* the program has not been attached to */
static struct virtio_vsock_hdr last; /* that arrived: says whom we talk to, and who we are */

/* --- packets --- */

static void send_packet(struct connection *c, uint16_t op, const void *data, uint32_t n)
{
	uint16_t head;
	uint32_t len;

	c->told = c->taken;
	tx_packet.h = (struct virtio_vsock_hdr){.src_cid = last.dst_cid,
		.dst_cid = last.src_cid,
		.src_port = own_port,
		.dst_port = c->port,
		.len = n,
		.type = VIRTIO_VSOCK_TYPE_STREAM,
		.op = op,
		.buf_alloc = BUFFER,
		.fwd_cnt = c->taken};
	memcpy(tx_packet.data, data, n);
	(void)queue_add(&tx, &(struct segment){&tx_packet, HEADER + n, false}, 1);
	queue_notify(&tx);
	while (!queue_take(&tx, &head, &len))
		;
}

static void send_frame(struct connection *c, uint8_t type, const void *payload, uint32_t n)
{
	uint8_t frame[AGENT_HEADER_BYTES + REPLY] = {type};

	memcpy(frame + 4, &n, sizeof(n));
	memcpy(frame + AGENT_HEADER_BYTES, payload, n);
	send_packet(c, VIRTIO_VSOCK_OP_RW, frame, AGENT_HEADER_BYTES + n);
}

static struct connection *find(uint32_t port)
{
	for (unsigned i = 0; i < CONNECTIONS; i++)
		if (connections[i].port == port)
			return &connections[i];
	return NULL;
}

/* Of a new connection. When all places are taken, by those that a snapshot cut off, one of them
 * gives way. */
static struct connection *take_place(uint32_t port)
{
	static unsigned next;
	struct connection *c = find(port);

	if (!c)
		c = find(0);
	if (!c)
		c = &connections[next++ % CONNECTIONS];
	c->port = port;
	c->taken = c->told = c->have = 0;
	return c;
}

/* --- replies --- */

static void add(struct reply *r, const void *p, uint32_t n)
{
	CHECK(r->n + n <= REPLY);
	memcpy(r->bytes + r->n, p, n);
	r->n += n;
}

static void add16(struct reply *r, uint16_t v)
{
	add(r, &v, sizeof(v));
}

static void add32(struct reply *r, uint32_t v)
{
	add(r, &v, sizeof(v));
}

static void add64(struct reply *r, uint64_t v)
{
	add(r, &v, sizeof(v));
}

static void add_string(struct reply *r, const char *s)
{
	add32(r, (uint32_t)strlen(s));
	add(r, s, (uint32_t)strlen(s) + 1);
}

static void send_reply(struct connection *c, uint8_t type, const struct reply *r)
{
	send_frame(c, type, r->bytes, r->n);
}

static void say_hello(struct connection *c)
{
	struct reply r = {.n = 0};

	for (unsigned i = 0; i < 3; i++)
		add16(&r, AGENT_PROTOCOL_VERSION);
	add16(&r, AGENT_STATE_READY);
	add32(&r, AGENT_FACT_SHELL | AGENT_FACT_ROOT_OVERLAY | AGENT_FACT_HOST_CLOCK);
	add64(&r, 0);
	add_string(&r, "bare");
	add_string(&r, "");
	add_string(&r, "ext4");
	add_string(&r, "");
	send_reply(c, AGENT_HELLO_REPLY, &r);
}

static void take_identity(struct connection *c, const uint8_t *payload, uint32_t n)
{
	struct reply r = {.n = 0};
	uint32_t fields;

	memcpy(&fields, payload, sizeof(fields));
	invoked_identity(payload, n);
	add32(&r, fields);
	for (unsigned i = 0; i <= AGENT_ID_FIELDS; i++)
		add32(&r, 0); /* no failure */
	send_reply(c, AGENT_IDENTITY_REPLY, &r);
}

static void send_metrics(struct connection *c)
{
	struct reply r = {.n = 0};

	add64(&r, cycles());
	add64(&r, 0);
	add32(&r, 1);
	add32(&r, 1);
	add32(&r, 0);
	for (unsigned i = 0; i < 5; i++)
		add64(&r, 0); /* times */
	for (unsigned i = 0; i < 7; i++)
		add64(&r, 64 * MIB); /* memory and disk */
	send_reply(c, AGENT_METRICS, &r);
}

static void refuse(struct connection *c, uint16_t type, uint16_t class)
{
	struct reply r = {.n = 0};

	add16(&r, class);
	add16(&r, type);
	add32(&r, 0);
	add_string(&r, "a bare guest has no such thing");
	send_reply(c, AGENT_ERROR, &r);
}

/* --- noises --- */

/* For some seconds. */
static void noise_burst(struct connection *c)
{
	for (uint64_t end = cycles() + 12000000000; cycles() < end;)
		cpu_relax();
}

static void noise_spin(struct connection *c)
{
	for (;;)
		cpu_relax();
}

/* Each page of much memory, again and again. */
static void noise_memory(struct connection *c)
{
	volatile uint8_t *at = (volatile uint8_t *)(uint64_t)(24 * MIB);

	for (uint32_t i = 0;; i = (i + 4096) % NOISE_BYTES)
		at[i]++;
}

static void noise_console(struct connection *c)
{
	for (;;)
		print("a line of the flood, which is not short: %u\n", cycles());
}

static void noise_agent(struct connection *c)
{
	static const uint8_t text[512];

	for (;;)
		send_frame(c, AGENT_STDOUT, text, sizeof(text));
}

/* Packets of connections that do not exist. */
static void noise_vsock(struct connection *c)
{
	for (;; nobody.port++)
		send_packet(&nobody, VIRTIO_VSOCK_OP_RW, "x", 1);
}

/* Opens a stream to the host's egress port and says hello. */
static void noise_flow(struct connection *c)
{
	static uint32_t next = 5000;
	static struct connection egress = {.port = EGRESS_PORT};

	own_port = next++;
	send_packet(&egress, VIRTIO_VSOCK_OP_REQUEST, NULL, 0);
	send_packet(&egress, VIRTIO_VSOCK_OP_RW, "hello", 5);
	own_port = AGENT_PORT;
}

/* The same, in a command that goes on. */
static void noise_program(struct connection *c)
{
	noise_flow(c);
	for (;;)
		;
}

static void fill_disk(struct block *b, uint64_t sectors, uint32_t type)
{
	static uint8_t data[PACKET];
	struct {
		uint64_t sector;
		uint32_t count, flags;
	} range = {.count = 8};

	for (uint64_t s = 0; s + 8 <= sectors; s += 8) {
		data[0]++;
		range.sector = s;
		(void)block_request(
			b, VIRTIO_BLK_T_OUT, s, data, sizeof(data)); /* may be refused */
		if (type == VIRTIO_BLK_T_DISCARD)
			(void)block_request(b, type, 0, &range, sizeof(range)); /* as above */
	}
}

static void noise_disk(struct connection *c)
{
	struct block b;

	block_open(&b, SLOT_DISK, 0, &disk_ring);
	for (;;)
		fill_disk(&b, block_capacity(&b), VIRTIO_BLK_T_OUT);
}

static void noise_discard(struct connection *c)
{
	struct block b;

	block_open(&b, SLOT_DISK, UINT64_C(1) << VIRTIO_BLK_F_DISCARD, &disk_ring);
	for (;;)
		fill_disk(&b, block_capacity(&b), VIRTIO_BLK_T_DISCARD);
}

static const struct noise {
	const char *name;
	void (*make)(struct connection *c);
} noises[] = {
	{"burst", noise_burst},
	{"spin", noise_spin},
	{"memory", noise_memory},
	{"console", noise_console},
	{"agent", noise_agent},
	{"vsock", noise_vsock},
	{"flow", noise_flow},
	{"program", noise_program},
	{"disk", noise_disk},
	{"discard", noise_discard},
};

static const struct noise *find_noise(const uint8_t *text, uint32_t n)
{
	static const char mark[] = "make noise: ";

	for (uint32_t i = 0; i + sizeof(mark) + 8 < n; i++)
		if (memcmp(text + i, mark, sizeof(mark) - 1) == 0)
			for (unsigned k = 0; k < ARRAY_SIZE(noises); k++)
				if (memcmp(text + i + sizeof(mark) - 1, noises[k].name,
					    strlen(noises[k].name)) == 0)
					return &noises[k];
	return NULL;
}

static void send_exit(struct connection *c)
{
	struct reply exit = {.n = 0};

	for (unsigned i = 0; i < 4; i++)
		add64(&exit, 0); /* flags, status and what it used */
	send_reply(c, AGENT_EXIT, &exit);
}

/* --- the program of a hosted agent --- */

static void start_program(struct connection *c)
{
	uint32_t pid = PROGRAM_PID;

	invoker = c;
	waits = false;
	send_frame(c, AGENT_STARTED, &pid, sizeof(pid));
}

static void feed_program(struct connection *c, const uint8_t *payload, uint32_t n)
{
	if (c != invoker)
		return;
	invoked_input(payload, n);
	send_frame(c, AGENT_WINDOW, &n, sizeof(n));
}

static void print_of_program(void *arg, const void *data, uint32_t n)
{
	const uint8_t *p = data;

	for (uint32_t at = 0; at < n; at += REPLY)
		send_frame(arg, AGENT_STDOUT, p + at, n - at < REPLY ? n - at : REPLY);
}

static void end_input(struct connection *c)
{
	if (c == invoker && invoked_run(print_of_program, c)) {
		invoker = NULL;
		send_exit(c);
	}
}

/* --- commands --- */

static void run_command(struct connection *c, const uint8_t *payload, uint32_t n)
{
	const struct noise *noise = find_noise(payload, n);
	uint32_t pid = COMMAND_PID, flags;

	memcpy(&flags, payload, sizeof(flags));
	if (flags & AGENT_EXEC_BRIEF) {
		start_program(c);
		return;
	}
	send_frame(c, AGENT_STARTED, &pid, sizeof(pid));
	if (noise)
		noise->make(c);
	if (flags & AGENT_EXEC_DETACHED)
		return;
	(void)queue_ask(&tx); /* an interrupt that a vCPU's own thread raises (test_filters) */
	send_frame(c, AGENT_STDOUT, "ok\n", 3);
	send_exit(c);
}

/* --- requests --- */

static void serve(struct connection *c, uint8_t type, const uint8_t *payload, uint32_t n)
{
	switch (type) {
	case AGENT_HELLO:
		say_hello(c);
		break;
	case AGENT_IDENTITY:
		take_identity(c, payload, n);
		break;
	case AGENT_GET_METRICS:
		send_metrics(c);
		break;
	case AGENT_SYNC:
	case AGENT_FREEZE:
	case AGENT_HOLD:
	case AGENT_RELEASE:
		send_frame(c, AGENT_OK, NULL, 0);
		break;
	case AGENT_SHUTDOWN:
		power_off(GUEST_PASSED);
	case AGENT_EXEC:
		run_command(c, payload, n);
		break;
	case AGENT_ATTACH:
		if (waits)
			start_program(c);
		else
			refuse(c, type, AGENT_ERR_NOT_FOUND);
		break;
	case AGENT_STDIN:
		feed_program(c, payload, n);
		break;
	case AGENT_STDIN_EOF:
		end_input(c);
		break;
	case AGENT_LIST_PROCESSES:
	case AGENT_LIST_TASKS:
	case AGENT_TREE:
		send_frame(c, AGENT_END, NULL, 0);
		break;
	case AGENT_SIGNAL ... AGENT_STOP:
	case AGENT_DATA:
	case AGENT_END:
		break; /* of a stream that has ended */
	default:
		refuse(c, type, type == AGENT_STAT ? AGENT_ERR_NOT_FOUND : AGENT_ERR_UNSUPPORTED);
	}
}

static uint8_t *input_of(const struct connection *c)
{
	return inputs[c - connections];
}

/* Serves the whole frames of the input. */
static void take_frames(struct connection *c)
{
	uint8_t *input = input_of(c);
	uint32_t n, at = 0;

	while (c->have - at >= AGENT_HEADER_BYTES) {
		memcpy(&n, input + at + 4, sizeof(n));
		CHECK(n <= AGENT_PAYLOAD_MAX);
		if (c->have - at < AGENT_HEADER_BYTES + n)
			break;
		serve(c, input[at], input + at + AGENT_HEADER_BYTES, n);
		at += AGENT_HEADER_BYTES + n;
	}
	for (uint32_t i = at; i < c->have; i++)
		input[i - at] = input[i];
	c->have -= at;
}

static void take_bytes(struct connection *c, const uint8_t *p, uint32_t n)
{
	c->taken += n;
	CHECK(c->have + n <= sizeof(inputs[0]));
	memcpy(input_of(c) + c->have, p, n);
	c->have += n;
	take_frames(c);
	if (c->port && c->taken - c->told >= BUFFER / 2)
		send_packet(c, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
}

static void take_packet(const struct packet *p)
{
	struct connection *c = find(p->h.src_port);

	last = p->h;
	nobody.port = p->h.src_port;
	switch (p->h.op) {
	case VIRTIO_VSOCK_OP_REQUEST:
		send_packet(take_place(p->h.src_port), VIRTIO_VSOCK_OP_RESPONSE, NULL, 0);
		break;
	case VIRTIO_VSOCK_OP_RW:
		if (c)
			take_bytes(c, p->data, p->h.len);
		else
			send_packet(&nobody, VIRTIO_VSOCK_OP_RST, NULL, 0);
		break;
	case VIRTIO_VSOCK_OP_SHUTDOWN:
		send_packet(&nobody, VIRTIO_VSOCK_OP_RST, NULL, 0);
		if (c)
			c->port = 0;
		break;
	case VIRTIO_VSOCK_OP_RST:
		if (c)
			c->port = 0;
		break;
	case VIRTIO_VSOCK_OP_CREDIT_REQUEST:
		if (c)
			send_packet(c, VIRTIO_VSOCK_OP_CREDIT_UPDATE, NULL, 0);
		break;
	}
}

/* --- the loop --- */

static void offer(unsigned i)
{
	(void)queue_add(&rx, &(struct segment){&rx_packets[i], sizeof(rx_packets[i]), true}, 1);
}

static void open_vsock(void)
{
	apic_enable();
	ioapic_write(VSOCK_PIN, VECTOR);
	device_open(&device, SLOT_VSOCK, UINT64_C(1) << VIRTIO_F_RING_EVENT_IDX);
	queue_open(&rx, &device, VIRTIO_VSOCK_RX_QUEUE, &rx_ring);
	queue_open(&tx, &device, VIRTIO_VSOCK_TX_QUEUE, &tx_ring);
	queue_open(&events, &device, VIRTIO_VSOCK_EVENT_QUEUE, &event_ring);
	device_start(&device);
	for (unsigned i = 0; i < QUEUE_SIZE; i++)
		offer(i);
	queue_notify(&rx);
}

/* Serves what has arrived. Descriptor i is packet i: each is offered again before the next is
 * taken. */
static bool serve_arrived(void)
{
	uint16_t head, from = rx_ring.avail.idx;
	uint32_t len, at;

	if (rx_ring.used.idx == rx.seen)
		return false;
	CHECK(queue_take(&rx, &head, &len));
	at = head;
	take_packet(&rx_packets[at]);
	rx.next_desc = head;
	offer(at);
	queue_kick(&rx, from);
	return true;
}

/* Exits to the host are dear, so there are as few as Linux's driver has: it notifies, and is
 * interrupted, only where one side would else wait. */
static void run_agent(void)
{
	open_vsock();
	print("ready\n");
	for (;;) {
		uint32_t seen = interrupt_count[VECTOR];

		set_reg(&device, VIRTIO_MMIO_INTERRUPT_ACK, VIRTIO_MMIO_INT_VRING);
		while (serve_arrived())
			;
		if (queue_ask(&rx))
			interrupt_wait(VECTOR, seen);
	}
}

const struct guest_test guest_tests[] = {
	{"*", run_agent},
	{0},
};
