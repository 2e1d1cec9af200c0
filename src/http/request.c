#include "http/request.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "http/connection.h"
#include "http/peers.h"

uv_loop_t *request_loop(const struct request *r)
{
	return r->connection->all->loop;
}

const char *request_domain(const struct request *r)
{
	return r->connection->all->domain;
}

void request_set_ops(struct request *r, const struct request_ops *ops, void *data)
{
	r->ops = ops;
	r->data = data;
}

void request_meter(struct request *r, const char *sandbox_id)
{
	if (sandbox_id != r->route.sandbox_id) /* it comes from a signed URL */
		(void)snprintf(r->route.sandbox_id, sizeof(r->route.sandbox_id), "%s", sandbox_id);
	r->metered = true;
}

static bool is_over(const struct request *r)
{
	return r->state >= REQUEST_ENDED;
}

/* --- the budget --- */

bool request_charge_to(struct request *r, const char *id)
{
	static const struct http_reply reply = {.status = 429, .close = true};

	if (connection_charge_to(r->connection, id))
		return true;
	(void)request_reply_error(r, &reply, NULL,
		"this key has too many connections: use fewer, or close idle ones");
	return false;
}

void request_hold(const struct request *r, struct budget_hold *h)
{
	const struct budget_hold *of = &r->connection->hold;

	budget_charge_to(h, &r->connection->all->budget, of->account ? of->account->id : "");
}

/* Whether an answer of that length may be queued. */
static bool has_room(struct request *r, size_t n)
{
	size_t queued = connection_queued(r->connection);

	return n <= REQUEST_LOW_WATER || budget_set(&r->connection->hold, queued + n);
}

/* --- guesses --- */

bool request_may_guess(const struct request *r)
{
	return peers_may_guess(r->connection->all->peers, r->connection->who,
		http_header_get(&r->head->headers, "x-forwarded-for"), clock_monotonic_ns());
}

void request_note_guess(const struct request *r)
{
	peers_note_guess(r->connection->all->peers, r->connection->who,
		http_header_get(&r->head->headers, "x-forwarded-for"), clock_monotonic_ns());
}

/* --- reading --- */

void request_resume(struct request *r)
{
	if (is_over(r) || r->reading)
		return;
	r->reading = true;
	if (r->head->expect_continue && !r->received && r->state == REQUEST_NONE && !r->continued) {
		r->continued = true;
		/* without it, the client sends the body a little later */
		(void)http_reply_continue(&r->connection->out);
	}
	connection_mark(r->connection);
}

void request_pause(struct request *r)
{
	if (is_over(r) || !r->reading)
		return;
	r->reading = false;
	connection_mark(r->connection);
}

/* --- gathering a body --- */

struct request_collect {
	struct buf body;
	void (*then)(struct request *r, const char *body, size_t n);
	void (*refuse)(struct request *r, unsigned status, const char *message);
	struct budget_hold hold;
};

static void drop_collected(struct request *r)
{
	if (!r->collect)
		return;
	buf_done(&r->collect->body);
	budget_release(&r->collect->hold);
	free(r->collect);
	r->collect = NULL;
}

static void refuse_plainly(struct request *r, unsigned status, const char *message)
{
	struct http_reply reply = {.status = status};

	(void)request_reply_error(r, &reply, NULL, message); /* nothing else can be done */
}

static void refuse_body(struct request *r, unsigned status, const char *message)
{
	void (*refuse)(struct request * r, unsigned status, const char *message) =
		r->collect ? r->collect->refuse : refuse_plainly;

	r->ops = NULL;
	drop_collected(r);
	refuse(r, status, message);
}

static void collect_body(struct request *r, const uint8_t *data, size_t n)
{
	struct request_collect *c = r->collect;
	int e;

	if (buf_len(&c->body) + n < c->body.max && !budget_set(&c->hold, buf_len(&c->body) + n)) {
		refuse_body(r, 429, BUDGET_REFUSAL);
		return;
	}
	e = buf_add(&c->body, data, n);
	if (e < 0)
		refuse_body(r, e == -EMSGSIZE ? 413 : 503,
			e == -EMSGSIZE ? "the request's body is too large" : "out of memory");
}

static void collect_gone(struct request *r, bool complete)
{
	drop_collected(r);
}

static void collect_end(struct request *r)
{
	struct request_collect *c = r->collect;

	if (buf_add_u8(&c->body, 0) < 0) {
		refuse_body(r, 413, "the request's body is too large");
		return;
	}
	r->collect = NULL;
	r->ops = NULL;
	c->then(r, (const char *)buf_head(&c->body), buf_len(&c->body) - 1);
	buf_done(&c->body);
	budget_release(&c->hold);
	free(c);
}

