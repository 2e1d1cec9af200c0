/* The host's end of a connection to a guest's agent (src/proto/agent_wire.h).
 *
 * It can be used in two ways, from the bottom up:
 * - bytes: agent_feed() takes received bytes, agent_next_event() returns events, agent_output()
 *   returns bytes to send. No descriptor is needed.
 * - poll: agent_next_event() and agent_flush() never block; agent_poll_events() says what to poll
 *   agent_fd() for. agent_exec_start() shows the loop.
 * agent_call.h waits for replies.
 *
 * What an event points to is valid until the next call on the same connection. Sending functions
 * only queue. The queue is bounded (AGENT_QUEUE_MAX); the next agent_flush() or agent_next_event()
 * writes it out. Several requests may be queued without waiting, such as an IDENTITY and an EXEC;
 * their replies come in order. Not thread-safe. The agent is not trusted: whatever breaks the
 * protocol ends in -EBADMSG and ERROR_SANDBOX.
 *
 * Functions return 0 (or as stated) or -errno and fill e, which may be NULL. */
#ifndef SANDBOX_AGENT_CLIENT_H
#define SANDBOX_AGENT_CLIENT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "proto/agent_wire.h"

enum { AGENT_QUEUE_MAX = AGENT_MESSAGE_MAX * 2 + 256 * 1024 };

struct agent_conn;

/* --- opening --- */

/* Connects to the agent of the sandbox whose directory is dirfd: port AGENT_PORT through the Unix
 * socket "vsock.sock". Does not wait for the microVM's answer. If nothing listens there (the guest
 * is not up yet, or has died), the first event is -ECONNREFUSED. */
int agent_connect(int dirfd, struct agent_conn **ret, struct error *e);

enum agent_open_flag {
	AGENT_OPEN_PREAMBLE = 0x01, /* write "CONNECT 1024\n" first and expect "OK ...\n" */
};

/* Takes over a connected stream socket (or fd -1, for agent_feed and agent_output). On failure the
 * socket stays the caller's. */
int agent_open(int fd, unsigned flags, struct agent_conn **ret, struct error *e);

/* Gives a connection that was opened with fd -1 its socket, which it takes over. */
void agent_set_fd(struct agent_conn *c, int fd);

void agent_close(struct agent_conn *c); /* closes the descriptor; NULL is fine */

/* Takes the descriptor out after a DIAL's OK, and closes the rest. *ret_early (malloc'ed, may be
 * NULL) gets what was received after the OK. */
int agent_take_fd(struct agent_conn *c, uint8_t **ret_early, size_t *ret_early_bytes);

/* --- events --- */

struct agent_event {
	enum agent_type type; /* says which member below, if any, is filled */
	union {
		struct agent_hello_reply hello;
		struct agent_identity_reply identity;
		struct agent_metrics metrics;
		struct agent_started started;
		struct agent_exit exit;
		struct agent_process process;
		struct agent_entry entry;
		struct agent_watch_event watch;
		struct agent_node node;
		struct agent_task task;
		struct agent_program program;
		struct agent_file file;
		struct agent_error error; /* the agent refused a request; see agent_event_error */
		struct {
			const uint8_t *data; /* STDOUT, STDERR, PTY, DATA */
			size_t length;
		};
	};
};

/* Returns 1 with an event; 0: nothing for now (it would block); -ECONNRESET: the agent closed the
 * connection, and all earlier events have been returned; -ECONNREFUSED; -EBADMSG. Flushes the queue
 * first. An ERROR is an event, not a failure. WINDOW is handled inside and not returned. A reply to
 * nothing that was asked (agent_replies.h) is -EBADMSG, and so is a WINDOW of no bytes. */
int agent_next_event(struct agent_conn *c, struct agent_event *ret, struct error *e);

/* Limits what agent_next_event() takes from now on, for loops that also serve others. It takes at
 * most `frames` frames (WINDOW included) and begins none after `bytes` bytes. Then it returns 0 and
 * the share is spent: more may be there without the descriptor becoming readable. A new connection
 * has no limit. The functions of agent_call.h set their own and end without one. */
void agent_set_share(struct agent_conn *c, unsigned frames, size_t bytes);
bool agent_share_is_spent(const struct agent_conn *c);

