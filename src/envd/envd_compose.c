/* POST /files/compose (docs/envd.md): joins several files of the guest into one. It reads on the
 * call's link and writes on a second one. The bytes pass through the daemon, a bounded number at a
 * time. The sources are removed once the destination is complete. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "envd/envd_absent.h"
#include "envd/envd_entry.h"
#include "envd/envd_http.h"
#include "fleet/fleet_of.h"
#include "proto/proto_json.h"

enum { REQUEST_MAX = 1024 * 1024, SOURCES_MAX = 10000 };

/*	CHECK   STAT of each source in turn (`at`): it exists and is a regular file
 *	TARGET  STAT of the destination, which may be missing: it is none of the sources
 *	COPY    READ of source `at` into the writer's WRITE
 *	CLOSE   END was sent; waits for the writer's ENTRY
 *	REMOVE  REMOVE of source `at`
 */
enum compose_step { COMPOSE_CHECK, COMPOSE_TARGET, COMPOSE_COPY, COMPOSE_CLOSE, COMPOSE_REMOVE };

struct compose {
	json_t *request; /* the fields below borrow from it */
	const char *user, *destination;
	json_t *sources;
	char **paths; /* absolute paths of the sources */
	size_t count, at;
	char *result;		   /* absolute path of the destination */
	struct agent_link *writer; /* NULL: not open */
};

static void on_done(struct envd_call *c)
{
	struct compose *m = c->state;

	if (!m)
		return;
	agent_link_close(m->writer);
	for (size_t i = 0; m->paths && i < m->count; i++)
		free(m->paths[i]);
	free(m->paths);
	free(m->result);
	json_decref(m->request);
	free(m);
}

static void fail(struct envd_call *c, const struct envd_error *e)
{
	struct compose *m = c->state;

	if (m) {
		agent_link_close(m->writer);
		m->writer = NULL;
	}
	envd_call_fail_http(c, e);
}

static void broken(struct envd_call *c)
{
	struct envd_error e;

	(void)envd_fail(&e, CONNECT_INTERNAL, "the sandbox's agent broke the protocol");
	fail(c, &e);
}

static void go_on(struct envd_call *c, int r, const struct envd_error *e)
{
	if (r < 0)
		fail(c, e);
}

/* --- asking --- */

static const char *source(const struct compose *m)
{
	return json_string_value(json_array_get(m->sources, m->at));
}

static int ask_stat(struct envd_call *c, const char *path, struct envd_error *e)
{
	const struct compose *m = c->state;
	struct agent_stat s = {.flags = AGENT_STAT_FOLLOW, .user = m->user, .path = path};

	return envd_call_ask(c, AGENT_STAT, &s, e);
}

static int ask_read(struct envd_call *c, struct envd_error *e)
{
	const struct compose *m = c->state;
	struct agent_read r = {.length = UINT64_MAX, .user = "", .path = m->paths[m->at]};

	return envd_call_ask(c, AGENT_READ, &r, e);
}

static int ask_remove(struct envd_call *c, struct envd_error *e)
{
	const struct compose *m = c->state;
	struct agent_remove r = {.user = "", .path = m->paths[m->at]};

	return envd_call_ask(c, AGENT_REMOVE, &r, e);
}

static void reply(struct envd_call *c)
{
	const struct compose *m = c->state;
	int r = buf_add_str(&c->out, "{\"path\":");

	if (!r)
		r = envd_json_string(&c->out, m->result);
	if (!r)
		r = buf_add_str(&c->out, ",\"name\":");
	if (!r)
		r = envd_json_string(&c->out, envd_base_name(m->result));
	if (!r)
		r = buf_add_str(&c->out, ",\"type\":\"file\"}");
	if (r < 0) {
		envd_call_abort(c);
		return;
	}
	envd_reply_json(c->r, 200, &c->out);
	envd_call_finish(c);
}

/* --- the writer --- */

