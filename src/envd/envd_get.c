/* GET and HEAD /files: streams a file of the guest, never held as a whole. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "envd/envd_download.h"
#include "envd/envd_http.h"
#include "envd/envd_words.h"
#include "proto/uri.h"

/*	STAT   the answer depends on size or age, so STAT was sent; next is RANGE, or the end
 *	RANGE  READ of the planned part was sent; its ENTRY begins the answer
 *	READ   READ of the whole file was sent; its ENTRY makes the plan and begins the answer
 *	EMPTY  the file's size is 0. Files in /proc say so but have contents: their first DATA
 *	       begins an answer of unknown length
 *	DATA   the answer has begun
 */
enum get_step { GET_STAT, GET_RANGE, GET_READ, GET_EMPTY, GET_DATA };

struct get {
	char *path, *user;
	struct envd_download plan;
	uint64_t left; /* bytes that are still due; UINT64_MAX: unknown */
};

static int query_string(const char *query, const char *key, char **ret, struct envd_error *e)
{
	int r = uri_query_dup(query, key, ret);

	if (r == -ENOENT) {
		*ret = strdup("");
		r = *ret ? 0 : -ENOMEM;
	}
	if (r == -ENOMEM)
		return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	return r < 0 ? envd_fail(e, CONNECT_INVALID_ARGUMENT, "the parameter %s is malformed", key)
		     : 0;
}

static int file_path(const struct request *req, char **ret, struct envd_error *e)
{
	if (!req->file)
		return query_string(req->head->query, "path", ret, e);
	*ret = strdup(req->file);
	return *ret ? 0 : envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
}

int envd_file_query(
	const struct request *req, char **ret_path, char **ret_user, struct envd_error *e)
{
	_cleanup_free_ char *path = NULL, *user = NULL;
	int r = file_path(req, &path, e);

	if (r == 0)
		r = query_string(req->head->query, "username", &user, e);
	if (r < 0)
		return r;
	*ret_path = TAKE_PTR(path);
	*ret_user = TAKE_PTR(user);
	return 0;
}

int envd_mode_query(const char *query, uint32_t *ret, struct envd_error *e)
{
	char text[8], *end;
	int n = uri_query_get(query, "mode", text, sizeof(text));
	unsigned long mode;

	if (n == -ENOENT)
		return 0;
	mode = n > 0 ? strtoul(text, &end, 8) : 0;
	if (n <= 0 || *end || text[0] < '0' || text[0] > '7' || mode > 07777)
		return envd_fail(e, CONNECT_INVALID_ARGUMENT,
			"the parameter mode must be permission bits in octal, such as 0755");
	*ret = (uint32_t)mode;
	return 0;
}

static struct http_reply head_of(
	struct envd_call *c, struct http_field fields[ENVD_DOWNLOAD_FIELDS + ENVD_CORS_FIELDS])
{
	const struct envd_download *d = &((struct get *)c->state)->plan;
	unsigned n = d->field_count;

	memcpy(fields, d->fields, n * sizeof(fields[0]));
	n += envd_cors(c->r, fields + n);
	return (struct http_reply){.status = d->status,
		.content_type = d->content_type,
		.fields = fields,
		.field_count = n};
}

/* Answers without a body. */
static void reply_head(struct envd_call *c)
{
	struct http_field fields[ENVD_DOWNLOAD_FIELDS + ENVD_CORS_FIELDS];
	const struct http_reply m = head_of(c, fields);
	const struct get *g = c->state;

	if (m.status == 200 || m.status == 206) { /* HEAD */
		if (request_stream(c->r, &m, (int64_t)g->plan.length) == 0)
			(void)request_end(c->r); /* or the client has gone */
	} else {
		(void)request_reply(c->r, &m); /* likewise */
	}
	envd_call_finish(c);
}

static void begin(struct envd_call *c, int64_t length)
{
	struct http_field fields[ENVD_DOWNLOAD_FIELDS + ENVD_CORS_FIELDS];
	const struct http_reply m = head_of(c, fields);
	struct get *g = c->state;

	g->left = length < 0 ? UINT64_MAX : (uint64_t)length;
	c->step = GET_DATA;
	if (request_stream(c->r, &m, length) < 0)
		envd_call_abort(c);
}

static void end(struct envd_call *c)
{
	(void)request_end(c->r); /* or the client has gone */
	envd_call_finish(c);
}

static int ask_read(struct envd_call *c, uint64_t offset, uint64_t length, struct envd_error *e)
{
	const struct get *g = c->state;
	struct agent_read m = {
		.offset = offset, .length = length, .user = g->user, .path = g->path};

	return envd_call_ask(c, AGENT_READ, &m, e);
}

