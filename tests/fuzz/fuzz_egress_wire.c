/* A stream's header, the answer to it, and datagrams: what the worker reads of a guest, and the
 * agent of a worker. What is read can be written again, and is the same; no byte behind it is
 * looked at, and with less of it more is asked for. */
#include "fuzz.h"

#include "proto/egress_wire.h"

/* Exactly these bytes: a sanitizer sees what is read behind them. */
static uint8_t *only(const uint8_t *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);

	check(copy);
	if (n)
		memcpy(copy, data, n);
	return copy;
}

static int get_open(const uint8_t *data, size_t n, struct buf *again)
{
	struct egress_open o;
	int r = egress_get_open(data, n, &o);

	if (r > 0) {
		check(r <= EGRESS_OPEN_MAX && strlen(o.name) <= EGRESS_NAME_MAX);
		check(o.kind == EGRESS_TCP || o.kind == EGRESS_UDP);
		check(egress_put_open(again, &o) == 0);
	}
	return r;
}

static int get_answer(const uint8_t *data, size_t n, struct buf *again)
{
	struct egress_answer a;
	int r = egress_get_answer(data, n, &a);

	if (r > 0) {
		check(r <= EGRESS_ANSWER_MAX && a.err >= 0);
		for (const char *c = a.reason; *c; c++)
			check(*c >= ' ' && *c <= '~');
		check(egress_put_answer(again, &a) == 0);
	}
	return r;
}

static int get_datagram(const uint8_t *data, size_t n, struct buf *again)
{
	struct egress_datagram d;
	int r = egress_get_datagram(data, n, &d);

	if (r > 0) {
		check(d.len <= EGRESS_DATAGRAM_MAX);
		check((const uint8_t *)d.data + d.len <= data + n);
		check(egress_put_datagram(again, &d) == 0);
	}
	return r;
}

static void look(int (*get)(const uint8_t *, size_t, struct buf *), const uint8_t *data, size_t n)
{
	struct buf again = BUF_INIT(1 << 17), twice = BUF_INIT(1 << 17);
	uint8_t *copy = only(data, n);
	int r = get(copy, n, &again);

	check(r <= (int)n);
	if (r > 0) {
		check(get(buf_head(&again), buf_len(&again), &twice) == (int)buf_len(&again));
		check(same(&again, &twice));
		for (size_t less = 0; less < (size_t)r; less += 1 + less / 8) {
			uint8_t *part = only(data, less);

			check(get(part, less, &twice) == 0);
			free(part);
		}
	}
	free(copy);
	buf_done(&again);
	buf_done(&twice);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	look(get_open, data, size);
	look(get_answer, data, size);
	look(get_datagram, data, size);
	return 0;
}
