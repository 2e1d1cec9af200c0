/* TRACE: programs that other programs start, and how they end. Needs root in the machine's first
 * namespaces of processes and networks: the kernel tells nobody else. */
#include "agent_test.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"

enum { FIRST_PID_NAMESPACE = 0xeffffffc, MANY = 3000, SEEN_MAX = 64 };

/* What a TRACE told, in order, as far as SEEN_MAX. */
struct seen {
	struct program {
		struct agent_program m;
		char command[AGENT_COMMAND_MAX + 1];
	} list[SEEN_MAX];
	unsigned count, starts, ends;
	uint64_t lost;
};

/* NULL: skipped, or failed. */
static struct agent_conn *open_trace(void)
{
	struct agent_conn *c = dial_agent();
	struct agent_event ev;
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) < 0 || st.st_ino != FIRST_PID_NAMESPACE) {
		test_skip("not in the machine's namespace of processes");
		return NULL;
	}
	if (agent_request(c, AGENT_TRACE, NULL, NULL) < 0 ||
		agent_wait_event(c, soon(), &ev, NULL) != 1) {
		test_fail("no answer to TRACE");
		return NULL;
	}
	if (ev.type == AGENT_OK)
		return c;
	test_skip("the kernel tells no events of processes here");
	return NULL;
}

/* Waits for the next event. */
static bool next(struct agent_conn *c, struct seen *s)
{
	struct agent_event ev;
	struct program *p = &s->list[s->count < SEEN_MAX ? s->count : SEEN_MAX - 1];

	if (agent_wait_event(c, soon(), &ev, NULL) != 1 || ev.type != AGENT_PROGRAM)
		return false;
	p->m = ev.program;
	p->m.command = NULL;
	if (ev.program.command_bytes)
		memcpy(p->command, ev.program.command, ev.program.command_bytes);
	p->command[ev.program.command_bytes] = '\0';
	s->count++;
	s->starts += ev.program.event == AGENT_PROGRAM_STARTED;
	s->ends += ev.program.event == AGENT_PROGRAM_ENDED;
	if (ev.program.event == AGENT_PROGRAM_LOST)
		s->lost += ev.program.value;
	return true;
}

static const struct program *newest(const struct seen *s)
{
	return &s->list[s->count < SEEN_MAX ? s->count - 1 : SEEN_MAX - 1];
}

static bool is_command(const struct program *p, const char *words, size_t n)
{
	return p->m.command_bytes == n && memcmp(p->command, words, n) == 0;
}

/* Each program waits for a line, so its arguments can be read while it is there. */
static const char script[] = "sh -c 'read _; exit 7'; sh -c 'read _; kill -KILL $$'; exec cat -";

static bool say_line(struct agent_conn *c)
{
	return agent_send_stdin(c, "\n", 1) == 1 && agent_flush(c, NULL) == 1;
}

static struct agent_conn *start_script(uint32_t *ret_pid)
{
	const char *const argv[] = {"/bin/sh", "-c", script, NULL};
	const struct command k = {.argv = argv, .flags = AGENT_EXEC_STDIN};
	struct agent_conn *c = dial_agent();
	struct agent_exec x;
	struct agent_event ev;

	make_exec(&k, &x);
	if (agent_exec_start(c, &x, NULL) < 0 || agent_wait_event(c, soon(), &ev, NULL) != 1 ||
		ev.type != AGENT_STARTED)
		return NULL;
	*ret_pid = ev.started.pid;
	return c;
}