static bool has_body(const struct envd_call *c, const struct envd_download *d)
{
	return (d->status == 200 || d->status == 206) && strcmp(c->r->head->method, "HEAD") != 0;
}

/* The size is the agent's word: refuses one that does not fit into a header. */
static bool check_entry(struct envd_call *c, const struct agent_entry *entry)
{
	struct envd_error e;

	if (S_ISREG(entry->mode) && entry->size <= INT64_MAX)
		return true;
	if (S_ISDIR(entry->mode))
		(void)envd_fail(&e, CONNECT_INVALID_ARGUMENT, ENVD_WORDS_DIRECTORY, entry->path);
	else
		(void)envd_fail(
			&e, CONNECT_INVALID_ARGUMENT, "%s is not a regular file", entry->path);
	envd_call_fail_http(c, &e);
	return false;
}

static void on_entry(struct envd_call *c, const struct agent_entry *entry)
{
	struct get *g = c->state;
	struct envd_error e;

	if (c->step == GET_RANGE) {
		begin(c, (int64_t)g->plan.length);
		return;
	}
	if (!check_entry(c, entry))
		return;
	envd_download_plan(c->r->head, entry, &g->plan);
	if (!has_body(c, &g->plan)) {
		reply_head(c);
	} else if (c->step == GET_STAT) {
		c->step = GET_RANGE;
		if (ask_read(c, g->plan.offset, g->plan.length, &e) < 0)
			envd_call_fail_http(c, &e);
	} else if (g->plan.length) {
		begin(c, (int64_t)g->plan.length);
	} else {
		c->step = GET_EMPTY;
	}
}

static void on_data(struct envd_call *c, const uint8_t *data, size_t n)
{
	struct get *g = c->state;
	size_t part;

	if (c->step == GET_EMPTY)
		begin(c, HTTP_NO_LENGTH);
	if (c->over)
		return;
	part = n < g->left ? n : (size_t)g->left;
	if (part)
		envd_call_write(c, data, part);
	if (c->over || g->left == UINT64_MAX)
		return;
	g->left -= part;
	if (!g->left)
		end(c); /* the file has grown: it is cut at the promised length */
}

static void on_end(struct envd_call *c)
{
	const struct get *g = c->state;

	if (c->step == GET_EMPTY)
		begin(c, 0);
	if (c->over)
		return;
	if (g->left && g->left != UINT64_MAX)
		envd_call_abort(c); /* the file has shrunk: the answer is incomplete */
	else
		end(c);
}

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	bool in_data = c->step == GET_DATA || c->step == GET_EMPTY;

	if (ev->type == AGENT_ENTRY && !in_data)
		on_entry(c, &ev->entry);
	else if (ev->type == AGENT_DATA && in_data)
		on_data(c, ev->data, ev->length);
	else if (ev->type == AGENT_END && in_data)
		on_end(c);
	else
		envd_call_abort(c); /* a protocol error */
}

/* A conditional request asks for the entry first. Its failure has the words of a read. */
static void on_refused(struct envd_call *c, const struct agent_error *m)
{
	struct agent_error of_read = *m;
	struct envd_error e;

	of_read.request = AGENT_READ;
	envd_error_of_agent(&of_read, &e);
	envd_call_fail_http(c, &e);
}

static void on_done(struct envd_call *c)
{
	struct get *g = c->state;

	if (!g)
		return;
	free(g->path);
	free(g->user);
	free(g);
}

static int ask(struct envd_call *c, struct envd_error *e)
{
	const struct get *g = c->state;
	struct agent_stat m = {.flags = AGENT_STAT_FOLLOW, .user = g->user, .path = g->path};

	if (envd_download_is_conditional(c->r->head)) {
		c->step = GET_STAT;
		return envd_call_ask(c, AGENT_STAT, &m, e);
	}
	c->step = GET_READ;
	return ask_read(c, 0, UINT64_MAX, e);
}

void envd_get_file(struct request *r, const struct instance *i)
{
	static const struct envd_ops ops = {.fail = envd_call_fail_http,
		.event = on_event,
		.refused = on_refused,
		.done = on_done};
	struct envd_call *c = envd_call_new(r, i, &ops);
	struct envd_error e;
	struct get *g;
	int err;

	if (!c)
		return;
	c->state = g = calloc(1, sizeof(*g));
	err = g ? envd_file_query(r, &g->path, &g->user, &e)
		: envd_fail(&e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
	if (err == 0)
		err = ask(c, &e);
	if (err < 0)
		envd_call_fail_http(c, &e);
	else
		request_resume(r); /* drops a body; without one, notices a client that goes */
}
