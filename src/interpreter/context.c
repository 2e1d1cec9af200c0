#include "interpreter/context.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "interpreter/api_reply.h"
#include "interpreter/prelude.h"

enum { INTERRUPT_MS = 1000 };

static void run_next(struct context *c);
static void start_kernel(struct context *c);

/* --- executions --- */

static void stop_timer(struct context *c)
{
	(void)uv_timer_stop(&c->timer); /* always 0 */
	c->interrupted_s = 0;
}

/* Ends the current execution: ends its lines and takes its variables back. */
static void finish_current(struct context *c)
{
	struct execution *x = TAKE_PTR(c->current);
	struct buf code = BUF_INIT(PRELUDE_MAX);

	stop_timer(c);
	*c->barrier = '\0';
	c->state = CONTEXT_IDLE;
	kernel_watch(c->kernel, false);
	kernel_pause_output(c->kernel, false);
	if (x->env && prelude_take_back(c->spec, &c->all->env, x->env, &code) == 0)
		(void)kernel_execute(c->kernel, (const char *)buf_head(&code), buf_len(&code), true,
			NULL); /* a kernel that takes nothing fails at its next cell */
	buf_done(&code);
	execution_end(x);
	run_next(c);
}

static void fail_execution(struct execution *x, const char *name, const char *why)
{
	execution_fail(x, name, why);
	execution_end(x);
}

static void fail_current(struct context *c, const char *name, const char *why)
{
	stop_timer(c);
	*c->barrier = '\0';
	if (c->current)
		fail_execution(TAKE_PTR(c->current), name, why);
}

static void fail_waiting(struct context *c, const char *name, const char *why)
{
	while (c->waiting) {
		struct execution *x = c->waiting;

		c->waiting = x->next;
		fail_execution(x, name, why);
	}
}

/* --- the kernel's messages --- */

/* True if nothing more comes for this cell. A client that has gone waits for no reply. */
static bool is_over(const struct execution *x)
{
	return x->idle && (x->replied || !x->exchange);
}

static void renew_kernel(struct context *c, const char *why)
{
	log_warn("%s: context=%s", why, c->id);
	kernel_stop(TAKE_PTR(c->kernel));
	fail_current(c, "UnexpectedEndOfExecution", why);
	start_kernel(c);
}

static void on_grace_over(uv_timer_t *timer)
{
	struct context *c = timer->data;
	struct execution *x = c->current;

	if (x && execution_is_full(x)) {
		(void)uv_timer_start(timer, on_grace_over, CONTEXT_IDLE_GRACE_MS, 0); /* starts */
	} else if (x && !x->heard) {
		/* the kernel takes cells, and their output is lost */
		renew_kernel(c, "the kernel said nothing of the cell; it is started anew, "
				"without its state");
	} else if (x && is_over(x)) {
		finish_current(c); /* late output has arrived, as far as can be told */
	} else if (x) {
		execution_fail(x, "KernelError",
			x->replied ? "the kernel did not say that the cell is over"
				   : "the kernel could not run the cell");
		finish_current(c);
	}
}

/* One of the two messages that end a cell has come: idle or the reply. Waits for the other; the
 * cell also ends if nothing comes for a while. */
static void begin_grace(struct context *c)
{
	if (c->current->exchange) /* else it is being interrupted, which uses the timer */
		(void)uv_timer_start(&c->timer, on_grace_over,
			c->current->replied ? CONTEXT_IDLE_GRACE_MS : CONTEXT_REPLY_GRACE_MS, 0);
}

static bool is_idle(const struct message *m, const json_t *content)
{
	const char *state = json_string_value(json_object_get(content, "execution_state"));

	return strcmp(m->type, "status") == 0 && state && strcmp(state, "idle") == 0;
}

/* The cell has ended. A kernel with late output may still be sending the cell's output, so it gets
 * a silent request first. When that is done, everything has arrived. */
static void end_output(struct context *c)
{
	if (!c->spec->late_output || kernel_execute(c->kernel, "", 0, true, c->barrier) < 0)
		finish_current(c);
}

static void pass_barrier(struct context *c, const struct message *m)
{
	json_t *content = message_content(m);
	bool idle = is_idle(m, content);

	json_decref(content);
	if (idle)
		finish_current(c);
}

