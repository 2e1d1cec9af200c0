#include "cli/remote/session.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "cli/remote/sink.h"
#include "cli/signals.h"
#include "cli/terminal.h"

enum {
	FD_SIGNAL = SESSION_PEER_FDS,
	FD_STDIN,
	FD_SINK,
	FD_PROMPT,
	FDS = FD_PROMPT + SESSION_PROMPT_FDS,
	POLL_MAX_MS = 60 * 1000,
};

struct session {
	const struct session_peer_ops *ops;
	void *peer;
	bool tty;
	int signal_fd;
	struct sink out, err;
	bool stdin_open;
	bool started, exited, broken;
	struct session_prompt prompt;
	bool asking;	      /* the prompt has the terminal */
	uint64_t deadline_ns; /* of --timeout */
	uint64_t grace_ns;    /* when the command is ended with its VM, 0: not asked to end */
	int grace_status;     /* what is returned then */
	struct session_result result;
};

/* --- signals --- */

static int open_signals(struct session *s, struct error *e)
{
	static const int signals[] = {
		SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT};

	return signals_open(signals, ARRAY_SIZE(signals), &s->signal_fd, e);
}

static void begin_grace(struct session *s, int signo)
{
	if (s->grace_ns)
		return;
	s->grace_ns = clock_monotonic_ns() + SESSION_GRACE_S * NS_PER_S;
	s->grace_status = 128 + signo;
}

static void forward(struct session *s, int signo)
{
	s->ops->send_signal(s->peer, signo);
	if (signo == SIGTERM || signo == SIGQUIT)
		begin_grace(s, signo);
}

static void resize(struct session *s)
{
	unsigned short cols, rows;

	terminal_size(&cols, &rows);
	s->ops->send_size(s->peer, cols, rows);
}

static void take_signal(struct session *s, int signo)
{
	if (signo == SIGWINCH) {
		if (s->tty)
			resize(s);
	} else if (signo == SIGCONT) {
		terminal_make_raw_again();
		if (s->tty)
			resize(s);
	} else if (s->started) {
		forward(s, signo);
	} else if (signo != SIGUSR1 && signo != SIGUSR2) {
		s->exited = true; /* there is no command yet that could handle it */
		s->result.status = 128 + signo;
	}
}

static void read_signals(struct session *s)
{
	int signo;

	while ((signo = signals_read(s->signal_fd)))
		take_signal(s, signo);
}

/* --- output --- */

static struct sink *pending_sink(struct session *s)
{
	return sink_is_pending(&s->out) ? &s->out : sink_is_pending(&s->err) ? &s->err : NULL;
}

/* The reader went away: what a pipe or a terminal would tell the command. */
static int check_sinks(struct session *s, struct error *e)
{
	int err = s->out.err ? s->out.err : s->err.err;

	if (err)
		return error_set_errno(e, err == -ENOSPC ? ERROR_NO_SPACE : ERROR_INTERNAL, -err,
			"cannot write the command's output");
	if ((s->out.closed || s->err.closed) && !s->broken) {
		int signo = s->tty ? SIGHUP : SIGPIPE;

		s->broken = true;
		forward(s, signo);
		begin_grace(s, signo);
	}
	return 0;
}

static int output(
	struct session *s, struct sink *sink, const struct session_event *ev, struct error *e)
{
	if (!s->result.first_output_ns)
		s->result.first_output_ns = clock_monotonic_ns();
	sink_write(sink, ev->data, ev->length);
	return check_sinks(s, e);
}

/* --- events --- */

static int take_event(struct session *s, const struct session_event *ev, struct error *e)
{
	switch (ev->type) {
	case SESSION_STARTED:
		s->started = true;
		return 0;
	case SESSION_OUT:
		return output(s, &s->out, ev, e);
	case SESSION_ERR:
		return output(s, &s->err, ev, e);
	case SESSION_EXIT:
		s->exited = true;
		s->result.status = ev->status;
		return 0;
	default:
		return 0;
	}
}

static bool is_held(struct session *s)
{
	return s->asking || pending_sink(s);
}

/* Takes events while their bytes can be written. */
static int take_events(struct session *s, struct error *e)
{
	struct session_event ev;
	int r = 1;

	while (r > 0 && !s->exited && !is_held(s)) {
		r = s->ops->next(s->peer, &ev, e);
		if (r > 0) {
			int t = take_event(s, &ev, e);

			if (t < 0)
				return t;
		}
	}
	if (r >= 0 && is_held(s))
		r = s->ops->check(s->peer, e);
	return r < 0 ? r : 0;
}

