/* A start command that is followed: what it says, and how it ends, while something else is awaited.
 * E2B's builds log the one, and fail with the other unless the status is 0. The words are E2B's.
 *
 * The guest is not trusted: lines have a maximum, longer ones are split, and a command that says
 * more than can be read holds nothing up. */
#ifndef SANDBOX_START_FOLLOW_H
#define SANDBOX_START_FOLLOW_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "sandbox/agent_client.h"

/* Who is told, line by line, without the newline. A line may have any bytes but NUL. */
struct start_watch {
	void (*say)(void *opaque, const char *line, size_t n);
	void *opaque;
	const char *shown; /* the command as its client wrote it; NULL: as the image has it */
};

enum { START_LINE_MAX = 1000 }; /* bytes of output in a line */

struct start_follow;

/* Takes over a connection on which the command has started. The watch is borrowed. NULL: out of
 * memory, and the connection stays the caller's. */
struct start_follow *start_follow_new(struct agent_conn *conn, const struct start_watch *watch);

/* Closes the connection; the command goes on. NULL is fine. */
void start_follow_free(struct start_follow *f);

/* Reads what has come, without blocking. ERROR_BAD_IMAGE with the command's status if it has failed
 * by now. */
int start_follow_read(struct start_follow *f, struct error *e);

/* agent_wait_event() on c that reads f, too, and fails with it. The deadline is not 0. */
int start_follow_wait(struct start_follow *f, struct agent_conn *c, uint64_t deadline_ns,
	struct agent_event *ret, struct error *e);

#endif