/* Handles a message for the current execution. */
static void take_message(struct context *c, enum channel channel, const struct message *m)
{
	struct execution *x = c->current;
	bool was_over = is_over(x);
	json_t *content, *count;

	content = m->content.n <= EXECUTION_RESULT_MAX ? message_content(m) : NULL;
	count = json_object_get(content, "execution_count");
	if (strcmp(m->type, "execute_input") == 0)
		c->count = json_is_integer(count) ? json_integer_value(count) : c->count + 1;
	x->heard |= channel == CHANNEL_IOPUB;
	x->idle |= channel == CHANNEL_IOPUB && is_idle(m, content);
	x->replied |= channel == CHANNEL_SHELL;
	execution_message(x, m, content, x->counted ? 0 : c->count);
	if (is_over(x) && !was_over)
		end_output(c);
	else if (x->idle || x->replied)
		begin_grace(c); /* or restarts the wait, as more is to come */
	json_decref(content);
}

static void on_message(void *opaque, enum channel channel, const struct message *m)
{
	struct context *c = opaque;

	if (channel == CHANNEL_STDIN) {
		kernel_no_input(c->kernel);
		return;
	}
	if (!c->current)
		return;
	if (*c->barrier && strcmp(m->parent_id, c->barrier) == 0)
		pass_barrier(c, m);
	else if (strcmp(m->parent_id, c->current->id) == 0)
		take_message(c, channel, m);
}

/* --- the client --- */

static void on_full(struct execution *x)
{
	struct context *c = x->owner;

	if (x == c->current && c->kernel)
		kernel_pause_output(c->kernel, true);
}

static void on_drained(struct execution *x)
{
	struct context *c = x->owner;

	if (x == c->current && c->kernel)
		kernel_pause_output(c->kernel, false);
}

static void on_interrupt_time(uv_timer_t *timer)
{
	struct context *c = timer->data;

	c->interrupted_s++;
	if (c->interrupted_s >= CONTEXT_PATIENCE_S && c->waiting) {
		renew_kernel(c, "a cell that ignores interrupts loses its kernel");
	} else if (c->interrupted_s % 4 == 1) {
		kernel_interrupt(c->kernel);
	}
}

static void unqueue(struct context *c, struct execution *x)
{
	struct execution **p = &c->waiting;

	while (*p != x)
		p = &(*p)->next;
	*p = x->next;
	execution_end(x);
}

static void on_gone(struct execution *x)
{
	struct context *c = x->owner;

	if (x != c->current) {
		unqueue(c, x);
		return;
	}
	if (x->idle && !*c->barrier) {
		finish_current(c);
		return;
	}
	kernel_pause_output(c->kernel, false);
	kernel_interrupt(c->kernel);
	/* an initialised timer with a callback: starts */
	(void)uv_timer_start(&c->timer, on_interrupt_time, INTERRUPT_MS, INTERRUPT_MS);
}

/* --- running --- */

static int send_prelude(struct context *c, const struct execution *x)
{
	struct buf code = BUF_INIT(PRELUDE_MAX);
	struct sandbox_env *env = &c->all->env;
	int r = 0;

	sandbox_env_refresh(env);
	if (c->generation != env->generation)
		r = prelude_renew(c->spec, env, &code);
	if (r == 0 && x->env)
		r = prelude_set(c->spec, x->env, &code);
	if (r == 0 && buf_len(&code))
		r = kernel_execute(
			c->kernel, (const char *)buf_head(&code), buf_len(&code), true, NULL);
	if (r == 0)
		c->generation = env->generation;
	buf_done(&code);
	return r;
}

static void run_next(struct context *c)
{
	struct execution *x = c->waiting;
	int r;

	if (c->state != CONTEXT_IDLE || !x || kernel_state(c->kernel) != KERNEL_READY)
		return; /* on_ended calls this again */
	c->waiting = x->next;
	x->next = NULL;
	c->current = x;
	c->state = CONTEXT_RUNNING;
	kernel_watch(c->kernel, true);
	r = send_prelude(c, x);
	if (r == 0)
		r = kernel_execute(c->kernel, x->code, x->code_bytes, false, x->id);
	if (r == 0)
		return;
	execution_fail(x, "UnexpectedEndOfExecution", "the cell could not be sent to the kernel");
	finish_current(c);
}

