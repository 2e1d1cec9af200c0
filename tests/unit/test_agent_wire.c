#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "proto/agent_wire.h"

static const char *const words[] = {"one", "", "three"};
static const char *const env[] = {"A=b", "LONG_NAME=with = signs", "E="};
static const char *const pairs[] = {"user.a", "v", "user.b", ""};

#define ARRAY(a)                                                                                   \
	{                                                                                          \
		.array = (a), .count = ARRAY_SIZE(a)                                               \
	}

/* One value of every message, no field left at zero. */
static const struct agent_hello hello = {1, 7};
static const struct agent_hello_reply hello_reply = {
	1, 1, 2, AGENT_STATE_READY, 5, 1ULL << 40, "0.1.0", "boot-id", "ext4", "a problem"};
static const struct agent_identity identity = {AGENT_ID_CLOCK, 1700000000123456789,
	(const uint8_t *)"entropy", 7, "host", "0123", ARRAY(env), "user", "/work", 1ULL << 33};
static const struct agent_identity_reply identity_reply = {3, 2, {1, 2, 3, 4, 5, 6, 7, 8}};
static const struct agent_sync sync_ = {3};
static const struct agent_hold hold = {30000};
static const struct agent_shutdown shutdown_ = {1, 5000};
static const struct agent_metrics metrics = {
	1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
static const struct agent_exec exec_ = {
	7, 80, 24, 60000, "user", "/tmp", "tag", ARRAY(words), ARRAY(env)};
static const struct agent_attach attach = {{42, "tag"}};
static const struct agent_signal_process signal_process = {{42, "tag"}, 15, 1};
static const struct agent_input input = {{42, "tag"}, 1, (const uint8_t *)"a\0b", 3};
static const struct agent_close_input close_input = {{42, "tag"}};
static const struct agent_resize_process resize_process = {{42, "tag"}, 132, 43};
static const struct agent_signal signal_ = {9, 1};
static const struct agent_resize resize = {132, 43};
static const struct agent_started started = {4711};
static const struct agent_window window = {65536};
static const struct agent_exit exit_ = {1, 9, 1000001, 2000002, 1ULL << 35};
static const struct agent_process process = {
	42, 1, 1700000000ULL << 20, (const uint8_t *)"x\0y", 3};
static const struct agent_stat stat_ = {3, "user", "/path"};
static const struct agent_list list = {2, 3, "user", "/path"};
static const struct agent_read read_ = {1, 1ULL << 40, UINT64_MAX, "user", "/path"};
static const struct agent_write write_ = {1, 0644, 1ULL << 40, "user", "/path"};
static const struct agent_mkdir mkdir_ = {1, 0755, "user", "/path"};
static const struct agent_move move = {1, "user", "/from", "/to"};
static const struct agent_remove remove_ = {1, "user", "/path"};
static const struct agent_set_attr set_attr = {3, 0600, -1500000000, "a:b", "user", "/path"};
static const struct agent_set_xattrs set_xattrs = {1, "user.e2b.", "user", "/path", ARRAY(pairs)};
static const struct agent_entry entry = {0120777, 0100644, 1000, 1001, 1ULL << 40, -1, "/path",
	"owner", "group", "target", "/resolved", ARRAY(pairs)};
static const struct agent_watch watch = {1, "user", "/path"};
static const struct agent_watch_event watch_event = {4, "sub/name", (const uint8_t *)"e", 1};
static const struct agent_tree tree = {1, "user", "/path"};
static const struct agent_node node = {
	0120777, 1000, 1001, 1ULL << 33, 0x801, 1ULL << 40, -1, -2, "/path", "target"};
static const struct agent_task task = {42, 1, 1ULL << 40, "sleep 1000"};
static const struct agent_program program = {1, 42, 41, 1000, 256, (const uint8_t *)"a\0b", 4};
static const char *const outside[] = {"/home/user/project", "/tmp"};
static const struct agent_trace_files trace_files = {ARRAY(outside)};
static const struct agent_file file = {1, 42, 0, "/etc/passwd"};
static const struct agent_dial dial = {8080, "127.0.0.1"};
static const struct agent_error error = {7, 0x10, 2, "not found"};

#define exec	 exec_
#define sync	 sync_
#define shutdown shutdown_
#define signal	 signal_
#define exit	 exit_
#define stat	 stat_
#define read	 read_
#define write	 write_
#define mkdir	 mkdir_
#define remove	 remove_
static const struct sample {
	const char *name;
	enum agent_type type;
	const void *message;
	size_t bytes;
} samples[] = {
#define SAMPLE(name, type) {#name, type, &name, sizeof(name)},
	AGENT_MESSAGES(SAMPLE)
#undef SAMPLE
};
#undef exec
#undef sync
#undef shutdown
#undef signal
#undef exit
#undef stat
#undef read
#undef write
#undef mkdir
#undef remove

union message {
	uint64_t align;
	uint8_t bytes[512];
};

/* Payload of a sample in a block of its own size, so that the sanitizers see a byte too far. */
static uint8_t *payload_of(const struct sample *s, size_t *n)
{
	struct buf b = BUF_INIT(1 << 20);
	uint8_t *p;

	assert_int_equal(agent_encode(&b, s->type, s->message), 0);
	*n = buf_len(&b) - AGENT_HEADER_BYTES;
	assert_int_equal(get_le32(buf_head(&b) + 4), *n);
	p = malloc(*n + 1);
	assert_non_null(p);
	memcpy(p, buf_head(&b) + AGENT_HEADER_BYTES, *n);
	buf_done(&b);
	return realloc(p, *n ? *n : 1);
}

static void every_message_comes_back(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		struct buf again = BUF_INIT(1 << 20);
		union message m;
		size_t n;
		uint8_t *p = payload_of(&samples[i], &n);

		assert_true(samples[i].bytes <= sizeof(m));
		memset(&m, 0xee, sizeof(m));
		assert_int_equal(agent_decode(samples[i].type, p, n, &m), 0);
		/* What was decoded says the same as what was encoded. */
		assert_int_equal(agent_encode(&again, samples[i].type, &m), 0);
		assert_int_equal(buf_len(&again), n + AGENT_HEADER_BYTES);
		assert_memory_equal(buf_head(&again) + AGENT_HEADER_BYTES, p, n);
		assert_string_not_equal(agent_type_name(samples[i].type), "unknown");
		buf_done(&again);
		free(p);
	}
}

