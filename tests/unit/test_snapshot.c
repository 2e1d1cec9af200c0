/* The state file of snapshots: what is written is read back, and nothing else is accepted. */
#include "test.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/crc32c.h"
#include "proto/snapshot.h"

static void write_sample(struct snapshot_writer *w)
{
	snapshot_writer_init(w);
	w->err |= buf_add_le64(snapshot_section(w, SNAPSHOT_CLOCK, 0), 42);
	w->err |= buf_add(snapshot_section(w, SNAPSHOT_DEVICE, 1), "abc", 3);
	(void)snapshot_section(w, SNAPSHOT_DEVICE, 2); /* empty */
	assert_int_equal(snapshot_writer_finish(w), 0);
}

static void fix_checksum(uint8_t *p, size_t n)
{
	put_le32(p + 24, crc32c(0, p + 32, n - 32));
}

static void test_round_trip(void **state)
{
	struct snapshot_writer w;
	struct snapshot_reader r;
	struct error e = {0};
	struct reader in;

	(void)state; /* none */
	write_sample(&w);
	assert_int_equal(snapshot_reader_open(&r, buf_head(&w.bytes), buf_len(&w.bytes), &e), 0);
	in = snapshot_find(&r, SNAPSHOT_CLOCK, 0);
	assert_int_equal(reader_le64(&in), 42);
	assert_true(reader_finished(&in));
	in = snapshot_find(&r, SNAPSHOT_DEVICE, 1);
	assert_memory_equal(reader_bytes(&in, 3), "abc", 3);
	assert_true(reader_finished(&in));
	in = snapshot_find(&r, SNAPSHOT_DEVICE, 2);
	assert_true(reader_finished(&in));
	in = snapshot_find(&r, SNAPSHOT_DEVICE, 3);
	assert_false(reader_finished(&in));
	snapshot_writer_done(&w);
}

static int open_copy(const uint8_t *data, size_t n, enum error_code *ret_code)
{
	uint8_t *exact = malloc(n ? n : 1); /* a sanitizer sees reads past its end */
	struct snapshot_reader r;
	struct error e = {0};
	int result;

	memcpy(exact, data, n);
	result = snapshot_reader_open(&r, exact, n, &e);
	free(exact);
	*ret_code = e.code;
	return result;
}

static void test_truncated_anywhere(void **state)
{
	struct snapshot_writer w;
	enum error_code code;

	(void)state; /* none */
	write_sample(&w);
	for (size_t n = 0; n < buf_len(&w.bytes); n++) {
		assert_true(open_copy(buf_head(&w.bytes), n, &code) < 0);
		assert_int_equal(code, ERROR_BAD_SNAPSHOT);
	}
	snapshot_writer_done(&w);
}

static void test_every_bit_flipped(void **state)
{
	struct snapshot_writer w;
	enum error_code code;

	(void)state; /* none */
	write_sample(&w);
	for (size_t bit = 0; bit < buf_len(&w.bytes) * 8; bit++) {
		w.bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_true(open_copy(w.bytes.data, buf_len(&w.bytes), &code) < 0);
		assert_true(code == ERROR_BAD_SNAPSHOT || code == ERROR_INCOMPATIBLE);
		w.bytes.data[bit / 8] ^= (uint8_t)(1 << bit % 8);
	}
	snapshot_writer_done(&w);
}

/* Somebody who fixes the checksum gets sections inside of the file or an error. */
static void test_every_byte_changed_with_right_checksum(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x7f, 0x80, 0xff};
	struct snapshot_writer w;
	enum error_code code;

	(void)state; /* none */
	write_sample(&w);
	for (size_t i = 8; i < buf_len(&w.bytes); i++)
		for (size_t v = 0; v < sizeof(values); v++) {
			uint8_t old = w.bytes.data[i];

			w.bytes.data[i] = values[v];
			fix_checksum(w.bytes.data, buf_len(&w.bytes));
			(void)open_copy(w.bytes.data, buf_len(&w.bytes), &code); /* no crash */
			w.bytes.data[i] = old;
		}
	snapshot_writer_done(&w);
}

static void test_other_version(void **state)
{
	struct snapshot_writer w;
	enum error_code code;

	(void)state; /* none */
	write_sample(&w);
	put_le32(w.bytes.data + 8, SNAPSHOT_VERSION + 1);
	assert_true(open_copy(w.bytes.data, buf_len(&w.bytes), &code) < 0);
	assert_int_equal(code, ERROR_INCOMPATIBLE);
	snapshot_writer_done(&w);
}

static void test_too_many_sections(void **state)
{
	struct snapshot_writer w;
	enum error_code code;

	(void)state; /* none */
	snapshot_writer_init(&w);
	for (uint32_t i = 0; i < SNAPSHOT_SECTIONS_MAX + 1; i++)
		(void)snapshot_section(&w, SNAPSHOT_DEVICE, i); /* empty */
	assert_int_equal(snapshot_writer_finish(&w), 0);
	assert_true(open_copy(w.bytes.data, buf_len(&w.bytes), &code) < 0);
	assert_int_equal(code, ERROR_BAD_SNAPSHOT);
	snapshot_writer_done(&w);
}

static void test_writer_is_bounded(void **state)
{
	static uint8_t block[65536];
	struct snapshot_writer w;
	struct buf *b;

	(void)state; /* none */
	snapshot_writer_init(&w);
	b = snapshot_section(&w, SNAPSHOT_DEVICE, 0);
	for (unsigned i = 0; i < 32; i++)
		w.err |= buf_add(b, block, sizeof(block));
	assert_true(snapshot_writer_finish(&w) < 0);
	snapshot_writer_done(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_round_trip),
		cmocka_unit_test(test_truncated_anywhere),
		cmocka_unit_test(test_every_bit_flipped),
		cmocka_unit_test(test_every_byte_changed_with_right_checksum),
		cmocka_unit_test(test_other_version),
		cmocka_unit_test(test_too_many_sections),
		cmocka_unit_test(test_writer_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
