/* Standard input: what of it programs read. */
#include <signal.h>
#include <stdlib.h>

#include "agent_test.h"

/* Whether an end says that nothing of the input was read. */
static bool is_unread(struct agent_conn *c, const char *script, unsigned flags, const void *input,
	size_t n, unsigned status)
{
	struct outcome o;
	bool unread;

	run_command(c,
		&(struct command){.argv = ARGV("sh", "-c", script),
			.flags = flags,
			.input = input,
			.input_bytes = n},
		&o);
	unread = !o.failed && o.exit.status == status && o.exit.flags & AGENT_EXIT_UNREAD;
	outcome_done(&o);
	return unread;
}

static void test_stdin_unread(void)
{
	enum { LONG = 300000 }; /* more than a pipe holds */
	struct agent_conn *c = dial_agent();
	char *text = calloc(1, LONG);

	CHECK(text);
	CHECK(is_unread(c, "exit 3", AGENT_EXEC_STDIN, "x", 1, 3));
	CHECK(is_unread(c, "sleep 0.2; exit 3", AGENT_EXEC_STDIN, "x", 1, 3));
	CHECK(is_unread(c, "sleep 0.2; exit 3", AGENT_EXEC_STDIN, text, LONG, 3));
	CHECK(is_unread(c, "exec <&-; sleep 0.2; exit 3", AGENT_EXEC_STDIN, text, LONG, 3));
	CHECK(!is_unread(c, "read x; exit 3", AGENT_EXEC_STDIN, "x", 1, 3));
	CHECK(!is_unread(
		c, "sleep 0.2; head -c 1 >/dev/null; exit 3", AGENT_EXEC_STDIN, text, LONG, 3));
	CHECK(!is_unread(c, "cat >/dev/null; exit 3", AGENT_EXEC_STDIN, text, LONG, 3));
	CHECK(!is_unread(c, "exit 3", 0, NULL, 0, 3));
	free(text);
}

/* A signal is not stuck behind input that nobody reads. */
static void test_signal_passes_input(void)
{
	static uint8_t zeros[AGENT_STDIN_WINDOW];
	struct agent_conn *c = dial_agent();
	struct outcome o;

	CHECK(start_shell(c, "sleep 30", AGENT_EXEC_STDIN));
	CHECK(agent_send_stdin(c, zeros, sizeof(zeros)) == (ssize_t)sizeof(zeros));
	CHECK(agent_stdin_room(c) == 0 && agent_send_stdin(c, zeros, 1) == 0);
	CHECK(agent_send_signal(c, SIGTERM, AGENT_SIGNAL_GROUP) == 0);
	collect(c, &o, NULL, 0);
	outcome_done(&o);
	CHECK(o.exit.flags == (AGENT_EXIT_SIGNALED | AGENT_EXIT_UNREAD));
	CHECK(o.exit.status == SIGTERM);
}

const struct test input_tests[] = {
	{"standard input that is not read", test_stdin_unread},
	{"signal passes input", test_signal_passes_input},
	{NULL, NULL},
};
