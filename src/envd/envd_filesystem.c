/* filesystem.Filesystem (docs/envd.md), except watching. Paths go to the agent unchanged, since it
 * knows the home directories. */
#include <errno.h>
#include <string.h>

#include "envd/envd_entry.h"
#include "envd/envd_message.h"
#include "envd/envd_rpc.h"
#include "envd/envd_watch.h"

/* --- one entry as the answer --- */

static void reply_entry(struct envd_call *c, const struct agent_event *ev)
{
	int r = ev->type == AGENT_ENTRY ? buf_add_str(&c->out, "{\"entry\":") : -EBADMSG;

	if (!r)
		r = envd_entry_write(&c->out, &ev->entry);
	if (!r)
		r = buf_add_u8(&c->out, '}');
	if (envd_rpc_wrote(c, r))
		envd_rpc_reply(c);
}

static int ask_stat(struct envd_call *c, const char *path, struct envd_error *e)
{
	struct agent_stat m = {.flags = ENVD_ENTRY_FLAGS, .user = c->rpc.user, .path = path};

	return envd_call_ask(c, AGENT_STAT, &m, e);
}

static int begin_stat(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	const char *path;
	int r = envd_path_parse(o, "path", &path, e);

	return r ? r : ask_stat(c, path, e);
}

static int begin_mkdir(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_mkdir m = {.flags = AGENT_MKDIR_PARENTS, .mode = 0755, .user = c->rpc.user};
	int r = envd_path_parse(o, "path", &m.path, e);

	return r ? r : envd_call_ask(c, AGENT_MKDIR, &m, e);
}

/* MOVE's own entry lacks attributes and link targets. So a STAT follows it, and only the STAT's
 * answer counts. */
static int begin_move(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_move m = {.flags = AGENT_MOVE_PARENTS, .user = c->rpc.user};
	int r = envd_path_parse(o, "source", &m.from, e);

	if (r == 0)
		r = envd_path_parse(o, "destination", &m.to, e);
	if (r == 0)
		r = envd_call_ask(c, AGENT_MOVE, &m, e);
	return r ? r : ask_stat(c, m.to, e);
}

static void on_move_event(struct envd_call *c, const struct agent_event *ev)
{
	if (ev->type != AGENT_ENTRY || c->step++)
		reply_entry(c, ev);
}

/* Errors about the request itself keep their code; other errors of rename(2) become internal. */
static void on_move_refused(struct envd_call *c, const struct agent_error *m)
{
	struct envd_error e;

	envd_error_of_agent(m, &e);
	if (e.code != CONNECT_NOT_FOUND && e.code != CONNECT_UNAUTHENTICATED &&
		m->class != AGENT_ERR_INVALID)
		e.code = CONNECT_INTERNAL;
	envd_rpc_fail(c, &e);
}

/* --- Remove --- */

static int begin_remove(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_remove m = {.flags = AGENT_REMOVE_RECURSIVE, .user = c->rpc.user};
	int r = envd_path_parse(o, "path", &m.path, e);

	return r ? r : envd_call_ask(c, AGENT_REMOVE, &m, e);
}

static void on_remove_event(struct envd_call *c, const struct agent_event *ev)
{
	if (ev->type == AGENT_OK)
		envd_rpc_reply_text(c, "{}");
	else
		(void)envd_rpc_wrote(c, -EBADMSG);
}

/* --- ListDir --- */

static int begin_list(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_list m = {.flags = ENVD_ENTRY_FLAGS, .user = c->rpc.user};
	int r = envd_path_parse(o, "path", &m.path, e);

	if (r == 0)
		r = envd_depth_parse(o, &m.depth, e);
	return r ? r : envd_call_ask(c, AGENT_LIST, &m, e);
}

static void on_list_event(struct envd_call *c, const struct agent_event *ev)
{
	static const char head[] = "{\"entries\":[";

	if (ev->type == AGENT_END)
		envd_rpc_list_end(c, head, "]}");
	else if (ev->type != AGENT_ENTRY)
		(void)envd_rpc_wrote(c, -EBADMSG);
	else if (envd_rpc_item(c, head))
		(void)envd_rpc_item_done(c, envd_entry_write(&c->out, &ev->entry)); /* or over */
}

/* --- the table --- */

static const struct envd_ops entry_ops = {.fail = envd_rpc_fail, .event = reply_entry};
static const struct envd_ops move_ops = {
	.fail = envd_rpc_fail, .event = on_move_event, .refused = on_move_refused};
static const struct envd_ops remove_ops = {.fail = envd_rpc_fail, .event = on_remove_event};
static const struct envd_ops list_ops = {.fail = envd_rpc_fail, .event = on_list_event};

#define METHOD(name) "/filesystem.Filesystem/" name

const struct envd_method envd_filesystem_methods[] = {
	{METHOD("Stat"), CONNECT_KIND_UNARY, begin_stat, &entry_ops, NULL},
	{METHOD("MakeDir"), CONNECT_KIND_UNARY, begin_mkdir, &entry_ops, NULL},
	{METHOD("Move"), CONNECT_KIND_UNARY, begin_move, &move_ops, NULL},
	{METHOD("ListDir"), CONNECT_KIND_UNARY, begin_list, &list_ops, NULL},
	{METHOD("Remove"), CONNECT_KIND_UNARY, begin_remove, &remove_ops, NULL},
	{METHOD("WatchDir"), CONNECT_KIND_STREAM, envd_watch_begin, &envd_watch_ops, NULL},
	{METHOD("CreateWatcher"), CONNECT_KIND_UNARY, envd_watcher_create, &envd_watcher_ops, NULL},
	{METHOD("GetWatcherEvents"), CONNECT_KIND_UNARY, envd_watcher_events, &envd_events_ops,
		NULL},
	{METHOD("RemoveWatcher"), CONNECT_KIND_UNARY, envd_watcher_remove, &envd_watcher_ops, NULL},
	{NULL, 0, NULL, NULL, NULL},
};
