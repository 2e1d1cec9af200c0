#include "cli/code/code_repl.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/cli.h"
#include "cli/signals.h"

enum { LINE_BYTES = 4096 /* a terminal gives no longer ones */, INTERRUPTED = -EINTR };

struct repl {
	const struct code_sandbox *sandbox;
	const struct code_cell *like;
	int signal_fd;
	struct code_show *show;
	struct buf cell;
	bool over; /* standard input has ended */
};

static void prompt(const struct repl *r)
{
	(void)fputs(buf_len(&r->cell) ? "... " : ">>> ", stderr); /* a hint */
}

/* A line with its newline into the cell: its length, 0 at ^D, INTERRUPTED, or 128 + n. */
static ssize_t read_line(struct repl *r, int *ret_signal)
{
	char line[LINE_BYTES];
	ssize_t n;

	for (;;) {
		struct pollfd fds[] = {{.fd = STDIN_FILENO, .events = POLLIN},
			{.fd = r->signal_fd, .events = POLLIN}};

		if (poll(fds, ARRAY_SIZE(fds), -1) < 0)
			continue; /* EINTR */
		*ret_signal = signals_read(r->signal_fd);
		if (*ret_signal)
			return INTERRUPTED;
		if (fds[0].revents)
			break;
	}
	n = read(STDIN_FILENO, line, sizeof(line));
	if (n <= 0)
		return 0;
	return buf_add(&r->cell, line, (size_t)n) < 0 ? -ENOMEM : n;
}

/* 1: there is a cell; 0: none, go on; -errno with e. *ret_signal: one that ends the loop. */
static int read_cell(struct repl *r, int *ret_signal, struct error *e)
{
	buf_clear(&r->cell);
	for (;;) {
		size_t before = buf_len(&r->cell);
		ssize_t n;

		prompt(r);
		n = read_line(r, ret_signal);
		if (n == INTERRUPTED) {
			(void)fputc('\n', stderr); /* behind the prompt */
			return 0;
		}
		if (n < 0)
			return error_set(e, ERROR_LIMIT, EFBIG, "the cell is too long");
		if (n == 0) {
			(void)fputc('\n', stderr); /* as above */
			r->over = !before;
			return before > 0;
		}
		if (n == 1 && buf_head(&r->cell)[before] == '\n')
			return before > 0;
	}
}

static int run_cell(struct repl *r, struct error *e)
{
	struct code_cell cell = *r->like;
	struct error why = {0};
	int status;

	cell.source = (const char *)buf_head(&r->cell);
	cell.source_bytes = buf_len(&r->cell);
	status = code_run(r->sandbox, &cell, r->signal_fd, r->show, &why);
	if (status == 128 + SIGINT) {
		(void)fputs("\ninterrupted\n", stderr); /* a hint */
		return 0;
	}
	if (status >= 0)
		return status;
	if (why.code != ERROR_TIMEOUT && why.code != ERROR_LIMIT && why.code != ERROR_USAGE)
		return error_set(e, why.code, why.err, "%s", why.message);
	(void)cli_print_error(&why, false); /* the next cell may be a better one */
	return 0;
}

int code_repl(const struct code_sandbox *s, const struct code_cell *like, int signal_fd,
	struct code_show *show, struct error *e)
{
	struct repl r = {.sandbox = s,
		.like = like,
		.signal_fd = signal_fd,
		.show = show,
		.cell = BUF_INIT(CODE_SOURCE_MAX)};
	int status = 0;

	(void)fprintf(stderr, "%s in sandbox %s: an empty line runs the cell, ^D ends.\n",
		like->language, s->remote.id);
	while (status == 0 && !r.over) {
		int signo = 0;

		status = read_cell(&r, &signo, e);
		if (signo && signo != SIGINT)
			status = 128 + signo;
		else if (status > 0)
			status = run_cell(&r, e);
	}
	buf_done(&r.cell);
	return status;
}
