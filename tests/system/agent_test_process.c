/* Processes: streams, ends, users, terminals, attaching, signals, limits. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "agent_test.h"
#include "base/clock.h"
#include "sandbox/entry.h"

void pause_ms(unsigned ms)
{
	struct timespec ts = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};

	(void)nanosleep(&ts, NULL);
}

static void test_hello(void)
{
	const struct agent_hello later = {AGENT_PROTOCOL_VERSION + 1, AGENT_PROTOCOL_VERSION + 3};
	struct agent_hello_reply h;
	struct agent_event ev;

	CHECK(agent_hello(dial_agent(), soon(), &h, NULL) == 0);
	CHECK(h.version == AGENT_PROTOCOL_VERSION && h.state == AGENT_STATE_READY);
	CHECK(h.facts == (AGENT_FACT_TEST | AGENT_FACT_SHELL));
	CHECK(h.boot_id[0] == '\0' && h.agent_version[0]);
	CHECK(agent_call(dial_agent(), soon(), AGENT_HELLO, &later, AGENT_HELLO_REPLY, &ev, NULL) ==
		0);
	CHECK(ev.hello.version == 0);
}

static void test_exit_codes(void)
{
	struct agent_conn *c = dial_agent();
	static const int codes[] = {0, 1, 3, 126, 127, 255};
	struct outcome o;

	for (size_t i = 0; i < 6; i++) {
		char script[32];

		(void)snprintf(script, sizeof(script), "exit %d", codes[i]);
		run_shell(c, script, &o);
		outcome_done(&o);
		CHECK(!o.failed && o.exit.flags == 0 && o.exit.status == (unsigned)codes[i]);
	}
	run_shell(c, "echo out; echo err >&2", &o);
	CHECK(output_is(&o.out, "out\n") && output_is(&o.err, "err\n"));
	outcome_done(&o);
	run_shell(c, "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done", &o);
	outcome_done(&o);
	CHECK(o.exit.user_us + o.exit.system_us > 0 && o.exit.max_rss_bytes > 100000);
}

static void test_signalled(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	run_shell(c, "kill -TERM $$", &o);
	outcome_done(&o);
	CHECK(o.exit.flags == AGENT_EXIT_SIGNALED && o.exit.status == SIGTERM);
	CHECK(start_shell(c, "trap 'echo caught; exit 5' INT; echo on; sleep 20 & wait", 0));
	pause_ms(100);
	CHECK(agent_send_signal(c, SIGINT, 0) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "on\ncaught\n") && o.exit.status == 5);
	outcome_done(&o);
}

static void test_bytes(void)
{
	enum { N = 1 << 20 };
	struct agent_conn *c = dial_agent();
	uint8_t *data = malloc(N);
	struct outcome o;
	bool same;

	for (size_t i = 0; i < N; i += 256)
		(void)!getrandom(data + i, 256, 0);
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "tee /dev/stderr"),
			.flags = AGENT_EXEC_STDIN,
			.input = data,
			.input_bytes = N},
		&o);
	same = buf_len(&o.out) == N && buf_len(&o.err) == N && !o.exit.status &&
	       memcmp(buf_head(&o.out), data, N) == 0 && memcmp(buf_head(&o.err), data, N) == 0;
	outcome_done(&o);
	free(data);
	CHECK(same);
}

static void test_stdin_null(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	run_command(c, &(struct command){.argv = ARGV("cat")}, &o);
	CHECK(buf_len(&o.out) == 0 && o.exit.status == 0);
	outcome_done(&o);
	run_command(c,
		&(struct command){.argv = ARGV("wc", "-c"),
			.flags = AGENT_EXEC_STDIN,
			.input = "",
			.input_bytes = 0},
		&o);
	CHECK(output_is(&o.out, "0\n"));
	outcome_done(&o);
}

static void test_environment(void)
{
	static const char *const sandbox[] = {"A=sandbox", "B=sandbox", "EMPTY="};
	struct agent_identity id = {.fields = AGENT_ID_ENV, .env = {.array = sandbox, .count = 3}};
	struct agent_conn *c = dial_agent();
	struct outcome o;

	CHECK(agent_identity(c, soon(), &id, NULL, NULL) == 0);
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c",
					  "echo $A:$B:${EMPTY-unset}:$HOME:$USER:$LOGNAME:$C"),
			.env = ARGV("B=request", "C=c=d", "C=last"),
			.user = "root"},
		&o);
	CHECK(output_is(&o.out, "sandbox:request::/root:root:root:last\n"));
	outcome_done(&o);
	run_command(c,
		&(struct command){
			.argv = ARGV("env"), .env = ARGV("HOME=/x", "PATH=/usr/bin:/bin")},
		&o);
	CHECK(memmem(buf_head(&o.out), buf_len(&o.out), "HOME=/x\n", 8));
	CHECK(!memmem(buf_head(&o.out), buf_len(&o.out), "HOME=/root", 10));
	outcome_done(&o);
	id.env.count = 0;
	CHECK(agent_identity(c, soon(), &id, NULL, NULL) == 0);
	run_shell(c, "echo ${A-unset}", &o);
	CHECK(output_is(&o.out, "unset\n"));
	outcome_done(&o);
}

/* A fresh process: no descriptors, signals or groups of the agent's. */
static void test_clean_child(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	run_shell(c, "ls /proc/self/fd | tr '\\n' ' '", &o);
	CHECK(output_is(&o.out, "0 1 2 3 ")); /* 3: ls reads the directory */
	outcome_done(&o);
	/* Signals 32 and 33 are the C library's own and cannot be reset through it: what started
	 * the test may have left them ignored. */
	run_shell(c,
		"cat /proc/self/status | grep -E 'Sig(Blk|Ign|Cgt)' | tr -d '\\t\\n' | "
		"sed 's/SigIgn:0000000[01][08]0000000/SigIgn:0000000000000000/'",
		&o);
	CHECK(output_is(
		&o.out, "SigBlk:0000000000000000SigIgn:0000000000000000SigCgt:0000000000000000"));
	outcome_done(&o);
	run_shell(c, "set -- $(cat /proc/$$/stat); [ $5 = $$ ] && [ $6 = $$ ] && umask", &o);
	CHECK(output_is(&o.out, "0022\n"));
	outcome_done(&o);
}

