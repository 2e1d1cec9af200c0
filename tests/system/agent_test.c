/* agent-test AGENT DIRECTORY [NAME...]: runs the agent at AGENT on a Unix socket in DIRECTORY and
 * drives it through the host's client. Prints "ok - name", "not ok - name: where", "skip - name:
 * reason"; exits 0 when nothing failed. */
#include "agent_test.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fd.h"

enum { TEST_SECONDS = 60, CONNS_MAX = 600, OUTPUT_MAX = 64 << 20 };

char work_dir[4096];
pid_t agent_pid;
static int work_fd;
static char failure[512];
static const char *skipped;
static struct agent_conn *conns[CONNS_MAX];
static unsigned conn_count;

void test_fail(const char *fmt, ...)
{
	va_list ap;

	if (failure[0])
		return;
	va_start(ap, fmt);
	(void)vsnprintf(failure, sizeof(failure), fmt, ap); /* may be cut */
	va_end(ap);
}

void test_skip(const char *reason)
{
	skipped = reason;
}

uint64_t soon(void)
{
	return clock_monotonic_ns() + 20 * NS_PER_S;
}

int raw_socket(void)
{
	return fd_unix_connect(work_fd, "vsock.sock", SOCK_STREAM);
}

struct agent_conn *dial_agent(void)
{
	struct agent_conn *c = NULL;
	struct error e = {0};

	if (conn_count == CONNS_MAX || agent_connect(work_fd, &c, &e) < 0) {
		fprintf(stderr, "agent_connect: %s\n", e.message);
		exit(1);
	}
	conns[conn_count++] = c;
	return c;
}

long agent_rss_kib(void)
{
	char path[64], line[256];
	long kib = -1;
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%d/status", (int)agent_pid);
	f = fopen(path, "re");
	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "VmRSS: %ld", &kib) == 1)
			break;
	if (f)
		(void)fclose(f);
	return kib;
}

/* --- commands --- */

void outcome_done(struct outcome *o)
{
	buf_done(&o->out);
	buf_done(&o->err);
}

static struct agent_strings strings(const char *const *array)
{
	struct agent_strings s = {.array = array};

	while (array && array[s.count])
		s.count++;
	return s;
}

void make_exec(const struct command *k, struct agent_exec *x)
{
	*x = (struct agent_exec){.flags = k->flags,
		.cols = (uint16_t)k->cols,
		.rows = (uint16_t)k->rows,
		.timeout_ms = k->timeout_ms,
		.user = k->user,
		.cwd = k->cwd,
		.tag = k->tag,
		.argv = strings(k->argv),
		.env = strings(k->env)};
}

static void record(struct outcome *o, const struct agent_event *ev)
{
	switch (ev->type) {
	case AGENT_STARTED:
		o->pid = ev->started.pid;
		break;
	case AGENT_STDOUT:
	case AGENT_PTY:
	case AGENT_DATA:
		(void)buf_add(&o->out, ev->data, ev->length);
		break;
	case AGENT_STDERR:
		(void)buf_add(&o->err, ev->data, ev->length);
		break;
	case AGENT_EXIT:
		o->exit = ev->exit;
		break;
	case AGENT_ERROR:
		o->failed = true;
		o->error = ev->error;
		(void)snprintf(o->message, sizeof(o->message), "%s", ev->error.message);
		o->error.message = o->message;
		break;
	default:
		test_fail("unexpected event %s", agent_type_name(ev->type));
	}
}

/* One round of the loop that agent_client.h describes. True while there is more to come. */
static bool collect_round(struct agent_conn *c, struct outcome *o, const uint8_t **input, size_t *n)
{
	struct pollfd p = {.fd = agent_fd(c)};
	struct agent_event ev;
	int r;

	while ((r = agent_next_event(c, &ev, NULL)) == 1) {
		record(o, &ev);
		if (ev.type == AGENT_EXIT || ev.type == AGENT_ERROR)
			return false;
	}
	if (r < 0) {
		o->broken = true;
		return false;
	}
	if (*input && agent_stdin_room(c)) {
		ssize_t k = agent_send_stdin(c, *input, *n);

		*input += k > 0 ? k : 0;
		*n -= k > 0 ? (size_t)k : 0;
		if (!*n) {
			(void)agent_send_stdin_eof(c);
			*input = NULL;
		}
	}
	p.events = agent_poll_events(c);
	if (poll(&p, 1, 20000) == 0) {
		test_fail("no event for 20 s");
		return false;
	}
	return true;
}

void collect(struct agent_conn *c, struct outcome *o, const void *input, size_t n)
{
	const uint8_t *p = input;

	*o = (struct outcome){.out = BUF_INIT(OUTPUT_MAX), .err = BUF_INIT(OUTPUT_MAX)};
	while (collect_round(c, o, &p, &n))
		;
}

