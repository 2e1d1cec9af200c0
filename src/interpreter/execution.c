#include "interpreter/execution.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "interpreter/lines.h"

/* --- to the client --- */

static void on_keepalive(uv_timer_t *timer);

static void await_silence(struct execution *x)
{
	/* an initialised timer with a callback: starts */
	(void)uv_timer_start(&x->keepalive, on_keepalive, EXECUTION_KEEPALIVE_S * 1000, 0);
}

static void write_line(struct execution *x, const struct buf *line)
{
	int r;

	if (!x->exchange)
		return;
	r = exchange_write(x->exchange, buf_head(line), buf_len(line));
	if (r < 0) /* cannot be: "full" is far below the queue's maximum */
		log_error("a line of %zu bytes was lost: %s", buf_len(line), strerror(-r));
	await_silence(x);
	if (r == 1)
		x->ops->full(x);
}

/* Writes the line in the buffer, unless appending to it failed. */
static void finish_line(struct execution *x, struct buf *line, int r)
{
	if (r == 0)
		write_line(x, line);
	else
		execution_fail(x, "OutputTooLarge", "an output was too large and was dropped");
	buf_done(line);
}

static struct buf line_buffer(void)
{
	return (struct buf)BUF_INIT(SERVER_QUEUE_MAX / 2);
}

static void on_keepalive(uv_timer_t *timer)
{
	struct execution *x = timer->data;
	struct buf line = line_buffer();
	int r = 0;

	if (x->exchange && !exchange_is_full(x->exchange))
		r = lines_add_type(&line, "keepalive");
	finish_line(x, &line, r);
	await_silence(x);
}

static void add_count(struct execution *x, json_int_t count)
{
	struct buf line = line_buffer();

	if (x->counted)
		return;
	x->counted = true;
	finish_line(x, &line, lines_add_count(&line, count));
}

void execution_fail(struct execution *x, const char *name, const char *value)
{
	struct buf line = line_buffer();

	if (x->failed)
		return;
	x->failed = true;
	finish_line(x, &line, lines_add_error(&line, name, value, ""));
}

static void add_kernel_error(struct execution *x, const json_t *content)
{
	struct buf line = line_buffer();

	if (x->failed)
		return;
	x->failed = true;
	finish_line(x, &line, lines_add_kernel_error(&line, content));
}

/* --- from the kernel --- */

static void take_stream(struct execution *x, const json_t *content)
{
	const char *name = json_string_value(json_object_get(content, "name"));
	const json_t *text = json_object_get(content, "text");
	struct buf line = line_buffer();

	if (!name || !json_string_length(text))
		return;
	name = strcmp(name, "stderr") == 0 ? "stderr" : "stdout";
	finish_line(x, &line,
		lines_add_text(&line, name, json_string_value(text), json_string_length(text)));
}

static void add_result(struct execution *x, const json_t *content, bool is_main)
{
	const json_t *data = json_object_get(content, "data");
	struct buf line = line_buffer();

	if (json_is_object(data))
		finish_line(x, &line, lines_add_result(&line, data, is_main));
}

static void take_display(struct execution *x, const json_t *content)
{
	add_result(x, content, false);
}

static void take_result(struct execution *x, const json_t *content)
{
	add_result(x, content, true);
}

static void take_reply(struct execution *x, const json_t *content)
{
	const char *status = json_string_value(json_object_get(content, "status"));

	if (status && strcmp(status, "error") == 0 && !x->reply)
		x->reply = json_incref((json_t *)(uintptr_t)content);
}

static const struct {
	const char *type;
	void (*take)(struct execution *x, const json_t *content);
	bool shows; /* shows something, so the count must come first */
} types[] = {
	{"stream", take_stream, true},
	{"execute_result", take_result, true},
	{"display_data", take_display, true},
	{"error", add_kernel_error, true},
	{"execute_reply", take_reply, false},
};

void execution_message(
	struct execution *x, const struct message *m, const json_t *content, json_int_t next_count)
{
	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		if (strcmp(types[i].type, m->type) != 0)
			continue;
		if (types[i].shows)
			add_count(x, next_count);
		if (m->content.n > EXECUTION_RESULT_MAX)
			execution_fail(x, "OutputTooLarge",
				"an output of more than 64 MiB was refused: write it to a file");
		else if (content)
			types[i].take(x, content);
		else if (types[i].shows)
			execution_fail(x, "OutputUnreadable",
				"an output was dropped: integers in it have more than 64 bits, "
				"or it is no JSON");
		return;
	}
	if (strcmp(m->type, "execute_input") == 0)
		add_count(x, next_count);
}

/* --- its life --- */

bool execution_is_full(const struct execution *x)
{
	return x->exchange && exchange_is_full(x->exchange);
}

static void on_drained(void *opaque)
{
	struct execution *x = opaque;

	x->ops->drained(x);
}

static void on_gone(void *opaque)
{
	struct execution *x = opaque;

	x->exchange = NULL;
	(void)uv_timer_stop(&x->keepalive); /* always 0 */
	x->ops->gone(x);
}

struct execution *execution_new(uv_loop_t *loop, struct exchange *exchange, const char *code,
	size_t n, json_t *env, const struct execution_ops *ops, void *owner)
{
	static const struct exchange_ops exchange_ops = {on_drained, on_gone};
	struct execution *x = calloc(1, sizeof(*x));

	if (!x)
		return NULL;
	x->code = malloc(n + 1);
	if (!x->code) {
		free(x);
		return NULL;
	}
	memcpy(x->code, code, n);
	x->code[n] = '\0';
	x->code_bytes = n;
	x->env = json_incref(env);
	x->ops = ops;
	x->owner = owner;
	x->exchange = exchange;
	(void)uv_timer_init(loop, &x->keepalive); /* always 0 */
	x->keepalive.data = x;
	exchange_set_ops(exchange, &exchange_ops, x);
	exchange_stream(exchange, 200, "application/x-ndjson");
	await_silence(x);
	return x;
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void execution_end(struct execution *x)
{
	struct buf line = line_buffer();

	if (x->reply) /* an error that the kernel did not print */
		add_kernel_error(x, x->reply);
	finish_line(x, &line, lines_add_type(&line, "end_of_execution"));
	if (x->exchange)
		exchange_end(x->exchange);
	json_decref(x->reply);
	json_decref(x->env);
	free(x->code);
	uv_close((uv_handle_t *)&x->keepalive, on_closed);
}
