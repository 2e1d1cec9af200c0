#include "envd/envd_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "envd/envd_absent.h"
#include "envd/envd_message.h"
#include "envd/envd_words.h"
#include "fleet/fleet_of.h"
#include "proto/proto_json.h"

enum { WATCHER_ID_BYTES = 22 }; /* "w", 20 characters, NUL */

static const char lost_events[] = "events were lost: more happened than could be told";

/* --- WatchDir --- */

int envd_watch_begin(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_watch m;
	int r = envd_watch_parse(o, &m, e);

	m.user = c->rpc.user;
	if (r == 0)
		r = envd_call_ask(c, AGENT_WATCH, &m, e);
	if (r == 0 && (envd_call_set_keepalive(c, c->rpc.keepalive_s) < 0 ||
			      envd_call_set_deadline(c, c->rpc.timeout_ms) < 0))
		r = envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	return r;
}

/* Writes a FilesystemEvent as an envelope; nothing for kinds that clients do not know. */
static int write_event(struct buf *out, const struct agent_watch_event *ev)
{
	size_t mark, before = buf_len(out);
	int r = connect_envelope_begin(out, 0, &mark);

	if (!r)
		r = buf_add_str(out, "{\"filesystem\":");
	if (!r)
		r = envd_watch_write(out, ev);
	if (r == 0)
		out->end = out->start + before;
	if (r <= 0)
		return r;
	return connect_envelope_end(out, mark, buf_add_u8(out, '}'));
}

static void on_watch_event(struct envd_call *c, const struct agent_event *ev)
{
	struct envd_error e;

	if (ev->type == AGENT_OK && c->r->state == REQUEST_NONE) {
		if (envd_rpc_wrote(c, connect_watch_start(&c->out)))
			(void)envd_rpc_stream(c);
	} else if (ev->type == AGENT_END) {
		envd_rpc_end(c); /* the directory itself was removed */
	} else if (ev->type != AGENT_WATCH_EVENT || c->r->state == REQUEST_NONE) {
		(void)envd_rpc_wrote(c, -EBADMSG);
	} else if (ev->watch.kind == AGENT_WATCH_OVERFLOW) {
		(void)envd_fail(&e, CONNECT_INTERNAL, "%s", lost_events);
		envd_rpc_fail(c, &e);
	} else if (envd_rpc_wrote(c, write_event(&c->out, &ev->watch))) {
		envd_call_flush(c);
	}
}

static void on_keepalive(struct envd_call *c)
{
	if (c->r->state == REQUEST_NONE)
		return;
	if (envd_rpc_wrote(c, connect_watch_keepalive(&c->out)))
		envd_call_flush(c);
}

const struct envd_ops envd_watch_ops = {
	.fail = envd_rpc_fail, .event = on_watch_event, .keepalive = on_keepalive};

/* --- watchers --- */

/*	STARTING  CreateWatcher waits for the agent: `creator` is set
 *	RUNNING   events are queued
 *	BROKEN    events were lost. GetWatcherEvents says so once, after the earlier events; then
 *	          RUNNING again
 */
enum watcher_state { WATCHER_STARTING, WATCHER_RUNNING, WATCHER_BROKEN };

struct watcher {
	struct watcher *next;
	char id[WATCHER_ID_BYTES];
	char sandbox_id[ROUTE_SANDBOX_ID_MAX + 1];
	enum watcher_state state;
	struct envd_call *creator; /* waits for its answer; NULL: answered or gone */
	struct agent_link *link;
	struct buf events;	 /* FilesystemEvents, comma-separated */
	struct budget_hold hold; /* for events */
	bool full;		 /* the link is paused */
};

static struct watcher *watchers;

/* Exists while there are watchers: see on_turn(). */
static uv_prepare_t *turn;

static void on_turn_closed(uv_handle_t *h)
{
	free(h);
}

static void watcher_free(struct watcher *w)
{
	struct watcher **p = &watchers;

	while (*p && *p != w)
		p = &(*p)->next;
	if (*p)
		*p = w->next;
	if (w->creator)
		w->creator->state = NULL;
	agent_link_close(w->link);
	buf_done(&w->events);
	budget_release(&w->hold);
	free(w);
	if (!watchers && turn) {
		uv_close((uv_handle_t *)turn, on_turn_closed);
		turn = NULL;
	}
}

/* A stopping daemon releases its sandboxes, which go on, so no link is lost. But watchers would
 * keep the loop alive. So this checks before the loop waits whether the sandboxes are gone, and
 * frees their watchers. */
