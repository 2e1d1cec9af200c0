/* POST /files: writes the body's files into the guest as they arrive. All use one link in turn:
 * WRITE with its data, then SET_XATTRS. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "envd/envd_entry.h"
#include "envd/envd_http.h"
#include "envd/envd_upload.h"
#include "envd/envd_words.h"

enum { PIECE_MAX = 64 * 1024, RESULTS_MAX = 4 * 1024 * 1024 };

/*	BODY     the body is read; data of an open file goes to the agent
 *	CLOSING  a file has ended: waits for its ENTRY, and the body with it
 *	MARKING  the same, for the OK to its attributes
 */
enum post_step { POST_BODY, POST_CLOSING, POST_MARKING };

struct post {
	struct envd_upload *upload;
	char *path, *user;
	uint32_t mode;
	struct envd_metadata metadata;
	struct buf held;    /* bytes of the body that wait */
	struct buf results; /* elements of the answer */
	char **written;	    /* the files' absolute paths */
	unsigned count;
	bool ended; /* the whole body was received */
};

static void on_done(struct envd_call *c)
{
	struct post *p = c->state;

	if (!p)
		return;
	envd_upload_free(p->upload);
	for (unsigned i = 0; i < p->count; i++)
		free(p->written[i]);
	free(p->written);
	buf_done(&p->held);
	buf_done(&p->results);
	free(p->path);
	free(p->user);
	free(p);
}

static int out_of_memory(struct envd_error *e)
{
	return envd_fail(e, CONNECT_RESOURCE_EXHAUSTED, "the server is out of memory");
}

/* --- events of the body --- */

static int open_file(struct envd_call *c, struct envd_error *e)
{
	struct post *p = c->state;
	struct agent_write m = {.flags = AGENT_WRITE_PARENTS,
		.mode = p->mode,
		.user = p->user,
		.path = envd_upload_path(p->upload)};

	return envd_call_ask(c, AGENT_WRITE, &m, e);
}

static int send_data(struct envd_call *c, struct envd_error *e)
{
	struct post *p = c->state;
	size_t n;
	const uint8_t *data = envd_upload_data(p->upload, &n);

	/* This fits: a piece has at most 64 KiB, and fewer than ENVD_QUEUE_HIGH bytes wait. */
	if (!c->link || agent_send_data(agent_link_conn(c->link), data, n) != (ssize_t)n)
		return out_of_memory(e);
	agent_link_send(c->link);
	return 0;
}

static int close_file(struct envd_call *c, struct envd_error *e)
{
	if (!c->link || agent_send_end(agent_link_conn(c->link)) < 0)
		return out_of_memory(e);
	agent_link_send(c->link);
	c->step = POST_CLOSING;
	return 0;
}

static int reply(struct envd_call *c, struct envd_error *e)
{
	struct post *p = c->state;
	int r = buf_add_str(&p->results, p->count ? "]" : "[]");

	if (r < 0)
		return out_of_memory(e);
	envd_reply_json(c->r, 200, &p->results);
	envd_call_finish(c);
	return 0;
}

static int act(struct envd_call *c, enum envd_upload_event event, struct envd_error *e)
{
	switch (event) {
	case ENVD_UPLOAD_FILE:
		return open_file(c, e);
	case ENVD_UPLOAD_DATA:
		return send_data(c, e);
	case ENVD_UPLOAD_FILE_END:
		return close_file(c, e);
	case ENVD_UPLOAD_END:
		return reply(c, e);
	default:
		return -EINVAL; /* e was filled with ERROR */
	}
}

/* Returns false if the agent has to take something first. */
static bool may_go_on(const struct envd_call *c)
{
	return !c->over && c->step == POST_BODY && (!c->link || envd_call_can_send(c));
}

/* Parses n bytes, the latest received. Returns how many are done with, or -errno. */
static ssize_t take(struct envd_call *c, const uint8_t *data, size_t n, struct envd_error *e)
{
	struct post *p = c->state;
	size_t done = 0;

	while (may_go_on(c)) {
		size_t part = n - done < PIECE_MAX ? n - done : PIECE_MAX, used;
		bool last = p->ended && part == n - done;
		enum envd_upload_event event =
			envd_upload_next(p->upload, data + done, part, last, &used, e);
		int r;

		done += used;
		if (event == ENVD_UPLOAD_MORE) {
			if (done == n)
				break;
			continue;
		}
		r = act(c, event, e);
		if (r < 0)
			return r;
	}
	return (ssize_t)done;
}

/* Works on the held bytes, and reads on when all are done with. */
static void pump(struct envd_call *c)
{
	static const uint8_t nothing[1];
	struct post *p = c->state;
	size_t n = buf_len(&p->held);
	struct envd_error e;
	ssize_t done = take(c, n ? buf_head(&p->held) : nothing, n, &e);

	if (done < 0) {
		envd_call_fail_http(c, &e);
		return;
	}
	buf_consume(&p->held, (size_t)done);
	if (!c->over && !p->ended && may_go_on(c))
		request_resume(c->r);
	else
		request_pause(c->r);
}