void request_collect(
	struct request *r, size_t max, void (*then)(struct request *r, const char *body, size_t n))
{
	request_collect_or(r, max, then, refuse_plainly);
}

void request_collect_or(struct request *r, size_t max,
	void (*then)(struct request *r, const char *body, size_t n),
	void (*refuse)(struct request *r, unsigned status, const char *message))
{
	static const struct request_ops ops = {
		.body = collect_body, .body_end = collect_end, .done = collect_gone};

	r->collect = calloc(1, sizeof(*r->collect));
	if (!r->collect) {
		refuse_body(r, 503, "out of memory");
		return;
	}
	buf_init(&r->collect->body, max + 1);
	r->collect->then = then;
	r->collect->refuse = refuse;
	request_hold(r, &r->collect->hold);
	r->ops = &ops;
	if (r->head->content_length > (int64_t)max)
		refuse_body(r, 413, "the request's body is too large");
	else
		request_resume(r);
}

/* --- answering --- */

/* Whether to cut off the rest of the body instead of reading it: it is long, or the client may
 * never send it, since nobody told it to continue. */
static bool is_body_in_the_way(const struct request *r)
{
	if (r->received || !r->head->has_body)
		return false;
	return r->head->content_length > CONNECTION_DROP_MAX ||
	       (r->head->expect_continue && !r->continued);
}

static void fill_reply(struct request *r, struct http_reply *reply)
{
	if (!r->head->keep_alive || is_body_in_the_way(r))
		r->close = true;
	if (reply->close)
		r->close = true;
	reply->close = r->close;
	reply->request_id = r->id;
	reply->head_only = r->head_only;
	reply->keep_alive_10 = r->head->minor == 0 && !r->close;
	r->status = reply->status;
}

/* --- retry advice --- */

enum { ADVICE_MAX = 2, FIELDS_MAX = 16 };

void request_set_final(struct request *r)
{
	r->final = true;
}

static bool has_field(const struct http_reply *reply, const char *name)
{
	for (size_t i = 0; i < reply->field_count; i++)
		if (strcasecmp(reply->fields[i].name, name) == 0)
			return true;
	return false;
}

/* Adds Retry-After and Should-Retry. `room` must outlive the reply. */
static void add_advice(
	const struct request *r, struct http_reply *reply, struct http_field room[FIELDS_MAX])
{
	bool again = reply->status == 429 || reply->status == 503;
	size_t n = reply->field_count;

	if (reply->status < 429 || n > FIELDS_MAX - ADVICE_MAX)
		return;
	if (n)
		memcpy(room, reply->fields, n * sizeof(*room));
	if (again && !has_field(reply, "Retry-After"))
		room[n++] = (struct http_field){"Retry-After", "1"};
	if (r->final && !has_field(reply, "Should-Retry"))
		room[n++] = (struct http_field){"Should-Retry", "false"};
	reply->fields = room;
	reply->field_count = n;
}

static int end_now(struct request *r, int e)
{
	if (e < 0) {
		r->connection->aborted = true;
		connection_mark(r->connection);
		return e;
	}
	r->state = REQUEST_ENDED;
	connection_mark(r->connection);
	return 0;
}

int request_reply(struct request *r, const struct http_reply *reply)
{
	struct http_field room[FIELDS_MAX];
	struct http_reply full = *reply;

	if (r->state != REQUEST_NONE)
		return -EPIPE;
	if (!has_room(r, reply->len)) {
		static const struct http_reply short_one = {.status = 429};

		return request_reply_error(r, &short_one, NULL, BUDGET_REFUSAL);
	}
	fill_reply(r, &full);
	add_advice(r, &full, room);
	if (reply->status < 400 && !r->head_only)
		connection_count(r, 0, reply->len);
	return end_now(r, http_reply(&r->connection->out, &full));
}

int request_reply_error(struct request *r, const struct http_reply *reply, const char *error_code,
	const char *message)
{
	struct http_field room[FIELDS_MAX];
	struct http_reply full = *reply;

	if (r->state != REQUEST_NONE)
		return -EPIPE;
	fill_reply(r, &full);
	add_advice(r, &full, room);
	return end_now(r, http_reply_error(&r->connection->out, &full, error_code, message));
}