static void on_writer_event(struct agent_link *l, const struct agent_event *ev, void *arg)
{
	struct envd_call *c = arg;
	struct compose *m = c->state;
	struct envd_error e;

	if (c->over)
		return;
	if (ev->type == AGENT_ERROR) {
		envd_error_of_agent(&ev->error, &e);
		fail(c, &e);
		return;
	}
	if (ev->type != AGENT_ENTRY || c->step != COMPOSE_CLOSE) {
		broken(c);
		return;
	}
	m->result = strdup(ev->entry.path);
	c->step = COMPOSE_REMOVE;
	m->at = 0;
	if (!m->result)
		envd_call_abort(c);
	else
		go_on(c, ask_remove(c, &e), &e);
}

static void on_writer_writable(struct agent_link *l, void *arg)
{
	struct envd_call *c = arg;

	if (!c->over && c->link)
		agent_link_resume(c->link);
}

static void on_writer_lost(struct agent_link *l, const struct error *why, void *arg)
{
	struct envd_call *c = arg;
	struct envd_error e;

	if (c->over)
		return;
	envd_error_of_host(why, &e);
	fail(c, &e);
}

static int open_writer(struct envd_call *c, struct envd_error *e)
{
	static const struct agent_link_ops ops = {
		on_writer_event, on_writer_writable, on_writer_lost};
	struct compose *m = c->state;
	struct instance *i = instance_find(fleet_of(c->r), c->sandbox_id);
	struct agent_write w = {.flags = AGENT_WRITE_PARENTS,
		.mode = 0644,
		.user = m->user,
		.path = m->destination};
	struct error why = {0};
	int r;

	if (!i)
		return envd_absent_fail(fleet_of(c->r), c->sandbox_id, e);
	r = instance_agent_connect(i, LINK_OWN, &ops, c, &m->writer, &why);
	if (r == 0)
		r = agent_request(agent_link_conn(m->writer), AGENT_WRITE, &w, &why);
	if (r < 0)
		envd_error_of_host(&why, e);
	if (m->writer)
		request_hold(c->r, agent_link_hold(m->writer));
	if (r == 0)
		agent_link_send(m->writer);
	return r;
}

static void write_piece(struct envd_call *c, const uint8_t *data, size_t n)
{
	struct compose *m = c->state;
	struct agent_conn *conn = agent_link_conn(m->writer);

	/* This fits: a piece has at most 64 KiB, and the reader pauses above 128. */
	if (!conn || agent_send_data(conn, data, n) != (ssize_t)n) {
		envd_call_abort(c);
		return;
	}
	agent_link_send(m->writer);
	if (!agent_link_has_room(m->writer, ENVD_QUEUE_HIGH))
		agent_link_pause(c->link);
}

/* --- the steps --- */

static int check_source(struct envd_call *c, const struct agent_entry *entry, struct envd_error *e)
{
	struct compose *m = c->state;

	if (!S_ISREG(entry->mode))
		return envd_fail(
			e, CONNECT_INVALID_ARGUMENT, "%s is not a regular file", entry->path);
	m->paths[m->at] = strdup(entry->path);
	if (!m->paths[m->at])
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	if (++m->at < m->count)
		return ask_stat(c, source(m), e);
	c->step = COMPOSE_TARGET;
	return ask_stat(c, m->destination, e);
}

static int begin_copy(struct envd_call *c, struct envd_error *e)
{
	struct compose *m = c->state;
	int r = open_writer(c, e);

	c->step = COMPOSE_COPY;
	m->at = 0;
	return r ? r : ask_read(c, e);
}

static int check_target(struct envd_call *c, const struct agent_entry *entry, struct envd_error *e)
{
	const struct compose *m = c->state;

	for (size_t i = 0; i < m->count; i++)
		if (strcmp(m->paths[i], entry->path) == 0)
			return envd_fail(e, CONNECT_INVALID_ARGUMENT,
				"the destination is one of the sources");
	return begin_copy(c, e);
}