static void on_body(struct envd_call *c, const uint8_t *data, size_t n)
{
	struct post *p = c->state;
	struct envd_error e;
	ssize_t done = 0;

	if (!buf_len(&p->held))
		done = take(c, data, n, &e);
	if (done >= 0 && !c->over && (size_t)done < n) {
		request_pause(c->r);
		if (buf_add(&p->held, data + done, n - (size_t)done) < 0)
			done = out_of_memory(&e);
	}
	if (done < 0)
		envd_call_fail_http(c, &e);
	else if (!c->over && !may_go_on(c))
		request_pause(c->r);
}

static void on_body_end(struct envd_call *c)
{
	((struct post *)c->state)->ended = true;
	pump(c);
}

/* --- events of the agent --- */

static int write_metadata(struct buf *out, const struct envd_metadata *m)
{
	const struct agent_strings pairs = {.array = m->strings, .count = m->count};
	unsigned count;
	int r = m->count ? buf_add_str(out, ",\"metadata\":") : 0;

	return r || !m->count ? r : envd_metadata_write(out, &pairs, &count);
}

static int add_result(struct post *p, const char *path)
{
	int r = buf_add_str(&p->results, p->count ? ",{\"path\":" : "[{\"path\":");

	if (!r)
		r = envd_json_string(&p->results, path);
	if (!r)
		r = buf_add_str(&p->results, ",\"name\":");
	if (!r)
		r = envd_json_string(&p->results, envd_base_name(path));
	if (!r)
		r = buf_add_str(&p->results, ",\"type\":\"file\"");
	if (!r)
		r = write_metadata(&p->results, &p->metadata);
	return r ? r : buf_add_u8(&p->results, '}');
}

static int remember(struct post *p, const char *path, struct envd_error *e)
{
	char **grown;

	for (unsigned i = 0; i < p->count; i++)
		if (strcmp(p->written[i], path) == 0)
			return envd_fail(e, CONNECT_INVALID_ARGUMENT, ENVD_WORDS_TWO_PARTS, path);
	if (add_result(p, path) < 0)
		return out_of_memory(e);
	grown = realloc(p->written, (p->count + 1) * sizeof(p->written[0]));
	if (!grown)
		return out_of_memory(e);
	p->written = grown;
	grown[p->count] = strdup(path);
	if (!grown[p->count])
		return out_of_memory(e);
	p->count++;
	return 0;
}

/* Every upload replaces all attributes of the file. */
static int mark_file(struct envd_call *c, const char *path, struct envd_error *e)
{
	struct post *p = c->state;
	struct agent_set_xattrs m = {.flags = AGENT_XATTRS_REPLACE,
		.prefix = ENVD_METADATA_PREFIX,
		.user = "",
		.path = path,
		.pairs = {.array = p->metadata.strings, .count = p->metadata.count}};

	c->step = POST_MARKING;
	return envd_call_ask(c, AGENT_SET_XATTRS, &m, e);
}

static void on_event(struct envd_call *c, const struct agent_event *ev)
{
	struct post *p = c->state;
	struct envd_error e;
	char *path;

	if (ev->type == AGENT_OK && c->step == POST_MARKING) {
		c->step = POST_BODY;
		pump(c);
		return;
	}
	if (ev->type != AGENT_ENTRY || c->step != POST_CLOSING) {
		(void)envd_fail(&e, CONNECT_INTERNAL, "the sandbox's agent broke the protocol");
		envd_call_fail_http(c, &e);
		return;
	}
	/* The next request invalidates what the event points to, so the copy is used. */
	if (remember(p, ev->entry.path, &e) < 0) {
		envd_call_fail_http(c, &e);
		return;
	}
	path = p->written[p->count - 1];
	if (mark_file(c, path, &e) < 0)
		envd_call_fail_http(c, &e);
}

/* If the file was to have no attributes, a file system without them is fine. */
static void on_refused(struct envd_call *c, const struct agent_error *m)
{
	const struct post *p = c->state;
	struct envd_error e;

	if (c->step == POST_MARKING && !p->metadata.count) {
		c->step = POST_BODY;
		pump(c);
		return;
	}
	envd_error_of_agent(m, &e);
	envd_call_fail_http(c, &e);
}

/* --- opening --- */

static int open_post(struct envd_call *c, struct envd_error *e)
{
	struct post *p = calloc(1, sizeof(*p));
	const struct http_head *head = c->r->head;
	int r;

	c->state = p;
	if (!p)
		return out_of_memory(e);
	p->mode = 0644;
	buf_init(&p->held, 4 * PIECE_MAX);
	buf_init(&p->results, RESULTS_MAX);
	r = envd_file_query(c->r, &p->path, &p->user, e);
	if (r == 0)
		r = envd_mode_query(head->query, &p->mode, e);
	if (r == 0)
		r = envd_metadata_parse(&head->headers, &p->metadata, e);
	if (r < 0)
		return r;
	return c->r->file ? envd_upload_raw(&head->headers, p->path, &p->upload, e)
			  : envd_upload_new(&head->headers, p->path, &p->upload, e);
}

void envd_post_files(struct request *r, const struct instance *i)
{
	static const struct envd_ops ops = {.fail = envd_call_fail_http,
		.event = on_event,
		.refused = on_refused,
		.writable = pump,
		.body = on_body,
		.body_end = on_body_end,
		.done = on_done};
	struct envd_call *c = envd_call_new(r, i, &ops);
	struct envd_error e;

	if (!c)
		return;
	if (open_post(c, &e) < 0)
		envd_call_fail_http(c, &e);
	else
		request_resume(r);
}
