/* What the host takes from an agent, and how much of it at a time. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"
#include "sandbox/agent_call.h"
#include "sandbox/agent_replies.h"

static struct agent_conn *conn;

static int open_conn(void **state)
{
	return agent_open(-1, 0, &conn, NULL);
}

static int close_conn(void **state)
{
	agent_close(conn);
	return 0;
}

static void say(enum agent_type type, const void *data, size_t n)
{
	struct buf b = BUF_INIT(AGENT_PAYLOAD_MAX * 2);

	assert_int_equal(agent_add_raw(&b, type, data, n), 0);
	assert_int_equal(agent_feed(conn, buf_head(&b), buf_len(&b)), 0);
	buf_done(&b);
}

/* The type of the next event, 0 for none, or -errno. */
static int next(void)
{
	struct agent_event ev;
	int r = agent_next_event(conn, &ev, NULL);

	return r == 1 ? (int)ev.type : r;
}

static void start_cat(void)
{
	static const char *const argv[] = {"cat"};
	const struct agent_exec x = {
		.flags = AGENT_EXEC_STDIN, .argv = {.array = argv, .count = 1}};
	static const uint8_t pid[4] = {7};

	assert_int_equal(agent_exec_start(conn, &x, NULL), 0);
	say(AGENT_STARTED, pid, sizeof(pid));
	assert_int_equal(next(), AGENT_STARTED);
}

/* --- what is not due --- */

static void test_asked_for_nothing(void **state)
{
	say(AGENT_OK, NULL, 0);
	assert_int_equal(next(), -EBADMSG);
	assert_int_equal(next(), -ECONNRESET); /* and nothing after it */
}

static void test_other_reply(void **state)
{
	assert_int_equal(agent_request(conn, AGENT_RELEASE, NULL, NULL), 0);
	say(AGENT_END, NULL, 0);
	assert_int_equal(next(), -EBADMSG);
}

static void test_second_reply(void **state)
{
	assert_int_equal(agent_request(conn, AGENT_RELEASE, NULL, NULL), 0);
	say(AGENT_OK, NULL, 0);
	say(AGENT_OK, NULL, 0);
	assert_int_equal(next(), AGENT_OK);
	assert_int_equal(next(), -EBADMSG);
}

static void test_replies_in_order(void **state)
{
	static const struct agent_watch watch = {.path = "/"};
	struct agent_replies a;

	agent_replies_init(&a);
	assert_int_equal(agent_replies_expect(&a, AGENT_LIST_TASKS, NULL), 0);
	assert_int_equal(agent_replies_expect(&a, AGENT_WATCH, &watch), 0);
	assert_int_equal(agent_replies_expect(&a, AGENT_STOP, NULL), 0); /* has none */
	assert_int_equal(agent_replies_take(&a, AGENT_TASK), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_TASK), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_OK), -EBADMSG);
	assert_int_equal(agent_replies_take(&a, AGENT_END), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_WATCH_EVENT), -EBADMSG); /* before the OK */
	assert_int_equal(agent_replies_take(&a, AGENT_OK), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_WATCH_EVENT), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_OK), -EBADMSG);
	assert_int_equal(agent_replies_take(&a, AGENT_ERROR), 0);
	assert_int_equal(agent_replies_take(&a, AGENT_ERROR), -EBADMSG);
	agent_replies_done(&a);
}

static void test_requests_that_wait(void **state)
{
	struct agent_replies a;

	agent_replies_init(&a);
	for (int i = 0; i < AGENT_REPLIES_MAX; i++)
		assert_int_equal(agent_replies_expect(&a, AGENT_RELEASE, NULL), 0);
	assert_int_equal(agent_replies_expect(&a, AGENT_RELEASE, NULL), -EMSGSIZE);
	agent_replies_done(&a);
}

static void test_empty_window(void **state)
{
	static const uint8_t none[4], two[4] = {2};

	start_cat();
	assert_int_equal(agent_send_stdin(conn, "abc", 3), 3);
	say(AGENT_WINDOW, two, sizeof(two));
	assert_int_equal(next(), 0);
	assert_int_equal(agent_stdin_room(conn), AGENT_STDIN_WINDOW - 1);
	say(AGENT_WINDOW, none, sizeof(none));
	assert_int_equal(next(), -EBADMSG);
}