void context_execute(
	struct context *c, struct exchange *exchange, const char *code, size_t n, json_t *env)
{
	static const struct execution_ops ops = {on_full, on_drained, on_gone};
	struct execution **last = &c->waiting, *x;
	unsigned waiting = 0;

	for (; *last; last = &(*last)->next)
		waiting++;
	if (waiting == CONTEXT_QUEUE_MAX) {
		api_reply_text(exchange, 429, "too many executions wait in this context");
		return;
	}
	x = execution_new(c->all->loop, exchange, code, n, env, &ops, c);
	if (!x) {
		api_reply_text(exchange, 503, "out of memory");
		return;
	}
	*last = x;
	if (c->state == CONTEXT_COLD)
		start_kernel(c);
	else
		run_next(c);
}

/* --- the kernel's life --- */

static void answer_starter(struct context *c, const struct error *e)
{
	struct exchange *exchange = TAKE_PTR(c->starter);

	if (!exchange)
		return;
	if (e)
		api_reply_error(exchange, e);
	else
		api_reply_json(exchange, c->starter_wants_json ? context_json(c) : json_null());
}

static void give_up_start(struct context *c, const struct error *e)
{
	c->state = CONTEXT_COLD;
	c->failed_starts = 0;
	log_error("context=%s: %s", c->id, e->message);
	answer_starter(c, e);
	fail_waiting(c, "UnexpectedEndOfExecution", e->message);
}

static void on_ready(void *opaque)
{
	struct context *c = opaque;

	c->failed_starts = 0;
	c->state = CONTEXT_IDLE;
	answer_starter(c, NULL);
	run_next(c);
}

/* Takes back the cell that the kernel had not begun when it ended, as after an exit() in the cell
 * before. It runs first in the next kernel, but is taken back only once. */
static bool take_back(struct context *c)
{
	struct execution *x = c->current;

	if (!x || !x->exchange || x->heard || x->replied || x->taken_back)
		return false;
	stop_timer(c);
	x->taken_back = true;
	x->next = c->waiting;
	c->waiting = x;
	c->current = NULL;
	return true;
}

static void on_ended(void *opaque, const char *why)
{
	struct context *c = opaque;
	bool was_starting = c->state == CONTEXT_STARTING;
	char text[KERNEL_WHY_MAX + 128];
	struct error e = {0};

	log_warn("context=%s: the kernel of %s ended: %s", c->id, c->language, why);
	kernel_stop(TAKE_PTR(c->kernel));
	(void)snprintf(text, sizeof(text),
		"the kernel ended before the cell did: %s; it is started anew, without its state",
		why);
	if (!take_back(c))
		fail_current(c, "UnexpectedEndOfExecution", text);
	c->state = CONTEXT_COLD;
	if (was_starting && ++c->failed_starts == CONTEXT_STARTS_MAX) {
		(void)error_set(&e, ERROR_SANDBOX, 0, "the kernel of %s does not start: %s",
			c->language, why); /* only to fill e */
		give_up_start(c, &e);
	} else if (!c->spec->lazy || c->waiting || c->starter) {
		start_kernel(c);
	}
}

static void start_kernel(struct context *c)
{
	static const struct kernel_ops ops = {on_ready, on_message, on_ended};
	struct error e = {0};

	sandbox_env_refresh(&c->all->env);
	c->generation = c->all->env.generation;
	c->count = 0;
	c->state = CONTEXT_STARTING;
	c->kernel = kernel_start(c->all->host, c->spec, c->cwd, &c->all->env, &ops, c, &e);
	if (!c->kernel)
		give_up_start(c, &e);
}

/* --- contexts --- */

static const struct spec *find_spec(struct contexts *all, const char *language, struct error *e)
{
	const struct spec *spec = specs_find(&all->specs, language);
	struct buf names = BUF_INIT(1024);

	if (spec)
		return spec;
	(void)specs_list(&all->specs, &names); /* if cut short, so is the message */
	(void)error_set(e, ERROR_NOT_FOUND, ENOENT,
		"no kernel for language '%s' here; there are: %.*s", language, (int)buf_len(&names),
		buf_len(&names) ? (const char *)buf_head(&names) : "none");
	buf_done(&names);
	return NULL;
}

