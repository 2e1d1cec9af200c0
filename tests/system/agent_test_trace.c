/* TRACE: programs that other programs start, and how they end. Needs root in the machine's first
 * namespaces of processes and networks: the kernel tells nobody else. And TRACE_FILES: files that
 * programs write; needs root, too. */
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
	CHECK(s && s->starts >= AGENT_REPORTS_PER_S / 2);
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

/* --- files --- */

/* A path below the work directory. */
static const char *below(const char *name)
{
	static char path[2 * sizeof(work_dir)];

	(void)snprintf(path, sizeof(path), "%s/%s", work_dir, name); /* short enough */
	return path;
}

static bool is_on(const char *dir)
{
	struct stat at, work;

	return stat(dir, &at) == 0 && stat(work_dir, &work) == 0 && at.st_dev == work.st_dev;
}

/* Of files outside the directory `project`. NULL: skipped, or failed. */
static struct agent_conn *open_trace_files(void)
{
	const char *const outside[] = {below("project")};
	const struct agent_trace_files m = {.outside = {.array = outside, .count = 1}};
	struct agent_conn *c = dial_agent();
	struct agent_event ev;

	if (!is_on("/") && !is_on("/tmp")) {
		test_skip("the tests' files are not where the agent looks");
		return NULL;
	}
	if (agent_request(c, AGENT_TRACE_FILES, &m, NULL) < 0 ||
		agent_wait_event(c, soon(), &ev, NULL) != 1) {
		test_fail("no answer to TRACE_FILES");
		return NULL;
	}
	if (ev.type == AGENT_OK)
		return c;
	test_skip("the kernel tells no events of files here");
	return NULL;
}

/* Waits for the next event; name: a written file of this name, or NULL for any. */
static bool next_file(struct agent_conn *c, const char *name, uint32_t pid, struct agent_file *ret)
{
	struct agent_event ev;

	if (agent_wait_event(c, soon(), &ev, NULL) != 1 || ev.type != AGENT_FILE)
		return false;
	*ret = ev.file;
	return !name || (ev.file.event == AGENT_FILE_WRITTEN && ev.file.pid == pid &&
				strcmp(ev.file.path, below(name)) == 0);
}

/* In the work directory. The process, or 0. */
static uint32_t start_there(const char *shell)
{
	char script_in[3 * sizeof(work_dir)];

	(void)snprintf(script_in, sizeof(script_in), "cd %s; %s", work_dir, shell); /* fits */
	return start_shell(dial_agent(), script_in, AGENT_EXEC_KILL_ON_CLOSE);
}

/* The shell does each by itself, and is there when the agent looks. */
static void test_trace_files(void)
{
	static const char shell[] =
		"mkdir -p project projects; echo x >project/in; cat project/in </dev/null; "
		"echo x >projects/out; echo x >>projects/out; exec 3>moved; mv moved now; exec "
		"3>&-; "
		"exec 3>gone; rm gone; exec 3>&-; : >last; sleep 60; :";
	struct agent_conn *c = open_trace_files();
	struct agent_file m;
	uint32_t pid;

	if (!c)
		return;
	pid = start_there(shell);
	CHECK(pid && next_file(c, "projects/out", pid, &m));
	CHECK(next_file(c, "now", pid, &m));
	CHECK(next_file(c, "gone", pid, &m));
	CHECK(next_file(c, "last", pid, &m));
}

/* What a client writes through the agent is none of a program's. */
static void test_trace_files_of_clients(void)
{
	struct agent_conn *c = open_trace_files(), *w = dial_agent();
	const struct agent_write m = {.mode = 0600, .path = below("client")};
	struct agent_file f;
	uint32_t pid;

	if (!c)
		return;
	CHECK(agent_write_file(w, soon(), &m, "x", 1, NULL) == 0);
	pid = start_there(": >program; sleep 60; :");
	CHECK(pid && next_file(c, "program", pid, &f));
}

/* Files that are written faster than they are told are counted. Later ones are told again. */
static void test_trace_files_many(void)
{
	struct agent_conn *c = open_trace_files();
	struct agent_file m;
	uint64_t lost = 0, written = 0;

	if (!c)
		return;
	CHECK(start_there("i=0; while [ $i -lt 3000 ]; do : >f$i; i=$((i+1)); done; rm f*; "
			  "while sleep 1.5; do : >again; done"));
	do {
		CHECK(next_file(c, NULL, 0, &m));
		written += m.event == AGENT_FILE_WRITTEN;
		lost += m.event == AGENT_FILE_LOST ? m.value : 0;
	} while (m.event == AGENT_FILE_LOST || strcmp(m.path, below("again")) != 0);
	CHECK(lost > 0 && written >= AGENT_REPORTS_PER_S && written + lost <= MANY + 2);
}

static void test_trace_files_refused(void)
{
	static const char *const wrong[] = {"project", "/project/", "/", ""};
	struct agent_conn *c = dial_agent();
	struct agent_event ev;

	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		const struct agent_trace_files m = {.outside = {.array = &wrong[i], .count = 1}};

		CHECK(agent_request(c, AGENT_TRACE_FILES, &m, NULL) == 0);
		CHECK(agent_wait_event(c, soon(), &ev, NULL) == 1 && ev.type == AGENT_ERROR);
		CHECK(ev.error.class == AGENT_ERR_INVALID);
	}
}

const struct test trace_tests[] = {
	{"trace", test_trace},
	{"trace_long", test_trace_long},
	{"trace_many", test_trace_many},
	{"trace_ends", test_trace_ends},
	{"trace_files", test_trace_files},
	{"trace_files_of_clients", test_trace_files_of_clients},
	{"trace_files_many", test_trace_files_many},
	{"trace_files_refused", test_trace_files_refused},
	{NULL, NULL},
};