/* What is sent before STARTED counts against the window, and after a refusal there is none. */
static void test_input_behind_an_attachment(void **state)
{
	static const uint8_t pid[4] = {7}, two[4] = {2};
	const struct agent_error refusal = {
		.class = AGENT_ERR_NOT_FOUND, .request = AGENT_ATTACH, .message = "none"};
	struct buf b = BUF_INIT(AGENT_PAYLOAD_MAX);
	size_t sent = 0;

	assert_int_equal(agent_attach_feeding(conn, "a", NULL), 0);
	assert_true(agent_feed_stdin(conn, "abc", 3, &sent));
	say(AGENT_STARTED, pid, sizeof(pid));
	assert_int_equal(next(), AGENT_STARTED);
	assert_int_equal(agent_stdin_room(conn), AGENT_STDIN_WINDOW - 3);
	say(AGENT_WINDOW, two, sizeof(two));
	assert_int_equal(next(), 0);
	assert_int_equal(agent_stdin_room(conn), AGENT_STDIN_WINDOW - 1);

	agent_close(conn);
	assert_int_equal(agent_open(-1, 0, &conn, NULL), 0);
	assert_int_equal(agent_attach_feeding(conn, "a", NULL), 0);
	assert_int_equal(agent_send_stdin(conn, "abc", 3), 3);
	assert_int_equal(agent_error_encode(&b, &refusal), 0);
	assert_int_equal(agent_feed(conn, buf_head(&b), buf_len(&b)), 0);
	buf_done(&b);
	assert_int_equal(next(), AGENT_ERROR);
	assert_int_equal(agent_stdin_room(conn), 0);
}

/* --- shares --- */

static void test_frames_of_a_share(void **state)
{
	static const uint8_t one[4] = {1};

	start_cat();
	assert_int_equal(agent_send_stdin(conn, "abcdefgh", 8), 8);
	for (int i = 0; i < 6; i++)
		say(AGENT_WINDOW, one, sizeof(one));
	say(AGENT_STDOUT, "x", 1);
	agent_set_share(conn, 4, SIZE_MAX);
	assert_int_equal(next(), 0);
	assert_true(agent_share_is_spent(conn));
	assert_int_equal(agent_stdin_room(conn), AGENT_STDIN_WINDOW - 4); /* four were counted */
	assert_int_equal(next(), 0);
	agent_set_share(conn, 4, SIZE_MAX);
	assert_int_equal(next(), AGENT_STDOUT);
	assert_int_equal(next(), 0);
	assert_false(agent_share_is_spent(conn));
}

static void test_bytes_of_a_share(void **state)
{
	static const uint8_t text[1000];

	start_cat();
	for (int i = 0; i < 3; i++)
		say(AGENT_STDOUT, text, sizeof(text));
	agent_set_share(conn, UINT32_MAX, 1500);
	assert_int_equal(next(), AGENT_STDOUT);
	assert_int_equal(next(), AGENT_STDOUT);
	assert_int_equal(next(), 0);
	assert_true(agent_share_is_spent(conn));
}

/* --- deadlines --- */

struct flood {
	int fd;
	struct buf text;
};

static void *flood(void *arg)
{
	struct flood *f = arg;

	while (send(f->fd, buf_head(&f->text), buf_len(&f->text), MSG_NOSIGNAL) > 0)
		;
	return NULL;
}

/* There is always something to read: output, which a caller that waits for the end passes over. */
static void test_deadline_amid_output(void **state)
{
	static const char *const argv[] = {"yes"};
	const struct agent_exec x = {.argv = {.array = argv, .count = 1}};
	uint64_t deadline_ns = clock_monotonic_ns() + 100 * NS_PER_MS;
	struct flood f = {.text = BUF_INIT(1 << 20)};
	static const uint8_t pid[4] = {7};
	struct agent_event ev;
	pthread_t thread;
	int fds[2], r;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	f.fd = fds[1];
	agent_close(conn);
	assert_int_equal(agent_open(fds[0], 0, &conn, NULL), 0);
	assert_int_equal(agent_exec_start(conn, &x, NULL), 0);
	assert_int_equal(agent_add_raw(&f.text, AGENT_STARTED, pid, sizeof(pid)), 0);
	assert_int_equal(send(fds[1], buf_head(&f.text), buf_len(&f.text), 0), buf_len(&f.text));
	buf_clear(&f.text);
	for (int i = 0; i < 10000; i++)
		assert_int_equal(agent_add_raw(&f.text, AGENT_STDOUT, "y\n", 2), 0);
	assert_int_equal(pthread_create(&thread, NULL, flood, &f), 0);
	while ((r = agent_wait_event(conn, deadline_ns, &ev, NULL)) == 1)
		if (clock_monotonic_ns() > deadline_ns + 5 * NS_PER_S)
			break;
	assert_int_equal(r, -ETIMEDOUT);
	(void)shutdown(fds[0], SHUT_RDWR);
	assert_int_equal(pthread_join(thread, NULL), 0);
	(void)close(fds[1]);
	buf_done(&f.text);
}

#define CONN_TEST(f) cmocka_unit_test_setup_teardown(f, open_conn, close_conn)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CONN_TEST(test_asked_for_nothing),
		CONN_TEST(test_other_reply),
		CONN_TEST(test_second_reply),
		cmocka_unit_test(test_replies_in_order),
		cmocka_unit_test(test_requests_that_wait),
		CONN_TEST(test_empty_window),
		CONN_TEST(test_input_behind_an_attachment),
		CONN_TEST(test_frames_of_a_share),
		CONN_TEST(test_bytes_of_a_share),
		CONN_TEST(test_deadline_amid_output),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