void run_command(struct agent_conn *c, const struct command *k, struct outcome *o)
{
	struct agent_exec x;
	struct error e = {0};

	make_exec(k, &x);
	if (agent_exec_start(c, &x, &e) < 0)
		test_fail("agent_exec_start: %s", e.message);
	collect(c, o, k->input, k->input_bytes);
}

void run_shell(struct agent_conn *c, const char *script, struct outcome *o)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};

	run_command(c, &(struct command){.argv = argv}, o);
}

uint32_t start_shell(struct agent_conn *c, const char *script, unsigned flags)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	struct command k = {.argv = argv, .flags = flags, .cols = 80, .rows = 24};
	struct agent_event ev;
	struct agent_exec x;

	make_exec(&k, &x);
	if (agent_exec_start(c, &x, NULL) < 0 || agent_wait_event(c, soon(), &ev, NULL) != 1 ||
		ev.type != AGENT_STARTED) {
		test_fail("cannot start %s", script);
		return 0;
	}
	return ev.started.pid;
}

bool output_is(const struct buf *b, const char *text)
{
	const char *got = buf_len(b) ? (const char *)buf_head(b) : "";
	bool same = buf_len(b) == strlen(text) && memcmp(got, text, buf_len(b)) == 0;

	if (!same)
		test_fail("got '%.*s', wanted '%s'", (int)buf_len(b), got, text);
	return same;
}

bool gone(uint32_t pid, unsigned ms)
{
	static const struct timespec pause = {.tv_nsec = 5 * 1000 * 1000};
	uint64_t end = clock_monotonic_ns() + ms * NS_PER_MS;

	while (kill((pid_t)pid, 0) == 0) {
		if (clock_monotonic_ns() > end)
			return false;
		(void)nanosleep(&pause, NULL);
	}
	return true;
}

/* --- running --- */

static int start_agent(const char *agent)
{
	struct timespec pause = {.tv_nsec = 10 * 1000 * 1000};
	char socket_path[sizeof(work_dir) + 16];

	(void)snprintf(socket_path, sizeof(socket_path), "%s/vsock.sock", work_dir);
	agent_pid = fork();
	if (agent_pid == 0) {
		(void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* should a test end us */
		execl(agent, "mayfly-agent", "--test-listen", socket_path, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 500; i++) {
		int fd = raw_socket();

		if (fd >= 0) {
			(void)close(fd);
			return 0;
		}
		(void)nanosleep(&pause, NULL);
	}
	fprintf(stderr, "the agent does not listen\n");
	return -1;
}

static void run_test(const struct test *t, unsigned *failures)
{
	failure[0] = '\0';
	skipped = NULL;
	(void)alarm(TEST_SECONDS);
	t->run();
	(void)alarm(0);
	while (conn_count)
		agent_close(conns[--conn_count]);
	if (kill(agent_pid, 0) < 0 || waitpid(agent_pid, NULL, WNOHANG) != 0)
		test_fail("the agent died");
	if (failure[0]) {
		printf("not ok - agent %s: %s\n", t->name, failure);
		++*failures;
	} else if (skipped) {
		printf("skip - agent %s: %s\n", t->name, skipped);
	} else {
		printf("ok - agent %s\n", t->name);
	}
	(void)fflush(stdout);
}

static bool chosen(const char *name, char **names)
{
	if (!*names)
		return true;
	for (; *names; names++)
		if (strcmp(*names, name) == 0)
			return true;
	return false;
}

/* The last: the agent must end, and with status 0, which the sanitizers would spoil. */
static void end_agent(unsigned *failures)
{
	int status = 0;

	if (agent_shutdown(dial_agent(), soon(), 0, 0, NULL) < 0 ||
		waitpid(agent_pid, &status, 0) != agent_pid || status != 0) {
		printf("not ok - agent shutdown: status 0x%x\n", status);
		++*failures;
	} else {
		printf("ok - agent shutdown\n");
	}
}

int main(int argc, char **argv)
{
	const struct test *const suites[] = {
		process_tests, input_tests, file_tests, survey_tests, trace_tests, hostile_tests};
	unsigned failures = 0;

	if (argc < 3) {
		fprintf(stderr, "usage: agent-test AGENT DIRECTORY [NAME...]\n");
		return 2;
	}
	(void)signal(SIGPIPE, SIG_IGN);
	if (!realpath(argv[2], work_dir))
		return 2;
	work_fd = open(work_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (work_fd < 0 || start_agent(argv[1]) < 0)
		return 1;
	for (size_t i = 0; i < sizeof(suites) / sizeof(suites[0]); i++)
		for (const struct test *t = suites[i]; t->name; t++)
			if (chosen(t->name, argv + 3))
				run_test(t, &failures);
	end_agent(&failures);
	return failures ? 1 : 0;
}
