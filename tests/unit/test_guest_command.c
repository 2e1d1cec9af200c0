/* Ready commands, with an agent that is a thread of this process. */
#include "test.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/fd.h"
#include "sandbox/agent_call.h"
#include "sandbox/guest_command.h"

enum { LONG_S = 600 };

/* What the agent does. */
struct agent {
	int fd;
	bool silent; /* answers nothing */
	bool shell;
	unsigned requests; /* it hangs up after these; 0: never */
	unsigned fails;	   /* so many commands, or looks at the ports, before one succeeds */
	pthread_t thread;
};

static void add(struct buf *out, enum agent_type type, const void *message)
{
	assert_int_equal(agent_encode(out, type, message), 0);
}

static void add_hello(struct buf *out, const struct agent *a)
{
	const struct agent_hello_reply m = {.version = AGENT_PROTOCOL_VERSION,
		.version_min = 1,
		.version_max = AGENT_PROTOCOL_VERSION,
		.facts = a->shell ? AGENT_FACT_SHELL : 0,
		.agent_version = "",
		.boot_id = "",
		.root_fs = "",
		.problem = ""};

	add(out, AGENT_HELLO_REPLY, &m);
}

/* Of /proc/net/tcp: port 8080 listens, or another one. */
static void add_table(struct buf *out, struct agent *a, const char *path)
{
	static const char head[] = "  sl  local_address rem_address   st\n   0: 00000000:",
			  tail[] = " 00000000:0000 0A\n";
	const struct agent_entry entry = {
		.path = path, .owner = "", .group = "", .target = "", .resolved = ""};
	const struct agent_error missing = {
		.class = AGENT_ERR_NOT_FOUND, .request = AGENT_READ, .err = ENOENT, .message = ""};

	if (strcmp(path, "/proc/net/tcp") != 0) {
		add(out, AGENT_ERROR, &missing);
		return;
	}
	add(out, AGENT_ENTRY, &entry);
	assert_int_equal(agent_add_raw(out, AGENT_DATA, head, strlen(head)), 0);
	assert_int_equal(agent_add_raw(out, AGENT_DATA, a->fails ? "1F91" : "1F90", 4), 0);
	assert_int_equal(agent_add_raw(out, AGENT_DATA, tail, strlen(tail)), 0);
	assert_int_equal(agent_add_raw(out, AGENT_END, NULL, 0), 0);
	a->fails -= a->fails > 0;
}

static void add_end(struct buf *out, struct agent *a)
{
	const struct agent_started started = {.pid = 7};
	const struct agent_exit end = {.status = a->fails > 0};

	add(out, AGENT_STARTED, &started);
	add(out, AGENT_EXIT, &end);
	a->fails -= a->fails > 0;
}

static void add_file(struct buf *out, struct agent *a, const char *path)
{
	const struct agent_entry entry = {.mode = S_IFREG | 0644,
		.path = path,
		.owner = "",
		.group = "",
		.target = "",
		.resolved = ""};
	const struct agent_error missing = {
		.class = AGENT_ERR_NOT_FOUND, .request = AGENT_STAT, .err = ENOENT, .message = ""};

	if (a->fails || strcmp(path, "/ready") != 0)
		add(out, AGENT_ERROR, &missing);
	else
		add(out, AGENT_ENTRY, &entry);
	a->fails -= a->fails > 0;
}

static void add_tasks(struct buf *out, struct agent *a)
{
	static const char *const names[] = {"/bin/init nginx", "[kthread]", "/usr/sbin/nginx -g x"};

	for (uint32_t i = 0; i < (a->fails ? 2 : 3); i++) {
		const struct agent_task m = {.pid = i + 1, .command = names[i]};

		add(out, AGENT_TASK, &m);
	}
	assert_int_equal(agent_add_raw(out, AGENT_END, NULL, 0), 0);
	a->fails -= a->fails > 0;
}

/* What a server says. It does not wait for the request. */
static void add_page(struct buf *out, const struct agent *a)
{
	static const char page[] = "HTTP/1.1 204 No Content\r\n\r\n",
			  busy[] = "HTTP/1.1 503 Busy\r\nContent-Length: 1000000000\r\n\r\nx";

	assert_int_equal(agent_add_raw(out, AGENT_OK, NULL, 0), 0);
	assert_int_equal(buf_add_str(out, a->fails ? busy : page), 0);
}

static void answer(struct agent *a, enum agent_type type, const uint8_t *payload, size_t n)
{
	struct buf out = BUF_INIT(1 << 16);
	struct agent_read read;
	struct agent_stat stat;

	if (type == AGENT_HELLO)
		add_hello(&out, a);
	else if (type == AGENT_EXEC)
		add_end(&out, a);
	else if (type == AGENT_READ && agent_decode(type, payload, n, &read) == 0)
		add_table(&out, a, read.path);
	else if (type == AGENT_STAT && agent_decode(type, payload, n, &stat) == 0)
		add_file(&out, a, stat.path);
	else if (type == AGENT_LIST_TASKS)
		add_tasks(&out, a);
	else if (type == AGENT_DIAL)
		add_page(&out, a);
	if (!a->silent)
		(void)send(a->fd, buf_head(&out), buf_len(&out), MSG_NOSIGNAL); /* seen there */
	buf_done(&out);
}

