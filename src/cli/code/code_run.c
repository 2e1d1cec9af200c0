#include "cli/code/code_run.h"

#include <errno.h>
#include <signal.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/remote/aside.h"
#include "cli/signals.h"

enum { FD_SIGNAL, FD_CLIENT, FD_ASIDE, FD_SINK, FDS, POLL_MAX_MS = 60 * 1000 };

struct run {
	const struct code_sandbox *sandbox;
	struct client *client;
	struct aside aside;
	int signal_fd;
	struct code_show *show;
	uint64_t deadline_ns; /* UINT64_MAX: none */
	struct buf line;      /* what came of lines that were not taken yet */
	size_t searched;      /* of it, without a newline */
	bool ended;	      /* the last line was taken */
	int status;	      /* of a signal, 0: none */
};

int code_signals_open(int *ret_fd, struct error *e)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};

	return signals_open(signals, ARRAY_SIZE(signals), ret_fd, e);
}

/* --- the request --- */

static json_t *cell_json(const struct code_cell *cell)
{
	return json_pack("{s:s%, s:s*, s:s*, s:O*}", "code", cell->source, cell->source_bytes,
		"context_id", cell->context_id, "language",
		cell->context_id ? NULL : cell->language, "env_vars", cell->env);
}

static int ask(struct run *r, const struct code_cell *cell, struct error *e)
{
	json_t *body = cell_json(cell);
	_cleanup_free_ char *text = body ? json_dumps(body, JSON_COMPACT) : NULL;
	struct client_request request = code_request(r->sandbox, "POST", "/execute");
	int err;

	json_decref(body);
	if (!text)
		return error_set(e, ERROR_USAGE, EINVAL, "the cell or an option is not UTF-8");
	request.content_type = "application/json";
	request.length = (int64_t)strlen(text);
	err = client_open(&r->sandbox->remote.home, &r->client, e);
	if (err == 0)
		err = client_begin(r->client, &request, e);
	if (err == 0)
		err = client_send(r->client, text, strlen(text), e);
	return err == 0 ? client_end(r->client, e) : err;
}

/* --- the answer --- */

static int refusal(struct run *r, struct error *e)
{
	bool nobody = client_head(r->client)->status == 502;
	int err = client_refusal(r->client, e);

	if (nobody)
		error_prefix(e,
			"no code interpreter answers in sandbox %s (was it made from the template "
			"code-interpreter-v1?)",
			r->sandbox->remote.id);
	return err;
}

static int broken(struct error *e)
{
	return error_set(e, ERROR_SANDBOX, ECONNRESET,
		"the interpreter's answer broke off: the sandbox may have ended");
}

static int keep(struct run *r, struct error *e)
{
	size_t n;
	const uint8_t *data = client_body(r->client, &n);

	return buf_add(&r->line, data, n) < 0
		       ? error_set(e, ERROR_SANDBOX, EMSGSIZE, "a line is too long")
		       : 0;
}

/* 1: something came or ended; 0: not now. */
static int receive(struct run *r, struct error *e)
{
	enum client_event ev;
	int err = client_next(r->client, &ev, e);

	if (err < 0)
		return err;
	switch (ev) {
	case CLIENT_WAIT:
		return 0;
	case CLIENT_HEAD:
		err = client_head(r->client)->status == 200 ? 0 : refusal(r, e);
		break;
	case CLIENT_BODY:
		err = keep(r, e);
		break;
	default:
		err = broken(e);
	}
	return err < 0 ? err : 1;
}

/* 1: a line was taken; 0: there is no whole one. */
static int take_line(struct run *r, struct error *e)
{
	const uint8_t *head = buf_len(&r->line) ? buf_head(&r->line) : NULL;
	const uint8_t *end =
		head ? memchr(head + r->searched, '\n', buf_len(&r->line) - r->searched) : NULL;
	size_t n = end ? (size_t)(end - head) : 0;
	int err;

	r->searched = end ? 0 : buf_len(&r->line);
	if (!end)
		return 0;
	err = code_show_take(r->show, (const char *)head, n, e);
	buf_consume(&r->line, n + 1);
	r->ended = err > 0;
	return err < 0 ? err : 1;
}

/* --- the loop --- */

/* Takes what is there, as long as it can be shown. */
static int advance(struct run *r, struct error *e)
{
	int err = 1;

	while (err > 0 && !r->ended) {
		int gone = code_show_flush(r->show, e);

		if (gone > 0)
			r->status = 128 + SIGPIPE;
		if (gone || code_show_is_pending(r->show))
			return gone < 0 ? gone : 0;
		err = take_line(r, e);
		if (err == 0)
			err = receive(r, e);
	}
	return err < 0 ? err : 0;
}

static int poll_timeout_ms(const struct run *r)
{
	return clock_ms_until(
		r->deadline_ns < r->aside.renew_ns ? r->deadline_ns : r->aside.renew_ns,
		POLL_MAX_MS);
}

static int wait_for_more(struct run *r, struct error *e)
{
	struct pollfd fds[FDS] = {
		[FD_SIGNAL] = {.fd = r->signal_fd, .events = POLLIN},
		[FD_CLIENT] = client_poll(r->client, code_show_is_pending(r->show)),
		[FD_ASIDE] = aside_poll(&r->aside),
		[FD_SINK] = code_show_poll(r->show),
	};
	int signo;

	if (poll(fds, FDS, poll_timeout_ms(r)) < 0 && errno != EINTR)
		return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
	aside_step(&r->aside);
	signo = signals_read(r->signal_fd);
	if (signo)
		r->status = 128 + signo;
	else if (clock_monotonic_ns() >= r->deadline_ns)
		return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
			"the time limit passed (--timeout) and the cell was interrupted");
	return 0;
}

/* What the cell said is written, unless its reader has gone or a signal comes. */
static int drain(struct run *r, struct error *e)
{
	int err = code_show_end(r->show, e);

	while (err == 0 && !r->status) {
		err = code_show_flush(r->show, e);
		if (err == 0 && !code_show_is_pending(r->show))
			break;
		if (err == 0)
			err = wait_for_more(r, e);
	}
	return err < 0 ? err : 0;
}

static int loop(struct run *r, struct error *e)
{
	int err = 0;

	while (err == 0 && !r->ended && !r->status) {
		err = advance(r, e);
		if (err == 0 && !r->ended && !r->status)
			err = wait_for_more(r, e);
	}
	return err;
}

int code_run(const struct code_sandbox *s, const struct code_cell *cell, int signal_fd,
	struct code_show *show, struct error *e)
{
	struct run r = {
		.sandbox = s,
		.aside = aside_init(&s->remote, s->lease_s),
		.signal_fd = signal_fd,
		.show = show,
		.deadline_ns =
			cell->timeout_ns ? clock_monotonic_ns() + cell->timeout_ns : UINT64_MAX,
		.line = BUF_INIT(CODE_LINE_MAX),
	};
	struct error ignored = {0};
	int err;

	code_show_begin(show, s->remote.id);
	err = ask(&r, cell, e);
	if (err == 0)
		err = loop(&r, e);
	r.deadline_ns = UINT64_MAX;
	if (err == 0 && !r.status)
		err = drain(&r, e);
	else if (!show->o.json && code_show_end(show, &ignored) == 0)
		(void)code_show_flush(show, &ignored); /* what was said before; without waiting */
	client_close(r.client);			       /* interrupts the cell if it has not ended */
	aside_close(&r.aside);
	buf_done(&r.line);
	return err < 0 ? err : r.status;
}