static void expect_error(
	const struct command *k, unsigned class, unsigned err, enum error_code code)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev = {.type = AGENT_ERROR};
	struct error e = {0};
	struct outcome o;

	run_command(c, k, &o);
	outcome_done(&o);
	CHECK(o.failed && o.error.class == class && o.error.request == AGENT_EXEC);
	CHECK(o.error.err == err);
	ev.error = o.error;
	CHECK(agent_event_error(&ev, &e) < 0 && e.code == code);
	/* The connection is still good. */
	run_shell(c, "echo on", &o);
	CHECK(output_is(&o.out, "on\n"));
	outcome_done(&o);
}

static void write_script(const char *name, const char *text, int mode, char out[5000])
{
	int fd;

	(void)snprintf(out, 5000, "%s/%s", work_dir, name);
	fd = open(out, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, mode);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		test_fail("cannot write %s", out);
	if (fd >= 0)
		(void)close(fd);
}

static void test_exec_errors(void)
{
	char no_exec[5000], no_interpreter[5000], no_shebang[5000];

	write_script("no-exec", "#!/bin/sh\n", 0644, no_exec);
	write_script("no-interpreter", "#!/does/not/exist\n", 0755, no_interpreter);
	write_script("no-shebang", "text\n", 0755, no_shebang);
	expect_error(&(struct command){.argv = ARGV("no-such-command")}, AGENT_ERR_NO_COMMAND,
		ENOENT, ERROR_NO_COMMAND);
	expect_error(&(struct command){.argv = ARGV("/no/such/command")}, AGENT_ERR_NO_COMMAND,
		ENOENT, ERROR_NO_COMMAND);
	expect_error(&(struct command){.argv = ARGV("")}, AGENT_ERR_NO_COMMAND, ENOENT,
		ERROR_NO_COMMAND);
	expect_error(&(struct command){.argv = ARGV(no_exec)}, AGENT_ERR_NOT_EXECUTABLE, EACCES,
		ERROR_NOT_EXECUTABLE);
	expect_error(&(struct command){.argv = ARGV(no_interpreter)}, AGENT_ERR_NOT_EXECUTABLE,
		ENOENT, ERROR_NOT_EXECUTABLE);
	expect_error(&(struct command){.argv = ARGV(no_shebang)}, AGENT_ERR_NOT_EXECUTABLE, ENOEXEC,
		ERROR_NOT_EXECUTABLE);
	expect_error(&(struct command){.argv = ARGV("/tmp")}, AGENT_ERR_NOT_EXECUTABLE, EACCES,
		ERROR_NOT_EXECUTABLE);
	expect_error(&(struct command){.argv = ARGV("true"), .cwd = "/no/such"}, AGENT_ERR_BAD_CWD,
		ENOENT, ERROR_USAGE);
	expect_error(&(struct command){.argv = ARGV("true"), .user = "nosuchuser"},
		AGENT_ERR_BAD_USER, ENOENT, ERROR_USAGE);
}

static void test_users(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	if (geteuid() != 0) {
		test_skip("needs root");
		return;
	}
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "id -u; id -g; id -G; echo $HOME"),
			.user = "12345:23456",
			.cwd = "/"},
		&o);
	CHECK(output_is(&o.out, "12345\n23456\n23456\n/\n"));
	outcome_done(&o);
	run_command(c, &(struct command){.argv = ARGV("id", "-un"), .user = "daemon"}, &o);
	CHECK(output_is(&o.out, "daemon\n"));
	outcome_done(&o);
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "touch /root/x 2>&1 || echo no"),
			.user = "daemon",
			.cwd = "/"},
		&o);
	CHECK(memmem(buf_head(&o.out), buf_len(&o.out), "no\n", 3));
	outcome_done(&o);
	expect_error(&(struct command){.argv = ARGV("true"), .user = "daemon:nosuchgroup"},
		AGENT_ERR_BAD_USER, ENOENT, ERROR_USAGE);
}