static void fields_come_back(void **state)
{
	struct agent_exec x;
	const char *s;
	size_t pos = 0, n;
	uint8_t *p;

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		if (samples[i].type != AGENT_EXEC)
			continue;
		p = payload_of(&samples[i], &n);
		assert_int_equal(agent_exec_decode(p, n, &x), 0);
		assert_int_equal(x.flags, 7);
		assert_int_equal(x.cols, 80);
		assert_int_equal(x.timeout_ms, 60000);
		assert_string_equal(x.cwd, "/tmp");
		assert_int_equal(x.argv.count, 3);
		for (size_t k = 0; k < 3; k++) {
			assert_true(agent_strings_next(&x.argv, &pos, &s));
			assert_string_equal(s, words[k]);
		}
		assert_false(agent_strings_next(&x.argv, &pos, &s));
		free(p);
	}
}

static void truncated_is_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		size_t n;
		uint8_t *p = payload_of(&samples[i], &n);

		for (size_t cut = 0; cut < n; cut++) {
			uint8_t *part = malloc(cut ? cut : 1);
			union message m;

			memcpy(part, p, cut);
			assert_int_equal(agent_decode(samples[i].type, part, cut, &m), -EBADMSG);
			free(part);
		}
		free(p);
	}
}

static void extended_is_refused(void **state)
{
	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		union message m;
		size_t n;
		uint8_t *p = payload_of(&samples[i], &n);

		p = realloc(p, n + 1);
		p[n] = 0;
		assert_int_equal(agent_decode(samples[i].type, p, n + 1, &m), -EBADMSG);
		free(p);
	}
}

