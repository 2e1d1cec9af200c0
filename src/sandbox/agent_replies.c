#include "sandbox/agent_replies.h"

#include <errno.h>
#include <stddef.h>

#include "base/cleanup.h"

/* An exchange: `head` once, then any number of `items`, then `last`. 0 stands for none. An ERROR
 * may end any exchange at any point. */
static const struct exchange {
	uint8_t request, head, items[3], last;
	bool stops; /* END may come instead of `last`, after a STOP */
} exchanges[] = {
	{.request = 0}, /* requests that this program does not know get only an ERROR */
	{.request = AGENT_EXEC,
		.head = AGENT_STARTED,
		.items = {AGENT_STDOUT, AGENT_STDERR, AGENT_PTY},
		.last = AGENT_EXIT,
		.stops = true},
	{.request = AGENT_EXEC, .last = AGENT_STARTED}, /* EXCHANGE_DETACHED */
	{.request = AGENT_ATTACH,
		.head = AGENT_STARTED,
		.items = {AGENT_STDOUT, AGENT_STDERR, AGENT_PTY},
		.last = AGENT_EXIT,
		.stops = true},
	{.request = AGENT_HELLO, .last = AGENT_HELLO_REPLY},
	{.request = AGENT_IDENTITY, .last = AGENT_IDENTITY_REPLY},
	{.request = AGENT_SYNC, .last = AGENT_OK},
	{.request = AGENT_SHUTDOWN, .last = AGENT_OK},
	{.request = AGENT_GET_METRICS, .last = AGENT_METRICS},
	{.request = AGENT_FREEZE, .last = AGENT_OK},
	{.request = AGENT_HOLD, .last = AGENT_OK},
	{.request = AGENT_RELEASE, .last = AGENT_OK},
	{.request = AGENT_LIST_PROCESSES, .items = {AGENT_PROCESS}, .last = AGENT_END},
	{.request = AGENT_SIGNAL_PROCESS, .last = AGENT_OK},
	{.request = AGENT_INPUT, .last = AGENT_OK},
	{.request = AGENT_CLOSE_INPUT, .last = AGENT_OK},
	{.request = AGENT_RESIZE_PROCESS, .last = AGENT_OK},
	{.request = AGENT_LIST_TASKS, .items = {AGENT_TASK}, .last = AGENT_END},
	{.request = AGENT_TRACE, .head = AGENT_OK, .items = {AGENT_PROGRAM}, .last = AGENT_END},
	{.request = AGENT_TRACE_FILES, .head = AGENT_OK, .items = {AGENT_FILE}, .last = AGENT_END},
	{.request = AGENT_STAT, .last = AGENT_ENTRY},
	{.request = AGENT_LIST, .items = {AGENT_ENTRY}, .last = AGENT_END},
	{.request = AGENT_READ, .head = AGENT_ENTRY, .items = {AGENT_DATA}, .last = AGENT_END},
	{.request = AGENT_WRITE, .last = AGENT_ENTRY},
	{.request = AGENT_MKDIR, .last = AGENT_ENTRY},
	{.request = AGENT_MOVE, .last = AGENT_ENTRY},
	{.request = AGENT_REMOVE, .last = AGENT_OK},
	{.request = AGENT_SET_ATTR, .last = AGENT_ENTRY},
	{.request = AGENT_SET_XATTRS, .last = AGENT_OK},
	{.request = AGENT_WATCH, .head = AGENT_OK, .items = {AGENT_WATCH_EVENT}, .last = AGENT_END},
	{.request = AGENT_TREE, .items = {AGENT_NODE}, .last = AGENT_END},
	{.request = AGENT_DIAL, .last = AGENT_OK},
};

enum { EXCHANGE_UNKNOWN = 0, EXCHANGE_DETACHED = 2 };

void agent_replies_init(struct agent_replies *a)
{
	buf_init(&a->waiting, AGENT_REPLIES_MAX);
	a->begun = false;
}

void agent_replies_done(struct agent_replies *a)
{
	buf_done(&a->waiting);
}

static uint8_t exchange_of(enum agent_type type, const void *message)
{
	const struct agent_exec *x = message;

	if (type == AGENT_EXEC && x->flags & AGENT_EXEC_DETACHED)
		return EXCHANGE_DETACHED;
	for (size_t i = 1; i < ARRAY_SIZE(exchanges); i++)
		if (exchanges[i].request == type)
			return (uint8_t)i;
	return EXCHANGE_UNKNOWN;
}

int agent_replies_expect(struct agent_replies *a, enum agent_type type, const void *message)
{
	if ((type >= AGENT_STDIN && type <= AGENT_STOP) || type == AGENT_DATA || type == AGENT_END)
		return 0;
	return buf_add_u8(&a->waiting, exchange_of(type, message));
}

static bool is_item(const struct exchange *x, enum agent_type type)
{
	for (size_t i = 0; i < ARRAY_SIZE(x->items); i++)
		if (x->items[i] == type)
			return true;
	return false;
}

static bool is_last(const struct exchange *x, enum agent_type type)
{
	return type == x->last || (x->stops && type == AGENT_END);
}

int agent_replies_take(struct agent_replies *a, enum agent_type type)
{
	const struct exchange *x;

	if (!buf_len(&a->waiting))
		return -EBADMSG;
	x = &exchanges[*buf_head(&a->waiting)];
	if (type != AGENT_ERROR && x->head && !a->begun) {
		a->begun = type == x->head;
		return a->begun ? 0 : -EBADMSG;
	}
	if (type != AGENT_ERROR && is_item(x, type))
		return 0;
	if (type != AGENT_ERROR && !is_last(x, type))
		return -EBADMSG;
	a->begun = false;
	buf_consume(&a->waiting, 1);
	return 0;
}
