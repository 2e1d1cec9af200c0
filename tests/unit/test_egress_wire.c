/* The egress wire: what is put is got again, cut anywhere it waits for more, and nonsense is
 * refused. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/egress_wire.h"

static const struct egress_open open_sample = {
	.kind = EGRESS_TCP,
	.to = {{93, 184, 216, 34}, 443},
	.from = {{10, 77, 0, 2}, 40001},
	.pid = 4711,
	.name = "curl",
};

static void an_open_comes_back(void **state)
{
	struct buf b = BUF_INIT(EGRESS_OPEN_MAX);
	struct egress_open o;

	(void)state; /* none */
	assert_int_equal(egress_put_open(&b, &open_sample), 0);
	assert_int_equal(buf_len(&b), EGRESS_OPEN_HEADER + 4);
	for (size_t n = 0; n < buf_len(&b); n++)
		assert_int_equal(egress_get_open(buf_head(&b), n, &o), 0);
	assert_int_equal(egress_get_open(buf_head(&b), buf_len(&b), &o), buf_len(&b));
	assert_int_equal(o.kind, EGRESS_TCP);
	assert_memory_equal(o.to.address, open_sample.to.address, 4);
	assert_int_equal(o.to.port, 443);
	assert_memory_equal(o.from.address, open_sample.from.address, 4);
	assert_int_equal(o.from.port, 40001);
	assert_int_equal(o.pid, 4711);
	assert_string_equal(o.name, "curl");
	buf_done(&b);
}

static void bad_opens_are_refused(void **state)
{
	static const struct {
		size_t at;
		uint8_t value;
	} bad[] = {{0, 2}, {1, 0}, {1, 3}, {2, EGRESS_NAME_MAX + 1}, {2, 255}, {3, 1}, {21, 0}};
	struct buf b = BUF_INIT(EGRESS_OPEN_MAX);
	struct egress_open o = open_sample;
	uint8_t copy[EGRESS_OPEN_MAX];

	(void)state; /* none */
	assert_int_equal(egress_put_open(&b, &o), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		memcpy(copy, buf_head(&b), buf_len(&b));
		copy[bad[i].at] = bad[i].value;
		assert_int_equal(egress_get_open(copy, buf_len(&b), &o), -EBADMSG);
	}
	memset(o.name, 'x', sizeof(o.name));
	assert_int_equal(egress_put_open(&b, &o), -EINVAL);
	o.kind = 3;
	assert_int_equal(egress_put_open(&b, &o), -EINVAL);
	buf_done(&b);
}

static void an_answer_comes_back(void **state)
{
	static const struct egress_answer samples[] = {
		{.verdict = EGRESS_OK},
		{.verdict = EGRESS_WAITING},
		{.verdict = EGRESS_FAILED, .err = ETIMEDOUT},
		{.verdict = EGRESS_DENIED, .err = EACCES, .reason = "denyOut[0] 0.0.0.0/0"},
	};

	(void)state; /* none */
	for (size_t i = 0; i < sizeof(samples) / sizeof(samples[0]); i++) {
		struct buf b = BUF_INIT(EGRESS_ANSWER_MAX);
		struct egress_answer a;

		assert_int_equal(egress_put_answer(&b, &samples[i]), 0);
		for (size_t n = 0; n < buf_len(&b); n++)
			assert_int_equal(egress_get_answer(buf_head(&b), n, &a), 0);
		assert_int_equal(egress_get_answer(buf_head(&b), buf_len(&b), &a), buf_len(&b));
		assert_int_equal(a.verdict, samples[i].verdict);
		assert_int_equal(a.err, samples[i].err);
		assert_string_equal(a.reason, samples[i].reason);
		buf_done(&b);
	}
}

static void bad_answers_are_refused(void **state)
{
	static const struct egress_answer bad[] = {
		{.verdict = EGRESS_OK, .err = ETIMEDOUT},
		{.verdict = EGRESS_FAILED},
		{.verdict = EGRESS_FAILED, .err = ENOMEM},
		{.verdict = 4},
		{.verdict = EGRESS_DENIED, .err = EACCES, .reason = "a\nb"},
	};
	struct buf b = BUF_INIT(EGRESS_ANSWER_MAX);
	struct egress_answer a;
	uint8_t wire[EGRESS_ANSWER_HEADER] = {EGRESS_VERSION, EGRESS_OK};

	(void)state; /* none */
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(egress_put_answer(&b, &bad[i]), -EINVAL);
	assert_int_equal(buf_len(&b), 0);
	wire[1] = 4;
	assert_int_equal(egress_get_answer(wire, sizeof(wire), &a), -EBADMSG);
	wire[1] = EGRESS_OK;
	wire[4] = EGRESS_REASON_MAX + 1;
	assert_int_equal(egress_get_answer(wire, sizeof(wire), &a), -EBADMSG);
	wire[4] = 0;
	wire[7] = 1;
	assert_int_equal(egress_get_answer(wire, sizeof(wire), &a), -EBADMSG);
	buf_done(&b);
}

static void a_datagram_comes_back(void **state)
{
	static uint8_t data[EGRESS_DATAGRAM_MAX + 1];
	static const size_t sizes[] = {0, 1, 1400, EGRESS_DATAGRAM_MAX};
	struct egress_datagram d = {.guest = {{10, 77, 0, 2}, 5353},
				       .remote = {{8, 8, 8, 8}, 53},
				       .data = data},
			       got;
	struct buf b = BUF_INIT(EGRESS_DATAGRAM_HEADER + sizeof(data));

	(void)state; /* none */
	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		d.len = sizes[i];
		memset(data, (int)i + 1, sizeof(data));
		buf_clear(&b);
		assert_int_equal(egress_put_datagram(&b, &d), 0);
		assert_int_equal(egress_get_datagram(buf_head(&b), buf_len(&b) - 1, &got), 0);
		assert_int_equal(egress_get_datagram(buf_head(&b), buf_len(&b), &got), buf_len(&b));
		assert_int_equal(got.len, sizes[i]);
		assert_memory_equal(got.data, data, sizes[i]);
		assert_int_equal(got.guest.port, 5353);
		assert_int_equal(got.remote.port, 53);
	}
	d.len = sizeof(data);
	assert_int_equal(egress_put_datagram(&b, &d), -EINVAL);
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_open_comes_back),
		cmocka_unit_test(bad_opens_are_refused),
		cmocka_unit_test(an_answer_comes_back),
		cmocka_unit_test(bad_answers_are_refused),
		cmocka_unit_test(a_datagram_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
