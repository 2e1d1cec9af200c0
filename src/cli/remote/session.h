/* Joins a command in a sandbox to this process's standard input, output, error and signals.
 *
 * A poll loop talks to a peer, which stands for the command. The peer uses the agent of a microVM
 * of ours (session_agent.h) or the daemon (session_remote.h). Memory holds at most one message of
 * the peer and its window of standard input. So a slow reader stops the command, as a pipe
 * would. */
#ifndef CLI_SESSION_H
#define CLI_SESSION_H

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum {
	SESSION_GRACE_S = 10, /* from SIGTERM, SIGQUIT or a broken pipe to giving up */
	SESSION_PEER_FDS = 3,
	SESSION_PROMPT_FDS = 2,
	SESSION_INPUT_MAX = 64 * 1024, /* one piece of standard input */
};

enum session_event_type {
	SESSION_STARTED,
	SESSION_OUT, /* also for a terminal */
	SESSION_ERR,
	SESSION_EXIT,
	SESSION_OTHER, /* not for the session */
};

struct session_event {
	enum session_event_type type;
	const uint8_t *data; /* at most SINK_MAX bytes, valid until the next call of the peer */
	size_t length;
	int status; /* for EXIT: as in a shell, 128 + n for signal n */
};

/* All functions except next and check only queue. Nothing blocks. */
struct session_peer_ops {
	/* Returns 1 with an event, 0 if there is none now, or -errno: the command is
	 * unreachable. */
	int (*next)(void *peer, struct session_event *ret, struct error *e);
	/* Called instead of next while no event can be taken. 0 or -errno. */
	int (*check)(void *peer, struct error *e);
	void (*poll)(void *peer, bool hold, struct pollfd fds[SESSION_PEER_FDS]);
	/* CLOCK_MONOTONIC time by which next or check must be called; UINT64_MAX: none. */
	uint64_t (*deadline_ns)(void *peer);
	size_t (*input_room)(void *peer);
	/* n is at most the room. False: it takes no more input. */
	bool (*send_input)(void *peer, const void *data, size_t n);
	void (*end_input)(void *peer);
	void (*send_signal)(void *peer, int signo); /* to the command's process group */
	void (*send_size)(void *peer, unsigned cols, unsigned rows);
};

/* Asks somebody on the terminal in between. */
struct session_prompt {
	void (*poll)(void *arg, struct pollfd fds[SESSION_PROMPT_FDS]);
	/* With what poll() said. Returns whether it asks now: then the command's output and input
	 * wait until it does not. */
	bool (*step)(void *arg, const struct pollfd fds[SESSION_PROMPT_FDS]);
	void *arg;
};

struct session_options {
	const struct session_peer_ops *ops;
	void *peer;		      /* is starting the command */
	bool tty;		      /* the command has a terminal */
	bool no_input;		      /* standard input is not passed */
	uint64_t deadline_ns;	      /* CLOCK_MONOTONIC; 0: none */
	struct session_prompt prompt; /* without functions: none */
};

struct session_result {
	int status;		  /* as in a shell: 128 + n for signal n */
	bool given_up;		  /* the command did not end within SESSION_GRACE_S, and goes on */
	uint64_t first_output_ns; /* CLOCK_MONOTONIC; 0: no output */
};

/* Returns once the command has ended and all its output is written. If the command and standard
 * input both have a terminal, ours is raw meanwhile. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and
 * SIGUSR2 go to the command; they stay blocked afterwards. */
int session_run(const struct session_options *o, struct session_result *ret, struct error *e);

#endif