/* No change of a byte leads out of bounds, and what is accepted can be encoded again. */
static void changed_is_refused_or_sane(void **state)
{
	static const uint8_t values[] = {0x00, 0x01, 0x3d, 0x7f, 0x80, 0xff};

	for (size_t i = 0; i < ARRAY_SIZE(samples); i++) {
		size_t n;
		uint8_t *p = payload_of(&samples[i], &n);

		for (size_t at = 0; at < n * ARRAY_SIZE(values); at++) {
			struct buf b = BUF_INIT(1 << 20);
			uint8_t old = p[at % n];
			union message m;

			p[at % n] = values[at / n];
			if (agent_decode(samples[i].type, p, n, &m) == 0)
				assert_int_equal(agent_encode(&b, samples[i].type, &m), 0);
			p[at % n] = old;
			buf_done(&b);
		}
		free(p);
	}
}

static void strings_are_checked(void **state)
{
	struct agent_dial m;
	uint8_t p[] = {80, 0, 3, 0, 0, 0, 'a', 'b', 'c', 0};

	assert_int_equal(agent_dial_decode(p, sizeof(p), &m), 0);
	assert_string_equal(m.host, "abc");
	p[7] = 0; /* a NUL inside */
	assert_int_equal(agent_dial_decode(p, sizeof(p), &m), -EBADMSG);
	p[7] = 'b';
	p[9] = 'd'; /* no NUL at the end */
	assert_int_equal(agent_dial_decode(p, sizeof(p), &m), -EBADMSG);
	p[9] = 0;
	put_le32(p + 2, 0xffffffff);
	assert_int_equal(agent_dial_decode(p, sizeof(p), &m), -E2BIG);
	put_le32(p + 2, AGENT_NAME_MAX);
	assert_int_equal(agent_dial_decode(p, sizeof(p), &m), -EBADMSG);
}

static void limits_hold(void **state)
{
	static char text[AGENT_PATH_MAX + 2], big[AGENT_ARGV_BYTES_MAX];
	static const char *many[AGENT_ARGV_MAX + 1];
	struct buf b = BUF_INIT(1 << 20);
	struct agent_stat s = {.path = text};
	struct agent_exec x = {.argv = {.array = many, .count = AGENT_ARGV_MAX}};

	memset(text, 'x', AGENT_PATH_MAX);
	assert_int_equal(agent_stat_encode(&b, &s), 0);
	text[AGENT_PATH_MAX] = 'x';
	buf_clear(&b);
	assert_int_equal(agent_stat_encode(&b, &s), -E2BIG);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = "";
	assert_int_equal(agent_exec_encode(&b, &x), 0);
	buf_clear(&b);
	x.argv.count++;
	assert_int_equal(agent_exec_encode(&b, &x), -E2BIG);
	memset(big, 'y', sizeof(big) - 1);
	many[0] = big;
	x.argv.count = 1;
	assert_int_equal(agent_exec_encode(&b, &x), -E2BIG);
	big[AGENT_ARGV_BYTES_MAX - 5] = '\0';
	assert_int_equal(agent_exec_encode(&b, &x), 0);
	buf_clear(&b);
	x.env = (struct agent_strings){.array = (const char *const[]){"=x"}, .count = 1};
	assert_int_equal(agent_exec_encode(&b, &x), -EINVAL);
	x.env.array = (const char *const[]){"none"};
	assert_int_equal(agent_exec_encode(&b, &x), -EINVAL);
	assert_int_equal(buf_len(&b), 0);
	buf_done(&b);
}

static void full_buffer_is_unchanged(void **state)
{
	struct buf b = BUF_INIT(20);

	assert_int_equal(agent_add_raw(&b, AGENT_DATA, "12345678", 8), 0);
	assert_int_equal(agent_error_encode(&b, &error), -EMSGSIZE);
	assert_int_equal(agent_add_raw(&b, AGENT_DATA, "12345678", 8), -EMSGSIZE);
	assert_int_equal(buf_len(&b), 16);
	buf_done(&b);
}