static void test_cwd(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	run_command(c, &(struct command){.argv = ARGV("pwd"), .cwd = "/usr/../tmp/./"}, &o);
	CHECK(output_is(&o.out, "/tmp\n"));
	outcome_done(&o);
	run_command(c, &(struct command){.argv = ARGV("pwd"), .user = "root"}, &o);
	CHECK(output_is(&o.out, "/root\n"));
	outcome_done(&o);
}

static void test_pty(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	run_command(c,
		&(struct command){
			.argv = ARGV("sh", "-c", "stty size; tty; test -t 0 && echo $TERM"),
			.flags = AGENT_EXEC_PTY,
			.cols = 101,
			.rows = 37},
		&o);
	CHECK(buf_len(&o.out) > 6 && memcmp(buf_head(&o.out), "37 101\r\n/dev/pts/", 17) == 0);
	CHECK(memmem(buf_head(&o.out), buf_len(&o.out), "xterm-256color\r\n", 16));
	CHECK(o.exit.status == 0 && o.exit.flags == 0);
	outcome_done(&o);
	CHECK(start_shell(c,
		"trap 'stty size; exit 4' WINCH; echo go; while :; do sleep 0.05; done",
		AGENT_EXEC_PTY));
	pause_ms(100);
	CHECK(agent_send_resize(c, 132, 43) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "go\r\n43 132\r\n") && o.exit.status == 4);
	outcome_done(&o);
}

/* Reads a terminal's first bytes: the program has come so far. */
static void await_output(struct agent_conn *c, const char *text)
{
	struct agent_event ev;
	size_t n = 0;

	while (n < strlen(text)) {
		CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_PTY);
		if (ev.type != AGENT_PTY || n + ev.length > strlen(text) ||
			memcmp(text + n, ev.data, ev.length) != 0)
			return; /* what is collected then shows it */
		n += ev.length;
	}
}

static void test_pty_input(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;

	CHECK(start_shell(
		c, "stty -echo; echo ready; read a; echo \"<$a>\"; cat; echo end", AGENT_EXEC_PTY));
	await_output(c, "ready\r\n");
	CHECK(agent_send_stdin(c, "hello\nx\n\4", 9) == 9);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "<hello>\r\nx\r\nend\r\n"));
	outcome_done(&o);
	/* The terminal's interrupt key. */
	CHECK(start_shell(c, "sleep 30", AGENT_EXEC_PTY));
	pause_ms(100);
	CHECK(agent_send_stdin(c, "\3", 1) == 1);
	collect(c, &o, NULL, 0);
	CHECK(o.exit.flags == AGENT_EXIT_SIGNALED && o.exit.status == SIGINT);
	outcome_done(&o);
}

static void test_timeout(void)
{
	struct agent_conn *c = dial_agent();
	uint64_t begin = clock_monotonic_ns();
	struct outcome o;

	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "echo a; sleep 30"), .timeout_ms = 200},
		&o);
	CHECK(output_is(&o.out, "a\n"));
	outcome_done(&o);
	CHECK(o.exit.flags == (AGENT_EXIT_SIGNALED | AGENT_EXIT_TIMED_OUT) &&
		o.exit.status == SIGKILL);
	/* A grandchild in a session of its own keeps the pipe open: not waited for. */
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "setsid sleep 5 & echo a; sleep 30"),
			.timeout_ms = 200},
		&o);
	outcome_done(&o);
	CHECK(o.exit.flags & AGENT_EXIT_TIMED_OUT);
	CHECK(clock_monotonic_ns() - begin < 3 * NS_PER_S);
}

/* The limit holds although the command itself has exited, while others hold its output open. */
static void test_timeout_of_what_stays(void)
{
	struct agent_conn *c = dial_agent();
	uint64_t begin = clock_monotonic_ns();
	struct outcome o;

	run_command(c,
		&(struct command){
			.argv = ARGV("sh", "-c", "sleep 30 & echo a; exit 3"), .timeout_ms = 1000},
		&o);
	CHECK(output_is(&o.out, "a\n"));
	outcome_done(&o);
	CHECK(o.exit.flags == AGENT_EXIT_TIMED_OUT && o.exit.status == 3);
	/* Nothing of its group is left: it was not killed, but its stream ends. */
	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", "setsid sleep 30 & echo a; sleep 0.1"),
			.timeout_ms = 1500},
		&o);
	CHECK(output_is(&o.out, "a\n"));
	outcome_done(&o);
	CHECK(o.exit.flags == 0 && o.exit.status == 0);
	CHECK(clock_monotonic_ns() - begin < 25 * NS_PER_S); /* not as long as what stays */
}

