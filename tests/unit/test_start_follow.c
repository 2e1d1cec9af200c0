/* A start command that is followed, with an agent whose frames are fed. */
#include "test.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/clock.h"
#include "sandbox/agent_call.h"
#include "sandbox/start_follow.h"

enum { LOG_BYTES = 8192 };

struct log {
	char text[LOG_BYTES];
};

static void say(void *opaque, const char *line, size_t n)
{
	struct log *log = opaque;
	size_t used = strlen(log->text);

	assert_true(used + n + 2 < sizeof(log->text));
	(void)snprintf(log->text + used, sizeof(log->text) - used, "%.*s|", (int)n, line);
}

/* On which a command has started. */
static struct agent_conn *open_conn(void)
{
	static const char *const words[] = {"x"};
	const struct agent_exec x = {
		.user = "", .cwd = "", .tag = "", .argv = {.array = words, .count = 1}};
	struct agent_conn *c = NULL;

	assert_int_equal(agent_open(-1, 0, &c, NULL), 0);
	assert_int_equal(agent_exec_start(c, &x, NULL), 0);
	return c;
}

static void feed(struct agent_conn *c, enum agent_type type, const void *message)
{
	struct buf out = BUF_INIT(1 << 16);

	assert_int_equal(agent_encode(&out, type, message), 0);
	assert_int_equal(agent_feed(c, buf_head(&out), buf_len(&out)), 0);
	buf_done(&out);
}

static void feed_text(struct agent_conn *c, enum agent_type type, const char *text)
{
	struct buf out = BUF_INIT(1 << 16);

	assert_int_equal(agent_add_raw(&out, type, text, strlen(text)), 0);
	assert_int_equal(agent_feed(c, buf_head(&out), buf_len(&out)), 0);
	buf_done(&out);
}

static void feed_started(struct agent_conn *c)
{
	feed(c, AGENT_STARTED, &(struct agent_started){.pid = 7});
}

static void feed_exit(struct agent_conn *c, unsigned status, unsigned flags)
{
	feed(c, AGENT_EXIT, &(struct agent_exit){.status = status, .flags = flags});
}

static void test_lines(void **state)
{
	struct log log = {""};
	const struct start_watch watch = {say, &log, NULL};
	struct agent_conn *c = open_conn();
	struct start_follow *f = start_follow_new(c, &watch);

	feed_started(c);
	feed_text(c, AGENT_STDOUT, "Hello, World!\r\n\nha");
	feed_text(c, AGENT_STDERR, "oops\n");
	assert_int_equal(start_follow_read(f, NULL), 0);
	assert_string_equal(log.text, "[start] [stdout]: Hello, World!|[start] [stderr]: oops|");
	log.text[0] = '\0';
	feed_text(c, AGENT_STDOUT, "lf");
	feed_exit(c, 0, 0);
	assert_int_equal(start_follow_read(f, NULL), 0);
	assert_string_equal(log.text, "[start] [stdout]: half|");
	assert_int_equal(start_follow_read(f, NULL), 0);
	start_follow_free(f);
}

static void test_a_line_has_a_maximum(void **state)
{
	struct log log = {""};
	const struct start_watch watch = {say, &log, NULL};
	struct agent_conn *c = open_conn();
	struct start_follow *f = start_follow_new(c, &watch);
	char text[START_LINE_MAX + 4];

	memset(text, 'x', sizeof(text) - 1);
	memcpy(text + sizeof(text) - 4, "yz\n", 4);
	feed_started(c);
	feed_text(c, AGENT_STDOUT, text);
	assert_int_equal(start_follow_read(f, NULL), 0);
	assert_non_null(strstr(log.text, "x|[start] [stdout]: yz|"));
	assert_int_equal(strlen(log.text), START_LINE_MAX + 2 + 2 * strlen("[start] [stdout]: |"));
	start_follow_free(f);
}

static void test_its_failure(void **state)
{
	static const struct {
		unsigned status, flags;
		const char *text;
	} ends[] = {{127, 0, "start command failed: error running start command: exit status 127"},
		{9, AGENT_EXIT_SIGNALED,
			"start command failed: error running start command: exit status 137"}};

	for (unsigned i = 0; i < 2; i++) {
		struct log log = {""};
		const struct start_watch watch = {say, &log, NULL};
		struct agent_conn *c = open_conn();
		struct start_follow *f = start_follow_new(c, &watch);
		struct error e = {0};

		feed_started(c);
		feed_text(c, AGENT_STDERR, "no such file");
		feed_exit(c, ends[i].status, ends[i].flags);
		assert_true(start_follow_read(f, &e) < 0);
		assert_int_equal(e.code, ERROR_BAD_IMAGE);
		assert_string_equal(e.message, ends[i].text);
		assert_string_equal(log.text, "[start] [stderr]: no such file|");
		start_follow_free(f);
	}
}

/* It ends the wait for something else; before, that has its deadline and its events. */
static void test_beside_another_connection(void **state)
{
	struct log log = {""};
	const struct start_watch watch = {say, &log, NULL};
	struct agent_conn *c = open_conn(), *other = open_conn();
	struct start_follow *f = start_follow_new(c, &watch);
	struct agent_event ev;
	uint64_t soon = clock_monotonic_ns() + 50 * NS_PER_MS;

	feed_started(c);
	assert_int_equal(start_follow_wait(f, other, soon, &ev, NULL), -ETIMEDOUT);
	feed_started(other);
	assert_int_equal(start_follow_wait(f, other, UINT64_MAX, &ev, NULL), 1);
	assert_int_equal(ev.type, AGENT_STARTED);
	feed_text(c, AGENT_STDOUT, "last words\n");
	feed_exit(c, 1, 0);
	assert_int_equal(start_follow_wait(f, other, UINT64_MAX, &ev, NULL), -EINVAL);
	assert_string_equal(log.text, "[start] [stdout]: last words|");
	start_follow_free(f);
	agent_close(other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lines),
		cmocka_unit_test(test_a_line_has_a_maximum),
		cmocka_unit_test(test_its_failure),
		cmocka_unit_test(test_beside_another_connection),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