static void unknown_types_have_no_codec(void **state)
{
	struct buf b = BUF_INIT(100);
	union message m = {0};

	assert_int_equal(agent_encode(&b, AGENT_DATA, &m), -EINVAL);
	assert_int_equal(agent_decode(AGENT_OK, "", 0, &m), -EBADMSG);
	assert_string_equal(agent_type_name(0xff), "unknown");
	assert_string_equal(agent_error_class_name(0xffff), "unknown");
	assert_string_equal(agent_error_class_name(AGENT_ERR_REFUSED), "refused");
}

static void headers(void **state)
{
	struct agent_header h;
	uint8_t p[AGENT_HEADER_BYTES];

	agent_header_encode(p, AGENT_DATA, AGENT_MORE, AGENT_PAYLOAD_MAX);
	assert_int_equal(agent_header_decode(p, &h), 0);
	assert_int_equal(h.type, AGENT_DATA);
	assert_int_equal(h.flags, AGENT_MORE);
	assert_int_equal(h.length, AGENT_PAYLOAD_MAX);
	put_le32(p + 4, AGENT_PAYLOAD_MAX + 1);
	assert_int_equal(agent_header_decode(p, &h), -EBADMSG);
	put_le32(p + 4, 0);
	for (int bit = 0; bit < 24; bit++) {
		agent_header_encode(p, AGENT_DATA, 0, 0);
		p[1 + bit / 8] ^= (uint8_t)(1 << bit % 8);
		assert_int_equal(agent_header_decode(p, &h), bit == 0 ? 0 : -EBADMSG);
	}
}

/* --- receiving --- */

static void feed(struct agent_rx *rx, const uint8_t *p, size_t n)
{
	while (n) {
		size_t room, part;
		uint8_t *to = agent_rx_space(rx, &room);

		assert_non_null(to);
		part = n < room ? n : room;
		memcpy(to, p, part);
		agent_rx_received(rx, part);
		p += part;
		n -= part;
	}
}

static void long_message(struct buf *b)
{
	static char big[100000];
	static const char *argv[] = {"sh", big};
	struct agent_exec x = {.argv = ARRAY(argv)};
	size_t before = buf_len(b);

	memset(big, 'x', sizeof(big) - 1);
	assert_int_equal(agent_exec_encode(b, &x), 0);
	assert_int_equal(buf_head(b)[before + 1], AGENT_MORE);
}

static void check_long_message(const struct agent_frame *f)
{
	struct agent_exec x;
	const char *s;
	size_t pos = 0;

	assert_int_equal(f->type, AGENT_EXEC);
	assert_int_equal(agent_exec_decode(f->payload, f->length, &x), 0);
	assert_true(agent_strings_next(&x.argv, &pos, &s) && agent_strings_next(&x.argv, &pos, &s));
	assert_int_equal(strlen(s), 99999);
}

/* Whatever the pieces that bytes arrive in. */
static void messages_are_joined(void **state)
{
	static const size_t steps[] = {1, 7, 8, 4096, 65536, 1 << 20};

	for (size_t i = 0; i < ARRAY_SIZE(steps); i++) {
		struct buf b = BUF_INIT(1 << 20);
		unsigned got = 0;
		struct agent_frame f;
		struct agent_rx rx;
		int r = 0;

		agent_rx_init(&rx);
		assert_int_equal(agent_add_raw(&b, AGENT_STDIN, "first", 5), 0);
		long_message(&b);
		assert_int_equal(agent_add_raw(&b, AGENT_END, NULL, 0), 0);
		for (size_t at = 0; at < buf_len(&b); at += steps[i]) {
			size_t n = buf_len(&b) - at < steps[i] ? buf_len(&b) - at : steps[i];

			feed(&rx, buf_head(&b) + at, n);
			while ((r = agent_rx_next(&rx, &f)) == 1) {
				if (got == 0)
					assert_memory_equal(f.payload, "first", 5);
				else if (got == 1)
					check_long_message(&f);
				else
					assert_int_equal(f.type, AGENT_END);
				got++;
			}
			assert_int_equal(r, 0);
		}
		assert_int_equal(got, 3);
		agent_rx_done(&rx);
		buf_done(&b);
	}
}