static void *serve(void *arg)
{
	struct agent *a = arg;
	uint8_t head[AGENT_HEADER_BYTES], payload[4096];
	struct agent_header h;
	unsigned n = 0;

	while ((!a->requests || n++ < a->requests) &&
		fd_read_full(a->fd, head, sizeof(head)) == 0 &&
		agent_header_decode(head, &h) == 0 && h.length <= sizeof(payload) &&
		fd_read_full(a->fd, payload, h.length) == 0)
		answer(a, (enum agent_type)h.type, payload, h.length);
	(void)shutdown(a->fd, SHUT_RDWR);
	return NULL;
}

/* A server that is busy for a few times. */
struct server {
	struct agent agents[8];
	unsigned count, fails;
};

static int dial(void *arg, struct agent_conn **ret, struct error *e)
{
	struct server *s = arg;
	struct agent *a = &s->agents[s->count];
	int fds[2];

	assert_true(s->count < 8);
	*a = (struct agent){.requests = 1, .fails = s->count < s->fails};
	s->count++;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	a->fd = fds[1];
	assert_int_equal(pthread_create(&a->thread, NULL, serve, a), 0);
	return agent_open(fds[0], 0, ret, e);
}

static struct server *server; /* of the next await(), or NULL */
static struct start_follow *start;

