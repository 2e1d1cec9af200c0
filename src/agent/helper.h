/* Work that may take long, in a forked child: what it writes to its descriptor are ready-made
 * frames, which become the request's answer. The child shares nothing with the agent and may block.
 */
#ifndef AGENT_HELPER_H
#define AGENT_HELPER_H

#include <sys/types.h>

#include "conn.h"

enum { HELPERS_MAX = 32 };

/* Runs work(fd, arg) in a child; the connection takes further requests when it has ended. */
void helper_run(struct conn *c, enum agent_type request, void (*work)(int fd, const void *arg),
	const void *arg);

/* For the reaper. False when pid is none of these. */
bool helper_reaped(pid_t pid, int status);

/* For the child: write frames, or one; when that fails the child's work has no reader, and it
 * exits. */
void helper_write(int fd, const struct buf *frames);
void helper_reply(int fd, enum agent_type type, const void *message);
void helper_error(int fd, enum agent_type request, int err, const char *what);

#endif