/* Writes the head for a body of known length. */
static int fixed_head(struct request *r, const struct http_reply *reply, uint64_t length)
{
	struct http_writer w = http_reply_begin(&r->connection->out, reply);

	http_writer_header_u64(&w, "Content-Length", length);
	r->fixed = true;
	r->left = length;
	return http_writer_finish(&w);
}

static int begin_stream(struct request *r, int e)
{
	if (e < 0) {
		r->connection->aborted = true;
		connection_mark(r->connection);
		return e;
	}
	r->state = REQUEST_STREAM;
	connection_mark(r->connection);
	return 0;
}

int request_stream(struct request *r, const struct http_reply *reply, int64_t length)
{
	struct http_reply full = *reply;

	if (r->state != REQUEST_NONE)
		return -EPIPE;
	fill_reply(r, &full);
	if (length >= 0)
		return begin_stream(r, fixed_head(r, &full, (uint64_t)length));
	r->chunked = r->head->minor > 0;
	r->close = r->close || !r->chunked;
	return begin_stream(r, http_reply_stream(&r->connection->out, &full, r->head->minor));
}

/* Writes a ready-made head, with the request's id added before its blank line. */
static int add_head(struct request *r, const void *head, size_t n)
{
	struct buf *out = &r->connection->out;
	struct http_writer w = {.out = out, .mark = buf_len(out)};

	if (n < 4)
		return -EINVAL;
	w.err = buf_add(out, head, n - 2);
	http_writer_header(&w, HTTP_REQUEST_ID, r->id);
	return http_writer_finish(&w);
}

int request_stream_proxied(
	struct request *r, unsigned status, const void *head, size_t n, bool chunked, bool close)
{
	if (r->state != REQUEST_NONE)
		return -EPIPE;
	r->status = status;
	r->chunked = chunked;
	r->close = close || !r->head->keep_alive;
	return begin_stream(r, add_head(r, head, n));
}

int request_interim(struct request *r, const void *head, size_t n)
{
	int e;

	if (r->state != REQUEST_NONE)
		return -EPIPE;
	e = buf_add(&r->connection->out, head, n);
	connection_mark(r->connection);
	return e;
}

int request_upgrade(struct request *r, const void *head, size_t n)
{
	int e;

	if (r->state != REQUEST_NONE)
		return -EPIPE;
	e = begin_stream(r, add_head(r, head, n));
	if (e < 0)
		return e;
	r->status = 101;
	r->state = REQUEST_RAW;
	r->close = true;
	r->received = r->reading = r->told_end = r->chunked = false;
	return 0;
}

/* A stream can wait: less is queued while its account exceeds its share. */
static size_t high_water(const struct request *r)
{
	return budget_is_short(&r->connection->hold) ? REQUEST_LOW_WATER : REQUEST_HIGH_WATER;
}

size_t request_room(const struct request *r)
{
	size_t queued = connection_queued(r->connection), high = high_water(r);

	return queued < high ? high - queued : 0;
}

int request_write(struct request *r, const void *data, size_t n)
{
	struct connection *c = r->connection;
	int e;

	if (r->state != REQUEST_STREAM && r->state != REQUEST_RAW)
		return -EPIPE;
	if (r->fixed && n > r->left)
		return -EMSGSIZE;
	r->left -= r->fixed ? n : 0;
	if (r->head_only && r->state == REQUEST_STREAM)
		return 0;
	metrics_add(METRIC_BYTES, route_surface(&r->route), "out", (double)n);
	if (n > REQUEST_QUEUE_MAX || connection_queued(c) > REQUEST_QUEUE_MAX - n)
		return -EMSGSIZE;
	e = r->chunked ? http_chunk(&c->out, data, n) : buf_add(&c->out, data, n);
	connection_mark(c);
	if (e < 0)
		return e;
	connection_count(r, 0, n);
	r->full = r->full || connection_queued(c) >= high_water(r);
	return r->full;
}

int request_end(struct request *r)
{
	return request_end_trailers(r, NULL, 0);
}

int request_end_trailers(struct request *r, const struct http_field *trailers, size_t count)
{
	bool chunks = r->chunked && !r->head_only;

	if (r->state != REQUEST_STREAM && r->state != REQUEST_RAW)
		return -EPIPE;
	if (r->fixed && r->left && !r->head_only) {
		/* less was written than promised */
		request_abort(r);
		return -EMSGSIZE;
	}
	return end_now(r, chunks ? http_chunk_last_with(&r->connection->out, trailers, count) : 0);
}

void request_abort(struct request *r)
{
	if (r->state == REQUEST_GONE)
		return;
	r->connection->aborted = true;
	connection_mark(r->connection);
}
