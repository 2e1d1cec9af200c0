/* Runs slow work in a forked child. The child writes encoded frames to its descriptor, which become
 * the request's answer. It shares nothing with the agent and may block. */
#ifndef AGENT_HELPER_H
#define AGENT_HELPER_H

#include <sys/types.h>

#include "conn.h"

enum { HELPERS_MAX = 32 };

/* Runs work(fd, arg) in a child. The connection accepts further requests after the child has
 * ended. */
void helper_run(struct conn *c, enum agent_type request, void (*work)(int fd, const void *arg),
	const void *arg);

/* For the reaper. False when pid is not a helper. */
bool helper_reaped(pid_t pid, int status);

/* For the child: write encoded frames, or a single message. If that fails, nobody reads the answer,
 * so the child exits. */
void helper_write(int fd, const struct buf *frames);
void helper_reply(int fd, enum agent_type type, const void *message);
void helper_error(int fd, enum agent_type request, int err, const char *what);

#endif
