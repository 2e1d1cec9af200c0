/* Leaves tools out of what a server of MCP answers to tools/list, while it passes: a program does
 * not see what its rules would not let it call.
 *
 * The answer is JSON, or a stream of events with a message in each (text/event-stream); messages
 * may come as a batch. In each message the objects of `result.tools` are looked at, and all else
 * passes as it came, but for the bytes between these objects. In events, the lines of one message
 * become one, and line ends become LF; events that are no JSON pass.
 *
 * Not shown are tools that `shown` says no to, those without a name or with two, and those larger
 * than TOOL_LIST_TOOL_MAX. What is no strict JSON (proto/json_stream.h) is an error.
 *
 * Memory: of a tool, its bytes, TOOL_LIST_TOOL_MAX at most, and TOOL_LIST_HELD_MAX of all lists
 * that share `held`: what exceeds that is not shown. */
#ifndef INTERCEPT_TOOL_LIST_H
#define INTERCEPT_TOOL_LIST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

enum {
	TOOL_LIST_TOOL_MAX = 64 << 10,
	TOOL_LIST_HELD_MAX = 128 << 10,
};

struct tool_list;

struct tool_list_options {
	bool events;
	bool (*shown)(void *arg, const char *name);
	void *arg;
	size_t *held; /* bytes that lists hold now; shared */
};

/* NULL when out of memory. */
struct tool_list *tool_list_new(const struct tool_list_options *o);
void tool_list_free(struct tool_list *l); /* NULL is fine */

/* Appends what may pass: at most what waited and n bytes. 0, -EBADMSG: it is no JSON; -EMSGSIZE,
 * -ENOMEM: there is no room in `out`. */
int tool_list_bytes(struct tool_list *l, const uint8_t *data, size_t n, struct buf *out);

/* Bytes that wait. */
size_t tool_list_waiting(const struct tool_list *l);

#endif