static void messages_can_be_put_back(void **state)
{
	struct buf b = BUF_INIT(1 << 20);
	struct agent_frame f;
	struct agent_rx rx;

	agent_rx_init(&rx);
	assert_int_equal(agent_add_raw(&b, AGENT_STDIN, "first", 5), 0);
	long_message(&b);
	assert_int_equal(agent_add_raw(&b, AGENT_STDIN, "raw", 3), 0);
	feed(&rx, buf_head(&b), buf_len(&b));
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_rx_next(&rx, &f), 1);
		assert_int_equal(f.length, 5);
		if (i < 2)
			agent_rx_unread(&rx);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(agent_rx_next(&rx, &f), 1);
		check_long_message(&f);
		if (i < 2)
			agent_rx_unread(&rx);
	}
	assert_int_equal(agent_rx_next(&rx, &f), 1);
	assert_memory_equal(f.payload, "raw", 3);
	agent_rx_release(&rx);
	assert_int_equal(buf_len(&rx.in), 0);
	agent_rx_done(&rx);
	buf_done(&b);
}

static int receive_frames(const uint8_t *p, size_t n)
{
	struct agent_frame f;
	struct agent_rx rx;
	int r;

	agent_rx_init(&rx);
	feed(&rx, p, n);
	while ((r = agent_rx_next(&rx, &f)) == 1)
		;
	agent_rx_done(&rx);
	return r;
}

static void bad_streams_end(void **state)
{
	uint8_t p[64] = {0};

	agent_header_encode(p, AGENT_STDIN, AGENT_MORE, 1); /* raw bytes come in one frame */
	assert_int_equal(receive_frames(p, 9), -EBADMSG);
	agent_header_encode(p, AGENT_EXEC, AGENT_MORE, 0); /* nothing, and more of it */
	assert_int_equal(receive_frames(p, 8), -EBADMSG);
	agent_header_encode(p, AGENT_EXEC, AGENT_MORE, 1);
	agent_header_encode(p + 9, AGENT_STAT, 0, 1); /* another type in between */
	assert_int_equal(receive_frames(p, 18), -EBADMSG);
	agent_header_encode(p, 0x7f, 0x80, 0);
	assert_int_equal(receive_frames(p, 8), -EBADMSG);
}

static void endless_message_is_refused(void **state)
{
	static uint8_t frame[AGENT_HEADER_BYTES + AGENT_PAYLOAD_MAX];
	struct agent_frame f;
	struct agent_rx rx;
	int r = 0;

	agent_rx_init(&rx);
	agent_header_encode(frame, AGENT_EXEC, AGENT_MORE, AGENT_PAYLOAD_MAX);
	for (int i = 0; i < 8; i++) {
		feed(&rx, frame, sizeof(frame));
		assert_int_equal(agent_rx_next(&rx, &f), 0);
	}
	feed(&rx, frame, sizeof(frame));
	r = agent_rx_next(&rx, &f);
	assert_int_equal(r, -E2BIG);
	agent_rx_done(&rx);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_message_comes_back),
		cmocka_unit_test(fields_come_back),
		cmocka_unit_test(truncated_is_refused),
		cmocka_unit_test(extended_is_refused),
		cmocka_unit_test(changed_is_refused_or_sane),
		cmocka_unit_test(strings_are_checked),
		cmocka_unit_test(limits_hold),
		cmocka_unit_test(full_buffer_is_unchanged),
		cmocka_unit_test(unknown_types_have_no_codec),
		cmocka_unit_test(headers),
		cmocka_unit_test(messages_are_joined),
		cmocka_unit_test(messages_can_be_put_back),
		cmocka_unit_test(bad_streams_end),
		cmocka_unit_test(endless_message_is_refused),
	};

	return cmocka_run_group_tests_name("agent_wire", tests, NULL, NULL);
}