/* --- input --- */

static void read_stdin(struct session *s)
{
	char data[SESSION_INPUT_MAX];
	size_t room = s->ops->input_room(s->peer);
	ssize_t n = read(0, data, room < sizeof(data) ? room : sizeof(data));

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n > 0 && s->ops->send_input(s->peer, data, (size_t)n))
		return;
	s->stdin_open = false; /* its end, or nothing can be read or sent any more */
	s->ops->end_input(s->peer);
}

/* --- the loop --- */

static int check_times(struct session *s, struct error *e)
{
	uint64_t now = clock_monotonic_ns();

	if (s->deadline_ns && now >= s->deadline_ns)
		return error_set(e, ERROR_TIMEOUT, ETIMEDOUT,
			"the time limit passed (--timeout) and the command was ended");
	if (s->grace_ns && now >= s->grace_ns) {
		s->exited = true;
		s->result.status = s->grace_status;
		s->result.given_up = true;
	}
	return 0;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return b && b < a ? b : a;
}

static int poll_timeout_ms(const struct session *s)
{
	uint64_t until = earlier(s->ops->deadline_ns(s->peer), s->deadline_ns);

	return clock_ms_until(earlier(until, s->grace_ns), POLL_MAX_MS);
}

static void set_polls(struct session *s, struct pollfd fds[FDS])
{
	struct sink *sink = pending_sink(s);

	for (size_t i = 0; i < FDS; i++)
		fds[i] = (struct pollfd){.fd = -1};
	s->ops->poll(s->peer, is_held(s), fds);
	fds[FD_SIGNAL] = (struct pollfd){.fd = s->signal_fd, .events = POLLIN};
	if (s->stdin_open && !s->asking && s->ops->input_room(s->peer) > 0)
		fds[FD_STDIN] = (struct pollfd){.fd = 0, .events = POLLIN};
	if (sink)
		fds[FD_SINK] = (struct pollfd){.fd = sink_fd(sink), .events = POLLOUT};
	if (s->prompt.poll)
		s->prompt.poll(s->prompt.arg, fds + FD_PROMPT);
}

static int wait_and_move(struct session *s, struct error *e)
{
	struct sink *sink = pending_sink(s);
	struct pollfd fds[FDS];

	set_polls(s, fds);
	if (poll(fds, FDS, poll_timeout_ms(s)) < 0) {
		if (errno == EINTR)
			return 0;
		return error_set_errno(e, ERROR_INTERNAL, errno, "poll");
	}
	if (fds[FD_SIGNAL].revents)
		read_signals(s);
	if (fds[FD_STDIN].revents)
		read_stdin(s);
	if (sink && fds[FD_SINK].revents)
		sink_flush(sink);
	if (s->prompt.step)
		s->asking = s->prompt.step(s->prompt.arg, fds + FD_PROMPT);
	return check_sinks(s, e);
}

static int loop(struct session *s, struct error *e)
{
	for (;;) {
		int r = take_events(s, e);

		if (r == 0 && !s->exited)
			r = check_times(s, e);
		if (r < 0 || s->exited)
			return r;
		r = wait_and_move(s, e);
		if (r < 0 || s->exited)
			return r;
	}
}

int session_run(const struct session_options *o, struct session_result *ret, struct error *e)
{
	struct session s = {
		.ops = o->ops,
		.peer = o->peer,
		.tty = o->tty,
		.signal_fd = -1,
		.stdin_open = !o->no_input,
		.deadline_ns = o->deadline_ns,
		.prompt = o->prompt,
	};
	int r = open_signals(&s, e);

	if (r < 0)
		return r;
	sink_open(&s.out, STDOUT_FILENO);
	sink_open(&s.err, STDERR_FILENO);
	if (s.tty && s.stdin_open)
		(void)terminal_make_raw(STDIN_FILENO); /* input may come from elsewhere */
	r = loop(&s, e);
	terminal_restore();
	sink_close(&s.out);
	sink_close(&s.err);
	(void)close(s.signal_fd); /* nothing is lost: the session is over */
	*ret = s.result;
	return r;
}
