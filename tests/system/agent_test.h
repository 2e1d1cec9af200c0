/* Driver of an agent that runs as an ordinary process: what the test programs share. */
#ifndef TESTS_AGENT_TEST_H
#define TESTS_AGENT_TEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "agent_test_calls.h"
#include "sandbox/agent_call.h"

/* A failing check ends the test, and is printed with its place. */
#define CHECK(cond)                                                                                \
	do {                                                                                       \
		if (!(cond)) {                                                                     \
			test_fail("%s:%d: %s", __FILE__, __LINE__, #cond);                         \
			return;                                                                    \
		}                                                                                  \
	} while (0)

struct test {
	const char *name;
	void (*run)(void);
};

extern const struct test process_tests[], input_tests[], file_tests[], survey_tests[],
	trace_tests[], hostile_tests[];

void test_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void test_skip(const char *reason);

extern char work_dir[4096]; /* absolute, of the run */
extern pid_t agent_pid;

/* A connection, closed when the test ends. */
struct agent_conn *dial_agent(void);
void pause_ms(unsigned ms);
int raw_socket(void); /* closed by the caller */
uint64_t soon(void);  /* a deadline that only a hanging agent misses */
long agent_rss_kib(void);

/* A command and what came of it. */
struct outcome {
	struct buf out, err; /* PTY output is in out */
	struct agent_exit exit;
	struct agent_error error;
	char message[256];
	uint32_t pid;
	bool failed; /* an ERROR instead of a start */
	bool broken; /* the connection ended */
};
void outcome_done(struct outcome *o);

struct command {
	const char *const *argv; /* NULL-terminated */
	const char *const *env;	 /* the same, or NULL */
	const char *user, *cwd, *tag;
	unsigned flags, cols, rows, timeout_ms;
	const void *input; /* for AGENT_EXEC_STDIN: sent, then the end of file */
	size_t input_bytes;
};
#define ARGV(...) ((const char *const[]){__VA_ARGS__, NULL})
void make_exec(const struct command *k, struct agent_exec *x);
/* Reads events into o until EXIT, ERROR or the connection's end; input is sent meanwhile. */
void collect(struct agent_conn *c, struct outcome *o, const void *input, size_t n);
void run_command(struct agent_conn *c, const struct command *k, struct outcome *o);
void run_shell(struct agent_conn *c, const char *script, struct outcome *o);
/* Starts and waits for STARTED; the pid, or 0. */
uint32_t start_shell(struct agent_conn *c, const char *script, unsigned flags);
bool output_is(const struct buf *b, const char *text);
bool gone(uint32_t pid, unsigned ms); /* no such process (a zombie is one), within so long */

#endif
