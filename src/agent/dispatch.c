#include "dispatch.h"

#include "base/cleanup.h"
#include "guest.h"
#include "hold.h"
#include "requests.h"

static const struct {
	uint8_t type;
	enum {
		UNUSABLE = 0x01, /* also served in a guest that failed to boot */
		HELD = 0x02,	 /* also served while processes are held; waits for none of them */
	} also;
	void (*handle)(struct conn *c, const struct agent_frame *f);
} requests[] = {
	{AGENT_HELLO, UNUSABLE | HELD, request_hello},
	{AGENT_IDENTITY, HELD, request_identity},
	{AGENT_HOLD, HELD, request_hold},
	{AGENT_RELEASE, HELD, request_release},
	{AGENT_SYNC, UNUSABLE, request_sync},
	{AGENT_SHUTDOWN, UNUSABLE | HELD, request_shutdown},
	{AGENT_GET_METRICS, UNUSABLE | HELD, request_metrics},
	{AGENT_EXEC, 0, request_exec},
	{AGENT_ATTACH, 0, request_attach},
	{AGENT_LIST_PROCESSES, 0, request_list_processes},
	{AGENT_SIGNAL_PROCESS, 0, request_signal_process},
	{AGENT_INPUT, 0, request_input},
	{AGENT_CLOSE_INPUT, 0, request_close_input},
	{AGENT_RESIZE_PROCESS, 0, request_resize_process},
	{AGENT_STAT, 0, request_stat},
	{AGENT_LIST, 0, request_list},
	{AGENT_READ, 0, request_read},
	{AGENT_WRITE, 0, request_write},
	{AGENT_MKDIR, 0, request_mkdir},
	{AGENT_MOVE, 0, request_move},
	{AGENT_REMOVE, 0, request_remove},
	{AGENT_SET_ATTR, 0, request_set_attr},
	{AGENT_SET_XATTRS, 0, request_set_xattrs},
	{AGENT_WATCH, 0, request_watch},
	{AGENT_FREEZE, HELD, request_freeze},
	{AGENT_LIST_TASKS, 0, request_list_tasks},
	{AGENT_TREE, 0, request_tree},
	{AGENT_TRACE, 0, request_trace},
	{AGENT_TRACE_FILES, 0, request_trace_files},
	{AGENT_DIAL, 0, request_dial},
};

bool dispatch_request(struct conn *c, const struct agent_frame *f)
{
	/* A frame meant for a stream may arrive after the stream has ended. */
	if (f->type >= AGENT_STDIN && f->type <= AGENT_STOP)
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(requests); i++) {
		if (requests[i].type != f->type)
			continue;
		if (hold_is_on() && !(requests[i].also & HELD))
			return false;
		if (guest.state != AGENT_STATE_READY && !(requests[i].also & UNUSABLE))
			conn_error(c, AGENT_ERR_UNUSABLE, f->type, 0, "%s", guest.problem);
		else
			requests[i].handle(c, f);
		return true;
	}
	conn_error(c, AGENT_ERR_UNSUPPORTED, f->type, 0, "unknown request 0x%02x", f->type);
	return true;
}