static int next_source(struct envd_call *c, struct envd_error *e)
{
	struct compose *m = c->state;

	if (++m->at < m->count)
		return ask_read(c, e);
	c->step = COMPOSE_CLOSE;
	if (agent_send_end(agent_link_conn(m->writer)) < 0)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	agent_link_send(m->writer);
	return 0;
}

static void on_copy_event(struct envd_call *c, const struct agent_event *ev)
{
	struct envd_error e;

	if (ev->type == AGENT_DATA)
		write_piece(c, ev->data, ev->length);
	else if (ev->type == AGENT_END)
		go_on(c, next_source(c, &e), &e);
	else if (ev->type != AGENT_ENTRY)
		broken(c);
}

static void on_removed(struct envd_call *c)
{
	struct compose *m = c->state;
	struct envd_error e;

	if (++m->at < m->count)
		go_on(c, ask_remove(c, &e), &e);
	else
		reply(c);
}

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	bool entry = ev->type == AGENT_ENTRY;
	struct envd_error e;

	if (c->step == COMPOSE_CHECK && entry)
		go_on(c, check_source(c, &ev->entry, &e), &e);
	else if (c->step == COMPOSE_TARGET && entry)
		go_on(c, check_target(c, &ev->entry, &e), &e);
	else if (c->step == COMPOSE_COPY)
		on_copy_event(c, ev);
	else if (c->step == COMPOSE_REMOVE && ev->type == AGENT_OK)
		on_removed(c);
	else
		broken(c);
}

static void on_refused(struct envd_call *c, const struct agent_error *m)
{
	struct envd_error e;

	if (c->step == COMPOSE_TARGET && m->class == AGENT_ERR_NOT_FOUND) {
		go_on(c, begin_copy(c, &e), &e);
		return;
	}
	envd_error_of_agent(m, &e);
	fail(c, &e);
}

/* --- the request --- */

static int parse(struct compose *m, const char *body, size_t n, struct envd_error *e)
{
	const char *reason;
	json_t *item;
	size_t i;

	m->user = m->destination = "";
	m->request = proto_json_parse(body, n, &reason);
	if (!m->request)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "%s", reason);
	if (proto_json_array(m->request, "source_paths", &m->sources) < 0 ||
		proto_json_string(m->request, "destination", &m->destination) < 0 ||
		proto_json_string(m->request, "username", &m->user) < 0)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT, "a member has the wrong type");
	m->count = json_array_size(m->sources);
	if (!m->count || m->count > SOURCES_MAX || !m->destination[0])
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"1 to %d source_paths and a destination are needed", SOURCES_MAX);
	json_array_foreach(m->sources, i, item)
	{
		if (!json_is_string(item) || !json_string_length(item) ||
			strlen(json_string_value(item)) != json_string_length(item))
			return envd_fail(e, CONNECT_INVALID_ARGUMENT, "a source path is no text");
	}
	m->paths = calloc(m->count, sizeof(m->paths[0]));
	return m->paths ? 0 : envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "out of memory");
}

static void on_request(struct request *r, const char *body, size_t n)
{
	static const struct envd_ops ops = {
		.fail = fail, .event = on_event, .refused = on_refused, .done = on_done};
	const struct instance *i = instance_find(fleet_of(r), r->route.sandbox_id);
	struct compose *m;
	struct envd_call *c;
	struct envd_error e;
	int err;

	if (!i) {
		envd_absent_reply(r);
		return;
	}
	c = envd_call_new(r, i, &ops);
	if (!c)
		return;
	c->second_link = true; /* its writer */
	c->state = m = calloc(1, sizeof(*m));
	err = m ? parse(m, body, n, &e)
		: envd_fail(&e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	if (err == 0)
		err = ask_stat(c, source(m), &e);
	go_on(c, err, &e);
}

void envd_compose(struct request *r, const struct instance *i)
{
	request_collect(r, REQUEST_MAX, on_request);
}