/* Fills e from an ERROR event with code, errno and a message for people. Returns -errno. */
int agent_event_error(const struct agent_event *ev, struct error *e);

/* --- for poll loops --- */

int agent_fd(const struct agent_conn *c);
bool agent_wants_write(const struct agent_conn *c); /* something is queued */
short agent_poll_events(
	const struct agent_conn *c); /* POLLIN, and POLLOUT when it wants to write */
int agent_flush(struct agent_conn *c, struct error *e); /* 1: all written; 0: would block */

/* Without a descriptor: for owners of their own I/O, and for tests. */
int agent_feed(struct agent_conn *c, const void *data, size_t n); /* -EMSGSIZE: call next_event */
void agent_feed_eof(struct agent_conn *c);
size_t agent_output(const struct agent_conn *c, const uint8_t **ret); /* bytes to send */
void agent_output_done(struct agent_conn *c, size_t n); /* they were sent; for tests */

/* --- requests, queued --- */

/* Queues any message of agent_wire.h: agent_request(c, AGENT_STAT, &stat, e). message is NULL for
 * types without a payload. -E2BIG or -EINVAL when it exceeds a limit (e names it); -EMSGSIZE when
 * the queue is full. */
int agent_request(struct agent_conn *c, enum agent_type type, const void *message, struct error *e);

/* Runs a command in the guest. Events: STARTED, then STDOUT, STDERR or PTY as they come, then EXIT.
 * ERROR may come instead of STARTED (ERROR_NO_COMMAND, ERROR_NOT_EXECUTABLE, ... by
 * agent_event_error). After EXIT or ERROR the connection takes the next request. A caller's loop:
 *
 *	agent_exec_start(c, &exec, e);
 *	for (;;) {
 *		while ((r = agent_next_event(c, &ev, e)) == 1)
 *			... return on AGENT_EXIT and AGENT_ERROR, write the bytes of the others ...
 *		if (r < 0)
 *			return r;
 *		poll {agent_fd(c), agent_poll_events(c)},
 *		     {0, agent_stdin_room(c) ? POLLIN : 0}, {signalfd, POLLIN};
 *		on input: n = read(0, buf, agent_stdin_room(c)); agent_send_stdin(c, buf, n);
 *		at its end: agent_send_stdin_eof(c);
 *		on SIGWINCH: agent_send_resize(c, cols, rows);
 *		on SIGINT: agent_send_signal(c, SIGINT, AGENT_SIGNAL_GROUP);
 *	}
 *
 * For back-pressure, do not call agent_next_event while the bytes cannot be written out. */
int agent_exec_start(struct agent_conn *c, const struct agent_exec *exec, struct error *e);

/* Attaches to the process with that tag, whose standard input is open. Events as of EXEC, with the
 * output from now on. */
int agent_attach_start(struct agent_conn *c, const char *tag, struct error *e);
/* The same, but input may follow at once, without waiting for STARTED. If there is no such process,
 * the agent ignores that input. */
int agent_attach_feeding(struct agent_conn *c, const char *tag, struct error *e);

/* Returns how many bytes of standard input may be sent now; the process has not taken more. Before
 * STARTED it is 0, unless exec was started with stdin or a PTY: then input may be sent at once. */
size_t agent_stdin_room(const struct agent_conn *c);
/* Queues min(n, room) bytes and returns how many, or -errno. */
ssize_t agent_send_stdin(struct agent_conn *c, const void *data, size_t n);
/* Queues as much of the n bytes behind *sent as there is room for. True: all were sent. */
bool agent_feed_stdin(struct agent_conn *c, const void *data, size_t n, size_t *sent);
int agent_send_stdin_eof(struct agent_conn *c);
int agent_send_signal(struct agent_conn *c, int signo, unsigned flags);
int agent_send_resize(struct agent_conn *c, unsigned cols, unsigned rows);

/* Queues at most n bytes as DATA of a file, after AGENT_WRITE. Returns how many; 0: flush first. */
ssize_t agent_send_data(struct agent_conn *c, const void *data, size_t n);
int agent_send_end(struct agent_conn *c);

#endif