static void test_background_holds_output(void)
{
	struct agent_conn *c = dial_agent();
	uint64_t begin = clock_monotonic_ns();
	struct outcome o;

	run_shell(c, "(sleep 0.6; echo late) & echo early", &o);
	CHECK(output_is(&o.out, "early\nlate\n"));
	outcome_done(&o);
	CHECK(clock_monotonic_ns() - begin > 500 * NS_PER_MS);
	/* After a kill through us it is not waited for. */
	CHECK(start_shell(c, "setsid sleep 5 & sleep 30", 0));
	pause_ms(100);
	begin = clock_monotonic_ns();
	CHECK(agent_send_signal(c, SIGKILL, 0) == 0);
	collect(c, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.exit.status == SIGKILL && clock_monotonic_ns() - begin < 2 * NS_PER_S);
}

static void test_many(void)
{
	enum { N = 100 };
	struct agent_conn *c[N];
	const char *const *argv = ARGV("sh", "-c", "read x; echo $x; exit 7");
	struct outcome o;

	for (int i = 0; i < N; i++) {
		struct command k = {.argv = argv, .flags = AGENT_EXEC_STDIN};
		struct agent_exec x;

		c[i] = dial_agent();
		make_exec(&k, &x);
		CHECK(agent_exec_start(c[i], &x, NULL) == 0);
		CHECK(agent_flush(c[i], NULL) == 1);
	}
	for (int i = N - 1; i >= 0; i--) {
		char line[16];

		(void)snprintf(line, sizeof(line), "n%d\n", i);
		collect(c[i], &o, line, strlen(line));
		CHECK(output_is(&o.out, line) && o.exit.status == 7);
		outcome_done(&o);
	}
}

static void test_orphans(void)
{
	struct agent_conn *c = dial_agent();
	struct outcome o;
	unsigned pid;

	/* A grandchild whose parent is gone falls to the agent, which must not leave a zombie. */
	run_shell(c, "(setsid sh -c 'echo $$; exec sleep 0.3' </dev/null 2>/dev/null & ) ; exit 0",
		&o);
	(void)buf_add(&o.out, "", 1);
	pid = (unsigned)atoi((const char *)buf_head(&o.out));
	outcome_done(&o);
	CHECK(pid > 1 && gone(pid, 3000));
}

static void test_kill_on_close(void)
{
	struct agent_conn *c = dial_agent();
	uint32_t pid, stubborn;
	int fd;

	pid = start_shell(c, "sleep 60 & wait", AGENT_EXEC_KILL_ON_CLOSE);
	CHECK(pid);
	fd = dup(agent_fd(c));
	(void)shutdown(fd, 2);
	(void)close(fd);
	CHECK(gone(pid, 900)); /* by the hang-up already */
	c = dial_agent();
	stubborn = start_shell(c, "trap '' HUP; sleep 60", AGENT_EXEC_KILL_ON_CLOSE);
	pause_ms(100);
	(void)shutdown(agent_fd(c), 2);
	pause_ms(300);
	CHECK(kill((pid_t)stubborn, 0) == 0);
	CHECK(gone(stubborn, 3000));
}

static void test_survives_close(void)
{
	struct agent_selector s = {0};
	struct agent_attach a;
	struct agent_conn *c = dial_agent();
	struct outcome o;
	uint32_t pid = start_shell(c, "sleep 0.5; yes | head -c 300000; sleep 0.1; exit 9", 0);

	CHECK(pid);
	(void)shutdown(agent_fd(c), 2);
	CHECK(gone(pid, 5000)); /* its output was drained, or it would hang */
	s.pid = pid;
	a.process = s;
	c = dial_agent();
	CHECK(agent_request(c, AGENT_ATTACH, &a, NULL) == 0);
	collect(c, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.pid == pid && o.exit.status == 9);
}