static int await(struct agent *a, const char *command, uint64_t limit_ns, struct error *e)
{
	struct agent_conn *conn = NULL;
	struct image_config config;
	struct guest_commands g = {.config = &config};
	int fds[2], r;

	assert_int_equal(config_init(&config), 0);
	assert_int_equal(config_set_text(&config.ready_command, command), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	a->fd = fds[1];
	assert_int_equal(agent_open(fds[0], 0, &conn, NULL), 0);
	assert_int_equal(pthread_create(&a->thread, NULL, serve, a), 0);
	g.agent = conn;
	g.dialler = (struct guest_dialler){dial, server};
	g.start = start;
	g.deadline_ns = clock_monotonic_ns() + limit_ns;
	r = guest_ready_await(&g, "it", e);
	agent_close(conn);
	assert_int_equal(pthread_join(a->thread, NULL), 0);
	(void)close(fds[1]);
	config_done(&config);
	return r;
}

static const char port_command[] = "[ -n \"$(ss -Htuln sport = :8080)\" ]";

static void test_tried_until_it_succeeds(void **state)
{
	struct agent shell = {.shell = true, .fails = 3}, port = {.fails = 3}, sleep = {.fails = 0};

	assert_int_equal(await(&shell, "make ready", LONG_S * NS_PER_S, NULL), 0);
	assert_int_equal(shell.fails, 0);
	assert_int_equal(await(&port, port_command, LONG_S * NS_PER_S, NULL), 0);
	assert_int_equal(port.fails, 0);
	assert_int_equal(await(&sleep, "sleep 0.01", LONG_S * NS_PER_S, NULL), 0);
}

static void test_what_is_asked_without_a_shell(void **state)
{
	static const char *const commands[] = {"[ -f /ready ]", "pgrep nginx > /dev/null"};

	for (unsigned i = 0; i < 2; i++) {
		struct agent a = {.fails = 3};

		assert_int_equal(await(&a, commands[i], LONG_S * NS_PER_S, NULL), 0);
		assert_int_equal(a.fails, 0);
	}
}

static void test_a_page_without_a_shell(void **state)
{
	struct server s = {.fails = 2};
	struct agent a = {.fails = 2}; /* then the port listens */

	server = &s;
	assert_int_equal(await(&a,
				 "curl -s -o /dev/null -w \"%{http_code}\" "
				 "http://localhost:8080/x | grep -q \"204\"",
				 LONG_S * NS_PER_S, NULL),
		0);
	server = NULL;
	assert_int_equal(s.count, 3);
	for (unsigned i = 0; i < s.count; i++) {
		assert_int_equal(pthread_join(s.agents[i].thread, NULL), 0);
		(void)close(s.agents[i].fd);
	}
}

/* Would take longer than the test may. */
static void test_a_pause_past_the_deadline_is_not_begun(void **state)
{
	struct agent a = {.fails = 0};
	struct error e = {0};

	assert_int_equal(await(&a, "sleep 700", LONG_S * NS_PER_S, &e), -ETIMEDOUT);
	assert_int_equal(e.code, ERROR_TIMEOUT);
	assert_non_null(strstr(e.message, "did not succeed in 600 s"));
}

static void test_the_deadline_of_each_kind(void **state)
{
	static const char *const commands[] = {
		"make ready", port_command, "[ -f ready ]", "pgrep other > /dev/null"};

	for (unsigned i = 0; i < 8; i++) {
		struct agent a = {.silent = i < 4, .shell = i % 4 == 0, .fails = UINT32_MAX};
		struct error e = {0};

		assert_int_equal(await(&a, commands[i % 4], 50 * NS_PER_MS, &e), -ETIMEDOUT);
		assert_non_null(strstr(e.message, "the ready command of template 'it' did not"));
	}
}

/* Nobody polls an agent that is gone, whenever that was. */
static void test_a_lost_connection_ends_it(void **state)
{
	static const char *const commands[] = {
		"make ready", port_command, "[ -f ready ]", "pgrep other > /dev/null"};

	for (unsigned i = 0; i < 4; i++)
		for (unsigned n = 1; n < 8; n++) {
			struct agent a = {.shell = i == 0, .requests = n, .fails = UINT32_MAX};

			assert_int_equal(
				await(&a, commands[i], LONG_S * NS_PER_S, NULL), -ECONNRESET);
		}
}

static void test_no_shell_for_it(void **state)
{
	struct agent a = {.fails = 0};
	struct error e = {0};

	assert_true(await(&a, "test -e /x && true", LONG_S * NS_PER_S, &e) < 0);
	assert_int_equal(e.code, ERROR_BAD_IMAGE);
	assert_non_null(strstr(e.message, "no /bin/sh"));
}

static void say_nothing(void *opaque, const char *line, size_t n)
{
}

/* A connection whose command has ended with that status, or still runs. */
static struct start_follow *follow(int status)
{
	static const struct start_watch watch = {.say = say_nothing};
	static const char *const words[] = {"x"};
	const struct agent_exec x = {
		.user = "", .cwd = "", .tag = "", .argv = {.array = words, .count = 1}};
	const struct agent_exit end = {.status = (uint32_t)status};
	struct buf out = BUF_INIT(1 << 16);
	struct agent_conn *c = NULL;

	assert_int_equal(agent_open(-1, 0, &c, NULL), 0);
	assert_int_equal(agent_exec_start(c, &x, NULL), 0);
	add(&out, AGENT_STARTED, &(struct agent_started){.pid = 8});
	if (status >= 0)
		add(&out, AGENT_EXIT, &end);
	assert_int_equal(agent_feed(c, buf_head(&out), buf_len(&out)), 0);
	buf_done(&out);
	return start_follow_new(c, &watch);
}

static void test_a_start_command_that_fails_ends_it(void **state)
{
	static const char *const commands[] = {"make ready", "[ -f /ready ]"};

	for (unsigned i = 0; i < 2; i++)
		for (int status = -1; status < 2; status++) {
			struct agent a = {.shell = i == 0, .fails = status == 1 ? UINT32_MAX : 2};
			struct error e = {0};

			start = follow(status);
			assert_int_equal(await(&a, commands[i], LONG_S * NS_PER_S, &e),
				status == 1 ? -EINVAL : 0);
			if (status == 1)
				assert_non_null(strstr(e.message, "start command failed: "));
			start_follow_free(TAKE_PTR(start));
		}
}

/* Also if the ready command succeeds at once. */
static void test_a_start_command_that_has_failed(void **state)
{
	struct agent a = {.shell = true};

	start = follow(1);
	assert_int_equal(await(&a, "make ready", LONG_S * NS_PER_S, NULL), -EINVAL);
	start_follow_free(TAKE_PTR(start));
}

static void test_a_command_that_has_started(void **state)
{
	struct agent a = {.shell = true, .fails = 1};
	struct image_config config;
	struct guest_commands g = {.config = &config, .deadline_ns = UINT64_MAX};
	struct agent_event ev;
	int fds[2];

	assert_int_equal(config_init(&config), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	a.fd = fds[1];
	assert_int_equal(agent_open(fds[0], 0, &g.agent, NULL), 0);
	assert_int_equal(pthread_create(&a.thread, NULL, serve, &a), 0);
	assert_int_equal(guest_command_start(&g, "serve", NULL), 0);
	assert_int_equal(agent_wait_event(g.agent, UINT64_MAX, &ev, NULL), 1);
	assert_true(ev.type == AGENT_EXIT && ev.exit.status == 1);
	agent_close(g.agent);
	assert_int_equal(pthread_join(a.thread, NULL), 0);
	(void)close(fds[1]);
	config_done(&config);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_tried_until_it_succeeds),
		cmocka_unit_test(test_what_is_asked_without_a_shell),
		cmocka_unit_test(test_a_page_without_a_shell),
		cmocka_unit_test(test_a_pause_past_the_deadline_is_not_begun),
		cmocka_unit_test(test_the_deadline_of_each_kind),
		cmocka_unit_test(test_a_lost_connection_ends_it),
		cmocka_unit_test(test_no_shell_for_it),
		cmocka_unit_test(test_a_start_command_that_fails_ends_it),
		cmocka_unit_test(test_a_start_command_that_has_failed),
		cmocka_unit_test(test_a_command_that_has_started),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
