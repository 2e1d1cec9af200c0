/* Fuzzes both receiving ends of the agent's protocol. The first byte says how the rest, a byte
 * stream, is cut into pieces. Invariants: a decoded message can be encoded again and is then the
 * same bytes; the host's client hands out only events that its contract names, and ends. */
#include <assert.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/agent_wire.h"
#include "sandbox/agent_client.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

union message {
	uint64_t align;
	uint8_t bytes[512];
};

static void check_message(const struct agent_frame *f)
{
	struct buf b = BUF_INIT(2 * AGENT_MESSAGE_MAX);
	union message m;
	struct agent_rx rx;
	struct agent_frame again;

	if (agent_decode(f->type, f->payload, f->length, &m) < 0)
		return;
	assert(agent_encode(&b, f->type, &m) == 0);
	agent_rx_init(&rx);
	for (size_t n; buf_len(&b); buf_consume(&b, n)) {
		uint8_t *to = agent_rx_space(&rx, &n);

		assert(to);
		n = n < buf_len(&b) ? n : buf_len(&b);
		memcpy(to, buf_head(&b), n);
		agent_rx_received(&rx, n);
		if (n == buf_len(&b))
			break;
		assert(agent_rx_next(&rx, &again) == 0);
	}
	assert(agent_rx_next(&rx, &again) == 1 && again.length == f->length);
	assert(memcmp(again.payload, f->payload, f->length) == 0);
	agent_rx_done(&rx);
	buf_done(&b);
}

static void run_receiver(size_t step, const uint8_t *data, size_t size)
{
	struct agent_frame f;
	struct agent_rx rx;
	int r = 0;

	agent_rx_init(&rx);
	while (size && r == 0) {
		size_t room, n = step < size ? step : size;
		uint8_t *to = agent_rx_space(&rx, &room);

		assert(to);
		n = n < room ? n : room;
		memcpy(to, data, n);
		agent_rx_received(&rx, n);
		data += n;
		size -= n;
		for (bool again = n % 2; (r = agent_rx_next(&rx, &f)) == 1; again = !again) {
			check_message(&f);
			if (again)
				agent_rx_unread(&rx);
		}
	}
	agent_rx_done(&rx);
}

static int take_events(struct agent_conn *c)
{
	struct agent_event ev;
	struct error e = {0};
	int r;

	while ((r = agent_next_event(c, &ev, &e)) == 1)
		if (ev.type == AGENT_ERROR)
			assert(agent_event_error(&ev, &e) < 0);
	assert(r == 0 || e.code != ERROR_NONE);
	return r;
}

static void run_client(size_t step, const uint8_t *data, size_t size)
{
	static const char *const argv[] = {"cat"};
	struct agent_exec x = {.flags = AGENT_EXEC_STDIN, .argv = {.array = argv, .count = 1}};
	struct agent_conn *c;

	if (agent_open(-1, step % 3 ? 0 : AGENT_OPEN_PREAMBLE, &c, NULL) < 0)
		return;
	assert(agent_exec_start(c, &x, NULL) == 0);
	assert(agent_send_stdin(c, data, size) >= 0);
	while (size) {
		size_t n = step < size ? step : size;

		assert(agent_feed(c, data, n) == 0);
		data += n;
		size -= n;
		if (take_events(c) < 0)
			break;
		assert(agent_stdin_room(c) <= AGENT_STDIN_WINDOW);
	}
	agent_feed_eof(c);
	assert(take_events(c) < 0);
	agent_close(c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t step;

	if (size < 1)
		return 0;
	step = data[0] < 250 ? (size_t)data[0] + 1 : 65000;
	run_receiver(step, data + 1, size - 1);
	run_client(step, data + 1, size - 1);
	return 0;
}