static void test_detached(void)
{
	const char *const *argv = ARGV("sh", "-c", "sleep 0.3; exit 6");
	struct agent_conn *c = dial_agent();
	struct command k = {.argv = argv, .flags = AGENT_EXEC_DETACHED, .tag = "bg"};
	struct agent_attach a = {{.tag = "bg"}};
	struct agent_event ev;
	struct agent_exec x;
	struct outcome o;

	make_exec(&k, &x);
	CHECK(agent_exec_start(c, &x, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_STARTED);
	/* The tag is taken, the connection is free. */
	CHECK(agent_exec_start(c, &x, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ERROR);
	CHECK(ev.error.class == AGENT_ERR_EXISTS);
	CHECK(agent_request(c, AGENT_ATTACH, &a, NULL) == 0);
	collect(c, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.exit.status == 6);
}

static uint32_t start_entry(struct agent_conn *c, const char *script)
{
	const char *const *argv = ARGV("sh", "-c", script);
	struct command k = {.argv = argv,
		.flags =
			AGENT_EXEC_DETACHED | AGENT_EXEC_KEEP | AGENT_EXEC_BRIEF | AGENT_EXEC_STDIN,
		.tag = ENTRY_TAG};
	struct agent_event ev;
	struct agent_exec x;

	make_exec(&k, &x);
	if (agent_exec_start(c, &x, NULL) < 0 || agent_wait_event(c, soon(), &ev, NULL) < 0 ||
		ev.type != AGENT_STARTED)
		return 0;
	return ev.started.pid;
}

/* Its output and its end are for the first who attaches, and for no other. */
static void test_kept(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev;
	struct outcome o;

	CHECK(start_entry(c, "echo before; read x; echo got $x; exit 3"));
	pause_ms(50); /* nobody takes what it says */
	CHECK(agent_attach_start(c, ENTRY_TAG, NULL) == 0 && agent_stdin_room(c) == 0);
	collect(c, &o, "hello\n", 6);
	CHECK(output_is(&o.out, "before\ngot hello\n") && o.exit.status == 3);
	outcome_done(&o);
	CHECK(agent_attach_start(c, ENTRY_TAG, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ERROR);
	CHECK(ev.error.class == AGENT_ERR_NOT_FOUND);
	/* so is input that was sent with it */
	CHECK(agent_attach_feeding(c, ENTRY_TAG, NULL) == 0);
	CHECK(agent_send_stdin(c, "lost\n", 5) == 5);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ERROR);
	CHECK(agent_stdin_room(c) == 0);
	CHECK(start_entry(c, "read x; echo got $x"));
	CHECK(agent_attach_feeding(c, ENTRY_TAG, NULL) == 0);
	CHECK(agent_send_stdin(c, "at once\n", 8) == 8);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "got at once\n"));
	outcome_done(&o);
	/* it ends before anybody comes, and leaves a child that holds its output */
	CHECK(start_entry(c, "sleep 30 & echo all; exit 4"));
	pause_ms(400);
	CHECK(agent_attach_start(c, ENTRY_TAG, NULL) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "all\n") && o.exit.status == 4);
	outcome_done(&o);
}

/* A program that stands at its input is found, and so is a child; one that does not is ended. */
static void test_entry(void)
{
	static const struct {
		const char *script;
		int result;
	} cases[] = {
		{"read x", 1},
		{"python3 -c 'import sys; sys.stdin.read()'; true", 1},
		{"python3 -c 'import select; p = select.epoll(); p.register(0); p.poll()'", 1},
		{"python3 -c 'import select; p = select.poll(); p.register(0); p.poll()'", 1},
		{"python3 -c 'import select; select.select([0], [], [])'", 1},
		/* another input than its own */
		{"sleep 1000 | (read x; true)", 0},
		{"exit 0", 0},
		{"echo it is wrong >&2; exit 7", -ECHILD},
	};
	const struct entry_port no_port = {.port = 0};
	struct agent_conn *c = dial_agent();
	struct error e = {0};
	struct outcome o;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t pid = start_entry(c, cases[i].script);

		CHECK(pid);
		CHECK(entry_await(c, pid, &no_port, cases[i].result == 0 ? 2 : 10, &e) ==
			cases[i].result);
		if (cases[i].result != 1)
			continue;
		CHECK(kill(-(pid_t)pid, SIGKILL) == 0);
		CHECK(agent_attach_start(c, ENTRY_TAG, NULL) == 0); /* frees the tag */
		collect(c, &o, NULL, 0);
		outcome_done(&o);
	}
	CHECK(strstr(e.message, "status 7") && strstr(e.message, "it is wrong") &&
		strstr(e.message, "--start cold"));
}

/* Answers pings as `answers` says, a line each, the last one for ever; prints its port. */
#define LISTENER                                                                                   \
	"python3 -c 'import http.server as h, sys\n"                                               \
	"answers = sys.argv[1].split(\"|\")\n"                                                     \
	"class H(h.BaseHTTPRequestHandler):\n"                                                     \
	"    def do_GET(self):\n"                                                                  \
	"        code, _, text = (answers.pop(0) if answers[1:] else answers[0]).partition(\" "    \
	"\")\n"                                                                                    \
	"        self.send_response(int(code) if self.path == \"/ping\" else 418)\n"               \
	"        self.end_headers()\n"                                                             \
	"        self.wfile.write(text.encode())\n"                                                \
	"    def log_message(self, *a): pass\n"                                                    \
	"s = h.HTTPServer((\"127.0.0.1\", 0), H)\n"                                                \
	"open(sys.argv[2], \"w\").write(str(s.server_port))\n"                                     \
	"s.serve_forever()' "

static int dial_test(void *arg, struct agent_conn **ret, struct error *e)
{
	int fd = raw_socket(),
	    r = fd < 0 ? -ECONNREFUSED : agent_open(fd, AGENT_OPEN_PREAMBLE, ret, e);

	if (r < 0 && fd >= 0)
		(void)close(fd);
	return r;
}