static void on_turn(uv_prepare_t *h)
{
	while (watchers && !instance_find(h->data, watchers->sandbox_id))
		watcher_free(watchers);
}

static int watch_turns(struct fleet *f)
{
	if (turn)
		return 0;
	turn = calloc(1, sizeof(*turn));
	if (!turn)
		return -ENOMEM;
	(void)uv_prepare_init(f->loop, turn); /* cannot fail */
	turn->data = f;
	(void)uv_prepare_start(turn, on_turn); /* cannot fail with a callback */
	uv_unref((uv_handle_t *)turn);
	return 0;
}

static struct watcher *watcher_find(const char *sandbox_id, const char *id)
{
	struct watcher *w = watchers;

	while (w && (strcmp(w->id, id) != 0 || strcmp(w->sandbox_id, sandbox_id) != 0))
		w = w->next;
	return w;
}

static void creator_fail(struct watcher *w, const struct envd_error *e)
{
	struct envd_call *c = w->creator;

	watcher_free(w);
	if (c)
		envd_rpc_fail(c, e);
}

static void watcher_started(struct watcher *w)
{
	struct envd_call *c = w->creator;

	w->state = WATCHER_RUNNING;
	w->creator = NULL;
	c->state = NULL;
	if (envd_rpc_wrote(c, buf_printf(&c->out, "{\"watcherId\":\"%s\"}", w->id)))
		envd_rpc_reply(c);
}

static void queue_event(struct watcher *w, const struct agent_watch_event *ev)
{
	size_t before = buf_len(&w->events);
	int r = before ? buf_add_u8(&w->events, ',') : 0;

	if (!r)
		r = envd_watch_write(&w->events, ev);
	if (r <= 0)
		w->events.end = w->events.start + before;
	if (r < 0 || ev->kind == AGENT_WATCH_OVERFLOW)
		w->state = WATCHER_BROKEN;
	/* keeps the event that came; others wait in the guest */
	budget_force(&w->hold, buf_len(&w->events));
	if ((buf_len(&w->events) >= ENVD_WATCHER_QUEUE_BYTES || budget_is_short(&w->hold)) &&
		!w->full) {
		w->full = true;
		agent_link_pause(w->link);
	}
}

static void on_watcher_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct watcher *w = arg;
	struct envd_error e;

	if (w->state == WATCHER_STARTING) {
		if (ev->type == AGENT_OK) {
			watcher_started(w);
			return;
		}
		if (ev->type == AGENT_ERROR)
			envd_error_of_agent(&ev->error, &e);
		else
			(void)envd_fail(
				&e, CONNECT_INTERNAL, "the sandbox's agent broke the protocol");
		creator_fail(w, &e);
	} else if (ev->type == AGENT_WATCH_EVENT) {
		queue_event(w, &ev->watch);
	}
	/* After END (the directory was removed), queued events can still be fetched. */
}

/* The sandbox ended, or the watch did, which the agent never does by itself. */
static void on_watcher_lost(struct agent_link *l, const struct error *why, void *arg)
{
	struct watcher *w = arg;
	struct envd_error e = {0};

	if (w->creator)
		(void)envd_lost_fail(fleet_of(w->creator->r), w->sandbox_id, why, &e);
	creator_fail(w, &e);
}

static const struct agent_link_ops watcher_link_ops = {on_watcher_event, NULL, on_watcher_lost};

static unsigned count_watchers(const char *sandbox_id)
{
	unsigned n = 0;

	for (const struct watcher *w = watchers; w; w = w->next)
		n += strcmp(w->sandbox_id, sandbox_id) == 0;
	return n;
}

static int watcher_connect(
	struct watcher *w, struct fleet *f, const struct agent_watch *m, struct envd_error *e)
{
	struct instance *i = instance_find(f, w->sandbox_id);
	struct error why = {0};
	int r = i ? instance_agent_connect(i, LINK_SINGLE, &watcher_link_ops, w, &w->link, &why)
		  : -ENOENT;

	if (r < 0)
		return envd_absent_fail(f, w->sandbox_id, e);
	r = agent_request(agent_link_conn(w->link), AGENT_WATCH, m, &why);
	if (r < 0)
		envd_error_of_host(&why, e);
	else
		agent_link_send(w->link);
	return r;
}

static struct watcher *watcher_new(struct envd_call *c)
{
	struct watcher *w = watch_turns(fleet_of(c->r)) < 0 ? NULL : calloc(1, sizeof(*w));