static int check_cwd(const char *cwd, struct error *e)
{
	struct stat st;

	if (*cwd != '/')
		return error_set(e, ERROR_USAGE, EINVAL, "cwd '%s' is not an absolute path", cwd);
	if (stat(cwd, &st) < 0)
		return error_set_errno(e, ERROR_USAGE, errno, "cwd '%s' cannot be used", cwd);
	if (!S_ISDIR(st.st_mode))
		return error_set(e, ERROR_USAGE, ENOTDIR, "cwd '%s' is not a directory", cwd);
	return access(cwd, X_OK) < 0
		       ? error_set_errno(e, ERROR_USAGE, errno, "cwd '%s' cannot be entered", cwd)
		       : 0;
}

static struct context *add(struct contexts *all, const struct spec *spec, const char *language,
	const char *cwd, bool is_default)
{
	struct context *c = calloc(1, sizeof(*c)), **last = &all->first;

	if (!c)
		return NULL;
	c->cwd = strdup(cwd);
	if (!c->cwd || str_random_uuid(c->id) < 0) {
		free(c->cwd);
		free(c);
		return NULL;
	}
	c->all = all;
	c->spec = spec;
	c->is_default = is_default;
	(void)snprintf(c->language, sizeof(c->language), "%s", language); /* is canonical: fits */
	(void)uv_timer_init(all->loop, &c->timer);			  /* always 0 */
	c->timer.data = c;
	while (*last)
		last = &(*last)->next;
	*last = c;
	all->count++;
	return c;
}

struct context *context_new(struct contexts *all, const char *language, const char *cwd,
	bool is_default, struct error *e)
{
	const struct spec *spec = find_spec(all, language, e);
	struct context *c;

	if (!spec || check_cwd(cwd, e) < 0)
		return NULL;
	if (all->count == CONTEXTS_MAX) {
		(void)error_set(e, ERROR_LIMIT, EAGAIN, "there are %d contexts already: remove one",
			CONTEXTS_MAX);
		return NULL;
	}
	c = add(all, spec, language, cwd, is_default);
	if (!c)
		(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	else if (!spec->lazy)
		start_kernel(c);
	return c;
}

struct context *context_find(struct contexts *all, const char *id)
{
	for (struct context *c = all->first; c; c = c->next)
		if (strcmp(c->id, id) == 0)
			return c;
	return NULL;
}

struct context *context_default(struct contexts *all, const char *language, struct error *e)
{
	for (struct context *c = all->first; c; c = c->next)
		if (c->is_default && strcmp(c->language, language) == 0)
			return c;
	return context_new(all, language, all->cwd, true, e);
}

static void end_work(struct context *c, const char *name, const char *why)
{
	const struct error e = {
		.code = ERROR_SANDBOX, .message = "the context was restarted or removed"};

	kernel_stop(TAKE_PTR(c->kernel));
	c->state = CONTEXT_COLD;
	answer_starter(c, &e);
	fail_current(c, name, why);
	fail_waiting(c, name, why);
}

void context_restart(struct context *c)
{
	end_work(c, "ContextRestarting", "the context was restarted");
	c->failed_starts = 0;
	if (!c->spec->lazy)
		start_kernel(c);
}

static void on_closed(uv_handle_t *h)
{
	free(h->data);
}

void context_remove(struct context *c)
{
	struct context **p = &c->all->first;

	end_work(c, "UnexpectedEndOfExecution", "the context was removed");
	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->all->count--;
	free(c->cwd);
	uv_close((uv_handle_t *)&c->timer, on_closed);
}

static void on_starter_gone(void *opaque)
{
	struct context *c = opaque;

	c->starter = NULL;
	if (c->starter_wants_json)
		context_remove(c); /* nobody knows its id */
}

void context_answer_when_ready(struct context *c, struct exchange *exchange, bool is_creation)
{
	static const struct exchange_ops ops = {NULL, on_starter_gone};
	const struct error failed = {.code = ERROR_HOST,
		.message = "the kernel cannot be started: is the context's directory still there?"};

	c->starter = exchange;
	c->starter_wants_json = is_creation;
	if (c->state == CONTEXT_STARTING)
		exchange_set_ops(exchange, &ops, c);
	else
		answer_starter(c, c->state == CONTEXT_COLD && !c->spec->lazy ? &failed : NULL);
}

json_t *context_json(const struct context *c)
{
	return json_pack("{s:s, s:s, s:s}", "id", c->id, "language", c->language, "cwd", c->cwd);
}