static uint16_t await_port(const char *path)
{
	for (unsigned i = 0; i < 500; i++) {
		FILE *f = fopen(path, "r");
		unsigned port = 0;
		int n = f ? fscanf(f, "%u", &port) : 0;

		if (f)
			(void)fclose(f);
		if (n == 1)
			return (uint16_t)port;
		pause_ms(20);
	}
	return 0;
}

/* One that listens waits when it answers GET /ping as AgentCore wants it, or has no /ping. */
static void test_ping(void)
{
	static const struct {
		const char *answers;
		int result;
	} cases[] = {
		{"200 {\"status\": \"Healthy\", \"time_of_last_update\": 1}", 1},
		{"503 |200 {\"status\": \"Unhealthy\"}|200 {\"status\": \"HealthyBusy\"}", 1},
		{"404 none", 1},
		{"200 {\"status\": \"Unhealthy\"}", 0},
		{"500 ", 0},
	};
	char script[16384], path[4200];
	struct agent_conn *c = dial_agent();
	struct entry_port port = {.dialler = {.dial = dial_test}};
	struct error e = {0};

	(void)snprintf(path, sizeof(path), "%s/port", work_dir);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint32_t pid;
		struct outcome o;

		(void)unlink(path);
		(void)snprintf(script, sizeof(script), LISTENER "'%s' %s", cases[i].answers, path);
		pid = start_entry(c, script);
		CHECK(pid);
		port.port = await_port(path);
		CHECK(port.port);
		CHECK(entry_await(c, pid, &port, cases[i].result == 0 ? 2 : 10, &e) ==
			cases[i].result);
		if (cases[i].result != 1)
			continue;
		CHECK(kill(-(pid_t)pid, SIGKILL) == 0);
		CHECK(agent_attach_start(c, ENTRY_TAG, NULL) == 0); /* frees the tag */
		collect(c, &o, NULL, 0);
		outcome_done(&o);
	}
}

static void test_attach(void)
{
	struct agent_conn *first = dial_agent(), *second = dial_agent();
	struct agent_attach a;
	struct outcome o;
	uint32_t pid;

	pid = start_shell(
		first, "read x; echo got $x; seq 1 20000 | md5sum; exit 2", AGENT_EXEC_STDIN);
	a.process = (struct agent_selector){.pid = pid};
	CHECK(agent_request(second, AGENT_ATTACH, &a, NULL) == 0 && agent_flush(second, NULL) == 1);
	pause_ms(50);
	CHECK(agent_send_stdin(first, "it\n", 3) == 3);
	collect(first, &o, NULL, 0);
	CHECK(o.exit.status == 2 && memcmp(buf_head(&o.out), "got it\n", 7) == 0);
	outcome_done(&o);
	collect(second, &o, NULL, 0);
	CHECK(o.exit.status == 2 && o.pid == pid && memcmp(buf_head(&o.out), "got it\n", 7) == 0);
	outcome_done(&o);
	a.process.pid = 999999999;
	CHECK(agent_request(second, AGENT_ATTACH, &a, NULL) == 0);
	collect(second, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.failed && o.error.class == AGENT_ERR_NOT_FOUND);
}

static void test_stop(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev;
	struct outcome o;
	uint32_t pid = start_shell(c, "sleep 0.4; exit 3", AGENT_EXEC_KILL_ON_CLOSE);

	CHECK(agent_request(c, AGENT_STOP, NULL, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_END);
	run_shell(c, "echo next", &o);
	CHECK(output_is(&o.out, "next\n"));
	outcome_done(&o);
	CHECK(kill((pid_t)pid, 0) == 0 && gone(pid, 3000));
}

static int one_shot(enum agent_type type, const void *m, unsigned *class)
{
	struct agent_event ev = {0};
	int r = agent_call(dial_agent(), soon(), type, m, AGENT_OK, &ev, NULL);

	*class = ev.type == AGENT_ERROR ? ev.error.class : 0;
	return r;
}

static void test_one_shots(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_selector s = {.pid = start_shell(c, "cat; echo end", AGENT_EXEC_STDIN)};
	struct agent_input in = {s, AGENT_INPUT_STDIN, (const uint8_t *)"text\n", 5};
	struct agent_close_input close_in = {s};
	struct agent_resize_process size = {s, 10, 10};
	struct agent_signal_process sig = {s, 77, 0};
	struct outcome o;
	unsigned class;

	CHECK(one_shot(AGENT_INPUT, &in, &class) == 0);
	in.flags = AGENT_INPUT_PTY;
	CHECK(one_shot(AGENT_INPUT, &in, &class) < 0 && class == AGENT_ERR_WRONG_KIND);
	CHECK(one_shot(AGENT_RESIZE_PROCESS, &size, &class) < 0 && class == AGENT_ERR_WRONG_KIND);
	CHECK(one_shot(AGENT_SIGNAL_PROCESS, &sig, &class) < 0 && class == AGENT_ERR_UNSUPPORTED);
	CHECK(one_shot(AGENT_CLOSE_INPUT, &close_in, &class) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "text\nend\n"));
	outcome_done(&o);
	sig.signo = SIGTERM;
	CHECK(one_shot(AGENT_SIGNAL_PROCESS, &sig, &class) < 0 && class == AGENT_ERR_NOT_FOUND);
	s.pid = start_shell(c, "exec 0<&-; sleep 30", AGENT_EXEC_STDIN);
	sig.process = in.process = close_in.process = s;
	in.flags = 0;
	pause_ms(100);
	CHECK(one_shot(AGENT_INPUT, &in, &class) < 0 && class == AGENT_ERR_INPUT_CLOSED);
	CHECK(one_shot(AGENT_CLOSE_INPUT, &close_in, &class) == 0);
	CHECK(one_shot(AGENT_SIGNAL_PROCESS, &sig, &class) == 0);
	collect(c, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.exit.flags == (AGENT_EXIT_SIGNALED | AGENT_EXIT_UNREAD) &&
		o.exit.status == SIGTERM);
}