	if (!w)
		return NULL;
	w->id[0] = 'w';
	if (str_random_id(w->id + 1, WATCHER_ID_BYTES - 1) < 0) {
		free(w);
		return NULL;
	}
	strcpy(w->sandbox_id, c->sandbox_id);
	buf_init(&w->events, 2 * ENVD_WATCHER_QUEUE_BYTES);
	request_hold(c->r, &w->hold);
	w->next = watchers;
	watchers = w;
	w->creator = c;
	c->state = w;
	return w;
}

int envd_watcher_create(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct agent_watch m;
	struct watcher *w;
	int r = envd_watch_parse(o, &m, e);

	if (r < 0)
		return r;
	m.user = c->rpc.user;
	if (count_watchers(c->sandbox_id) >= ENVD_WATCHERS_MAX)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED,
			"a sandbox has at most %d watchers: remove one", ENVD_WATCHERS_MAX);
	w = watcher_new(c);
	if (!w)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	r = watcher_connect(w, fleet_of(c->r), &m, e);
	if (r < 0)
		watcher_free(w);
	return r;
}

/* The client left, or its time ran out, before the agent answered. */
static void creator_done(struct envd_call *c)
{
	struct watcher *w = c->state;

	if (w)
		watcher_free(w);
}

static struct watcher *find_for(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	const char *id = "";
	struct watcher *w;

	if (proto_json_string(o, "watcherId", &id) < 0) {
		(void)envd_fail(e, CONNECT_INVALID_ARGUMENT, "watcherId has the wrong type");
		return NULL;
	}
	w = watcher_find(c->sandbox_id, id);
	if (!w || w->state == WATCHER_STARTING) {
		(void)envd_fail(e, CONNECT_NOT_FOUND, ENVD_WORDS_UNKNOWN_WATCH, id);
		return NULL;
	}
	return w;
}

static void reply_events(struct envd_call *c, struct watcher *w)
{
	int r = buf_add_str(&c->out, "{\"events\":[");

	if (!r && buf_len(&w->events))
		r = buf_add(&c->out, buf_head(&w->events), buf_len(&w->events));
	if (!r)
		r = buf_add_str(&c->out, "]}");
	if (!envd_rpc_wrote(c, r))
		return;
	buf_done(&w->events);
	budget_force(&w->hold, 0);
	if (w->full) {
		w->full = false;
		agent_link_resume(w->link);
	}
	envd_rpc_reply(c);
}

/* All that the agent had seen before is queued now. */
static void tell_events(struct envd_call *c)
{
	struct watcher *w = watcher_find(c->sandbox_id, c->state);
	struct envd_error e;

	if (!w) {
		(void)envd_fail(
			&e, CONNECT_NOT_FOUND, ENVD_WORDS_UNKNOWN_WATCH, (const char *)c->state);
		envd_rpc_fail(c, &e);
	} else if (w->state == WATCHER_BROKEN && !buf_len(&w->events)) {
		w->state = WATCHER_RUNNING;
		(void)envd_fail(&e, CONNECT_INTERNAL, "%s", lost_events);
		envd_rpc_fail(c, &e);
	} else {
		reply_events(c, w);
	}
}

static void on_events_entry(struct envd_call *c, const struct agent_event *ev)
{
	tell_events(c);
}

static void on_events_refused(struct envd_call *c, const struct agent_error *m)
{
	tell_events(c);
}

static void events_done(struct envd_call *c)
{
	free(c->state);
}

/* Clients ask right after a change, and expect its events. Those come on the watcher's own link, so
 * this first asks the agent for something: it reports changes in its order, before it answers. */
int envd_watcher_events(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	const struct agent_stat m = {.path = "/"};
	struct watcher *w = find_for(c, o, e);

	if (!w)
		return -ENOENT;
	c->state = strdup(w->id);
	if (!c->state)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	return envd_call_ask(c, AGENT_STAT, &m, e);
}

int envd_watcher_remove(struct envd_call *c, const json_t *o, struct envd_error *e)
{
	struct watcher *w = find_for(c, o, e);

	if (!w)
		return -ENOENT;
	watcher_free(w);
	envd_rpc_reply_text(c, "{}");
	return 0;
}

const struct envd_ops envd_events_ops = {.fail = envd_rpc_fail,
	.event = on_events_entry,
	.refused = on_events_refused,
	.done = events_done};
const struct envd_ops envd_watcher_ops = {.fail = envd_rpc_fail, .done = creator_done};