static void test_trace(void)
{
	static const char first[] = "sh\0-c\0read _; exit 7", last[] = "cat\0-";
	_cleanup_free_ struct seen *s = calloc(1, sizeof(*s));
	struct agent_conn *trace = open_trace(), *c;
	const struct program *p = s ? s->list : NULL;
	uint32_t pid = 0;

	if (!trace)
		return;
	c = start_script(&pid);
	CHECK(s && c && next(trace, s)); /* not the shell itself: EXEC told of it */
	CHECK(p[0].m.event == AGENT_PROGRAM_STARTED && is_command(&p[0], first, sizeof(first)));
	CHECK(p[0].m.parent == pid && p[0].m.pid != pid && p[0].m.uid == geteuid());
	CHECK(say_line(c) && next(trace, s));
	CHECK(p[1].m.event == AGENT_PROGRAM_ENDED && p[1].m.pid == p[0].m.pid);
	CHECK(p[1].m.value == 7 << 8);
	CHECK(next(trace, s) && p[2].m.event == AGENT_PROGRAM_STARTED);
	CHECK(say_line(c) && next(trace, s));
	CHECK(p[3].m.event == AGENT_PROGRAM_ENDED && p[3].m.value == SIGKILL);
	CHECK(next(trace, s) && p[4].m.event == AGENT_PROGRAM_STARTED);
	CHECK(p[4].m.pid == pid && is_command(&p[4], last, sizeof(last)));
	CHECK(agent_send_stdin_eof(c) == 0 && agent_flush(c, NULL) == 1);
}

/* An argument is cut at its bytes. */
static void test_trace_long(void)
{
	_cleanup_free_ struct seen *s = calloc(1, sizeof(*s));
	struct agent_conn *trace = open_trace();

	if (!trace)
		return;
	CHECK(s && start_shell(dial_agent(), "sh -c 'sleep 30; :' $(seq 5000) & wait",
			   AGENT_EXEC_KILL_ON_CLOSE));
	do
		CHECK(next(trace, s));
	while (newest(s)->m.command_bytes < AGENT_COMMAND_MAX && s->count < SEEN_MAX);
	CHECK(newest(s)->m.command_bytes == AGENT_COMMAND_MAX);
}

/* Programs that start faster than they are told are counted, as far as the kernel says how many it
 * has dropped. Later ones are told again. */
static void test_trace_many(void)
{
	_cleanup_free_ struct seen *s = calloc(1, sizeof(*s));
	struct agent_conn *trace = open_trace();
	struct outcome o = {0};
	uint32_t pid;

	if (!trace)
		return;
	run_shell(dial_agent(),
		"for i in 1 2 3 4; do (n=0; while [ $n -lt 750 ]; do /bin/true; n=$((n+1)); done) &"
		" done; wait",
		&o);
	outcome_done(&o);
	while (s && !s->lost)
		CHECK(next(trace, s));
	CHECK(s && s->starts >= AGENT_PROGRAMS_PER_S / 2);
	CHECK(s->ends <= s->starts && s->starts + s->lost <= 2 * MANY);
	pid = start_shell(dial_agent(), "while sleep 0.3; do :; done", AGENT_EXEC_KILL_ON_CLOSE);
	do
		CHECK(pid && next(trace, s));
	while (newest(s)->m.parent != pid || newest(s)->m.event != AGENT_PROGRAM_STARTED);
}

/* The newest reader has the events, and the agent goes on when nobody has them. */
static void test_trace_ends(void)
{
	_cleanup_free_ struct seen *s = calloc(1, sizeof(*s));
	struct agent_conn *old = open_trace(), *new;
	struct agent_event ev;
	struct outcome o = {0};
	uint32_t pid;

	if (!old)
		return;
	new = open_trace();
	CHECK(new &&agent_wait_event(old, soon(), &ev, NULL) == -ECONNRESET);
	CHECK(s && start_script(&pid) && next(new, s));
	CHECK(agent_request(new, AGENT_STOP, NULL, NULL) == 0);
	do
		CHECK(agent_wait_event(new, soon(), &ev, NULL) == 1);
	while (ev.type == AGENT_PROGRAM);
	CHECK(ev.type == AGENT_END);
	run_shell(new, "/bin/echo after", &o); /* the connection takes requests again */
	CHECK(output_is(&o.out, "after\n"));
	outcome_done(&o);
}

const struct test trace_tests[] = {
	{"trace", test_trace},
	{"trace_long", test_trace_long},
	{"trace_many", test_trace_many},
	{"trace_ends", test_trace_ends},
	{NULL, NULL},
};