static bool is_stopped(uint32_t pid)
{
	char path[64], text[256] = "";
	FILE *f;

	(void)snprintf(path, sizeof(path), "/proc/%u/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return false;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	(void)fclose(f); /* it was only read */
	return strstr(text, ") T ") != NULL;
}

/* INPUT is answered only when the process took it, and several wait for their turn. */
static void test_input_waits(void)
{
	enum { PIECE = 65536, PIECES = 8 };
	struct agent_conn *c = dial_agent(), *senders[PIECES];
	uint8_t *data = calloc(1, PIECE);
	uint32_t pid = start_shell(c, "kill -STOP $$; wc -c", AGENT_EXEC_STDIN);
	struct agent_input in = {{.pid = pid}, 0, data, PIECE};
	struct agent_close_input end = {{.pid = pid}};
	struct agent_event ev;
	struct outcome o;
	unsigned early = 0;
	bool taken[PIECES], ok = true;

	for (int i = 0; i < PIECES; i++) {
		senders[i] = dial_agent();
		ok &= agent_request(senders[i], AGENT_INPUT, &in, NULL) == 0 &&
		      agent_flush(senders[i], NULL) == 1;
	}
	free(data);
	while (!is_stopped(pid))
		pause_ms(10);
	pause_ms(100);
	for (int i = 0; i < PIECES; i++) { /* the agent reads its connections in any order */
		taken[i] = agent_next_event(senders[i], &ev, NULL) == 1;
		ok &= !taken[i] || ev.type == AGENT_OK;
		early += taken[i];
	}
	CHECK(early <= 2);
	CHECK(kill((pid_t)pid, SIGCONT) == 0);
	for (int i = 0; i < PIECES; i++)
		if (!taken[i])
			ok &= agent_wait_event(senders[i], soon(), &ev, NULL) == 1 &&
			      ev.type == AGENT_OK;
	CHECK(ok);
	CHECK(agent_call(senders[0], soon(), AGENT_CLOSE_INPUT, &end, AGENT_OK, &ev, NULL) == 0);
	collect(c, &o, NULL, 0);
	CHECK(output_is(&o.out, "524288\n"));
	outcome_done(&o);
}

static void test_list(void)
{
	struct agent_conn *c = dial_agent(), *l = dial_agent();
	const char *const *argv = ARGV("sh", "-c", "sleep 30");
	struct command k = {.argv = argv, .env = ARGV("K=v"), .cwd = "/tmp", .tag = "listed"};
	struct agent_signal_process kill_it = {{.tag = "listed"}, SIGKILL, 0};
	struct agent_event ev;
	struct agent_exec x;
	unsigned found = 0;
	const char *s;
	size_t pos = 0;

	make_exec(&k, &x);
	CHECK(agent_exec_start(c, &x, NULL) == 0);
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_STARTED);
	CHECK(agent_request(l, AGENT_LIST_PROCESSES, NULL, NULL) == 0);
	while (agent_wait_event(l, soon(), &ev, NULL) == 1 && ev.type == AGENT_PROCESS) {
		CHECK(agent_exec_decode(ev.process.exec, ev.process.exec_bytes, &x) == 0);
		if (strcmp(x.tag, "listed") != 0)
			continue;
		found++;
		CHECK(x.argv.count == 3 && x.env.count == 1 && strcmp(x.cwd, "/tmp") == 0);
		CHECK(agent_strings_next(&x.argv, &pos, &s) && strcmp(s, "sh") == 0);
		CHECK(ev.process.started_ns > clock_realtime_ns() - 60 * NS_PER_S);
	}
	CHECK(ev.type == AGENT_END && found == 1);
	CHECK(agent_signal_process(l, soon(), &kill_it, NULL) == 0);
}

/* The restore path: identity and command in one write. */
static void test_pipelined(void)
{
	static const uint8_t entropy[64] = {1, 2, 3};
	static const char *const env[] = {"WHO=me"};
	struct agent_identity id = {.fields = AGENT_ID_CLOCK | AGENT_ID_ENTROPY |
					      AGENT_ID_HOSTNAME | AGENT_ID_ENV |
					      AGENT_ID_MACHINE_ID,
		.realtime_ns = clock_realtime_ns(),
		.entropy = entropy,
		.entropy_bytes = sizeof(entropy),
		.hostname = "box",
		.machine_id = "0123456789abcdef0123456789abcdef",
		.env = {.array = env, .count = 1}};
	const char *const *argv = ARGV("sh", "-c", "echo $WHO");
	struct agent_conn *c = dial_agent();
	struct agent_event ev;
	struct agent_exec x;
	struct outcome o;

	make_exec(&(struct command){.argv = argv}, &x);
	CHECK(agent_request(c, AGENT_IDENTITY, &id, NULL) == 0);
	CHECK(agent_exec_start(c, &x, NULL) == 0);
	CHECK(agent_exec_start(c, &x, NULL) == 0); /* waits for the first one's end */
	CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_IDENTITY_REPLY);
	CHECK(ev.identity.attempted == id.fields && ev.identity.failed == 0);
	for (int i = 0; i < 2; i++) {
		collect(c, &o, NULL, 0);
		CHECK(output_is(&o.out, "me\n"));
		outcome_done(&o);
	}
	id.fields = AGENT_ID_MACHINE_ID | AGENT_ID_DISK | AGENT_ID_ENV;
	id.machine_id = "zzz";
	id.env.count = 0;
	CHECK(agent_call(c, soon(), AGENT_IDENTITY, &id, AGENT_IDENTITY_REPLY, &ev, NULL) == 0);
	CHECK(ev.identity.failed == (AGENT_ID_MACHINE_ID | AGENT_ID_DISK));
	CHECK(ev.identity.errs[3] == EINVAL && ev.identity.errs[7] == EOPNOTSUPP);
}

static void test_process_limit(void)
{
	struct agent_conn *c = dial_agent();
	const char *const *argv = ARGV("sleep", "60");
	struct command k = {.argv = argv, .flags = AGENT_EXEC_DETACHED};
	static uint32_t pids[AGENT_PROCESSES_MAX + 1];
	struct agent_event ev = {0};
	struct agent_exec x;
	unsigned n = 0;

	make_exec(&k, &x);
	for (; n <= AGENT_PROCESSES_MAX; n++) {
		CHECK(agent_exec_start(c, &x, NULL) == 0);
		CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1);
		if (ev.type != AGENT_STARTED)
			break;
		pids[n] = ev.started.pid;
	}
	for (unsigned i = 0; i < n; i++)
		(void)kill((pid_t)pids[i], SIGKILL);
	CHECK(ev.type == AGENT_ERROR && ev.error.class == AGENT_ERR_LIMIT);
	CHECK(n >= AGENT_PROCESSES_MAX - 8 && n <= AGENT_PROCESSES_MAX);
	for (unsigned i = 0; i < n; i++)
		CHECK(gone(pids[i], 5000));
}

static void test_metrics(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_metrics m;

	CHECK(start_shell(c, "sleep 30", AGENT_EXEC_KILL_ON_CLOSE));
	CHECK(agent_metrics(dial_agent(), soon(), &m, NULL) == 0);
	CHECK(m.cpus >= 1 && m.memory_total_bytes > m.memory_available_bytes && m.processes >= 1);
	CHECK(m.disk_total_bytes >= m.disk_available_bytes && m.uptime_ns && m.tasks > 1);
	CHECK(m.cpu_user_ns && m.cpu_idle_ns);
	CHECK(agent_sync(dial_agent(), soon(), 0, NULL) == 0);
}

const struct test process_tests[] = {
	{"hello", test_hello},
	{"exit codes", test_exit_codes},
	{"signalled", test_signalled},
	{"1 MiB both ways", test_bytes},
	{"standard input", test_stdin_null},
	{"environment", test_environment},
	{"clean child", test_clean_child},
	{"exec errors", test_exec_errors},
	{"users", test_users},
	{"working directory", test_cwd},
	{"pty size and resize", test_pty},
	{"pty input", test_pty_input},
	{"timeout", test_timeout},
	{"timeout-of-what-stays", test_timeout_of_what_stays},
	{"background output", test_background_holds_output},
	{"100 at once", test_many},
	{"orphans", test_orphans},
	{"kill on close", test_kill_on_close},
	{"survives close", test_survives_close},
	{"detached", test_detached},
	{"kept", test_kept},
	{"entry", test_entry},
	{"ping", test_ping},
	{"attach", test_attach},
	{"stop", test_stop},
	{"one-shot requests", test_one_shots},
	{"input waits", test_input_waits},
	{"list processes", test_list},
	{"pipelined", test_pipelined},
	{"process limit", test_process_limit},
	{"metrics and sync", test_metrics},
	{NULL, NULL},
};
