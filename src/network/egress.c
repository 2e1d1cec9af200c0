#include "network/egress.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "fleet/instance.h"
#include "fleet/meter.h"
#include "network/activity.h"
#include "network/approvals.h"
#include "network/between.h"
#include "network/budgets.h"
#include "network/decisions.h"
#include "network/egress_link.h"
#include "network/flow_leases.h"
#include "network/identity.h"
#include "network/network.h"
#include "network/reach_tell.h"
#include "policy/network_floor.h"
#include "policy/network_policy.h"
#include "policy/seal.h"
#include "sandbox/egress_spawn.h"
#include "sandbox/vmm_request.h"

/* More is no count of a second. */
#define COUNT_MAX (INT64_C(1) << 50)

enum egress_state {
	/* There is no worker. The channel is polled. To STARTING when a stream waits in it. */
	EGRESS_QUIET,

	/* A thread gets a new channel or starts a worker; `task` is set. To SERVING when the worker
	 * runs, to QUIET if only a channel was needed, to RESTING after a failure. */
	EGRESS_STARTING,

	/* A worker runs, with a link. `pid` is not 0 if it is our child. To RESTING when it is
	 * gone: when our child has ended, or when the link to another daemon's child is lost. */
	EGRESS_SERVING,

	/* Waits for the timer. The delay is 0 after an orderly end. To QUIET, or to STARTING if
	 * there is no channel. */
	EGRESS_RESTING,

	/* The final state: the microVM has closed the channel, or accepts none. */
	EGRESS_OVER,
};

/* What a thread does, with descriptors of its own. */
struct task {
	uv_work_t work;
	struct egress *egress;
	int dirfd, far_fd; /* far_fd < 0: gets a channel and nothing else */
	const char *roots; /* of the fleet's options */
	pid_t pid;
	int result;
	struct error why;
};

/* Waits for a policy to be in force. */
struct waiter {
	struct waiter *next;
	uint64_t generation;
	void (*done)(void *arg);
	void *arg;
};

struct egress {
	struct instance *instance; /* NULL: closed */
	enum egress_state state;
	bool keep;	  /* closed: a worker that starts is kept */
	int far_fd;	  /* -1: an earlier daemon's worker has it */
	uv_poll_t poll;	  /* of far_fd, if that is there */
	bool polling;	  /* poll is open */
	uv_timer_t timer; /* of RESTING; in SERVING, of tokens */
	uv_poll_t death;
	bool watched; /* death is open */
	int pid_fd;
	pid_t pid; /* of our child; 0: none */
	struct task *task;
	struct egress_link *link;
	struct between *between;  /* only with a link; NULL: none */
	struct asker *asker;	  /* likewise */
	struct flow_lease *flows; /* likewise, and never NULL then */
	struct budgets_lent lent; /* to this worker */
	bool idle;		  /* the worker said so */
	uint64_t began_ms;	  /* the worker; by the loop's clock */
	unsigned failures;	  /* in a row */
	unsigned handles;	  /* open, besides the link's */
	struct waiter *waiters;	  /* only with a link */
	char *denials;		  /* owned: what the last worker denied, as JSON; or NULL */
	struct activity_log *log; /* NULL: none */
	char id[SANDBOX_ID_BYTES], key_id[STORE_ID_MAX + 1];
	uv_loop_t *loop;
	struct fleet *fleet;
};

static void rest(struct egress *x);
static void finish_close(struct egress *x);

/* --- freeing --- */

static void maybe_free(struct egress *x)
{
	if (x->instance || x->task || x->handles)
		return;
	cleanup_close_p(&x->far_fd);
	free(x->denials);
	budgets_lent_done(&x->lent);
	free(x);
}

static void on_closed(uv_handle_t *h)
{
	struct egress *x = h->data;

	x->handles--;
	maybe_free(x);
}

static void on_death_closed(uv_handle_t *h)
{
	struct egress *x = h->data;

	cleanup_close_p(&x->pid_fd);
	x->pid_fd = -1;
	x->watched = false;
	x->handles--;
	if (!x->instance)
		maybe_free(x);
	else if (!x->link) /* else what it said last is still to be read */
		rest(x);
}

/* --- the worker's end --- */

static uint64_t delay_ms(const struct egress *x)
{
	uint64_t ms = EGRESS_DELAY_MS;

	if (x->failures == 0)
		return 0;
	for (unsigned n = 1; n < x->failures && ms < EGRESS_DELAY_MAX_MS; n++)
		ms *= 2;
	return ms < EGRESS_DELAY_MAX_MS ? ms : EGRESS_DELAY_MAX_MS;
}

static void complain(struct egress *x, const char *why)
{
	static struct log_limit limit = LOG_LIMIT_INIT(20);

	if (log_limited(&limit)) /* a tenant may cause it */
		log_warn("the worker of a sandbox's network: %s sandbox=%s", why, x->id);
}

static void fail(struct egress *x, const char *why)
{
	x->idle = false;
	if (uv_now(x->loop) - x->began_ms >= EGRESS_DELAY_MAX_MS)
		x->failures = 0;
	x->failures++;
	complain(x, why);
}

/* Calls those that wait for this generation or an older one. */
static void release(struct egress *x, uint64_t generation)
{
	struct waiter **p = &x->waiters, *w;

	while ((w = *p)) {
		if (w->generation > generation) {
			p = &w->next;
			continue;
		}
		*p = w->next;
		w->done(w->arg);
		free(w);
	}
}

static void close_link(struct egress *x)
{
	release(x, UINT64_MAX);
	between_close(x->between);
	x->between = NULL;
	asker_close(x->asker);
	x->asker = NULL;
	flow_lease_close(x->flows);
	x->flows = NULL;
	egress_link_close(x->link);
	x->link = NULL;
}

static void on_death(uv_poll_t *h, int status, int events)
{
	struct egress *x = h->data;
	int how;

	if (waitpid(x->pid, &how, WNOHANG) == 0)
		return; /* not yet */
	x->pid = 0;
	uv_close((uv_handle_t *)h, on_death_closed);
}

/* Kills our child. It is not reaped yet, so the pid still belongs to it. */
static void end_worker(const struct egress *x)
{
	if (x->pid > 0)
		(void)kill(x->pid, SIGKILL);
}

static void on_lost(const char *why, void *arg)
{
	struct egress *x = arg;

	if (!x->instance) {
		finish_close(x);
		return;
	}
	if (!x->idle)
		fail(x, why);
	close_link(x);
	end_worker(x);
	if (!x->watched)
		rest(x);
}

/* --- lines --- */

/* Keeps the names for the next worker, and for sandboxes that are forked from this one. */
static void keep_names(struct egress *x, const json_t *names)
{
	_cleanup_free_ char *text = json_dumps(names, JSON_COMPACT);
	struct error e = {0};

	if (!text)
		complain(x, "out of memory");
	else if (network_keep_names(x->instance, text, &e) < 0)
		complain(x, e.message);
}

static uint64_t number(const json_t *object, const char *key)
{
	json_int_t n = json_integer_value(json_object_get(object, key));

	return n > 0 && n < COUNT_MAX ? (uint64_t)n : 0;
}

static void count_flows(const char *verdict, uint64_t n)
{
	if (n)
		metrics_add(METRIC_EGRESS_FLOWS, verdict, NULL, (double)n);
}

/* A worker may send counts after its sandbox is gone. Then they belong to nobody's usage. */
static void count(struct egress *x, const json_t *counts)
{
	uint64_t up = number(counts, "up"), down = number(counts, "down"),
		 allowed = number(counts, "allowed"), failed = number(counts, "failed"),
		 denied = number(counts, "denied"), reset = number(counts, "reset");

	if (!json_is_object(counts))
		return;
	if (x->instance)
		meter_count_egress(x->instance, down, up, allowed + failed + reset, denied);
	metrics_add(METRIC_EGRESS_BYTES, "in", NULL, (double)down);
	metrics_add(METRIC_EGRESS_BYTES, "out", NULL, (double)up);
	count_flows("allowed", allowed);
	count_flows("failed", failed);
	count_flows("denied", denied);
	count_flows("reset", reset);
}

/* Keeps the denials for the next worker of this sandbox, in memory only. */
static void keep_denials(struct egress *x, const json_t *denials)
{
	char *text = json_is_array(denials) ? json_dumps(denials, JSON_COMPACT) : NULL;

	if (text && strlen(text) <= EGRESS_DENIALS_MAX) {
		free(x->denials);
		x->denials = TAKE_PTR(text);
	}
	free(text);
}

static void count_model(const json_t *model)
{
	metrics_add(METRIC_MODEL_TOKENS, "in", NULL, (double)number(model, "tokensIn"));
	metrics_add(METRIC_MODEL_TOKENS, "out", NULL, (double)number(model, "tokensOut"));
}

static void note_activity(struct egress *x, const json_t *object)
{
	const json_t *flow = json_object_get(object, "flow");
	const json_t *request = json_object_get(object, "request");
	const json_t *model = json_object_get(object, "model");
	const json_t *tool = json_object_get(object, "tool");

	if (flow)
		activity_note(x->log, STORE_ACTIVITY_FLOW, flow);
	if (request)
		activity_note(x->log, STORE_ACTIVITY_REQUEST, request);
	if (model) {
		count_model(model);
		activity_note(x->log, STORE_ACTIVITY_MODEL, model);
	}
	if (tool)
		activity_note(x->log, STORE_ACTIVITY_TOOL, tool);
	activity_lost(x->log, number(object, "lost"));
}

/* Tells the worker how many flows it may have. Returns 0 or -errno. */
static int say_lent(struct egress *x)
{
	_cleanup_free_ char *line = flow_lease_line(x->flows);

	return line ? egress_link_send(x->link, line, -1) : -ENOMEM;
}

static void lend_flows(struct egress *x, const json_t *said)
{
	flow_lease_take(x->flows, said);
	if (say_lent(x) < 0)
		complain(x, "it does not read how many flows it may have");
}

static void on_line(json_t *object, void *arg)
{
	struct egress *x = arg;
	const json_t *applied = json_object_get(object, "applied");
	const json_t *names = json_object_get(object, "names");
	const json_t *between = json_object_get(object, "between");
	const json_t *ask = json_object_get(object, "ask");

	note_activity(x, object);
	count(x, json_object_get(object, "counts"));
	if (json_object_get(object, "spent"))
		budgets_settle(
			x->fleet, x->key_id, x->id, json_object_get(object, "spent"), &x->lent);
	if (between && x->between)
		between_take(x->between, between);
	if (!x->instance)
		return;
	if (ask && x->asker)
		asker_take(x->asker, ask);
	if (json_object_get(object, "flows"))
		lend_flows(x, json_object_get(object, "flows"));
	keep_denials(x, json_object_get(object, "denials"));
	if (json_is_object(names))
		keep_names(x, names);
	if (json_is_true(json_object_get(object, "idle")))
		x->idle = true;
	if (json_is_integer(applied)) {
		release(x, (uint64_t)json_integer_value(applied));
		log_debug("a sandbox's network has its policy generation=%lld sandbox=%s",
			json_integer_value(applied), x->id);
	}
}

static const struct egress_link_ops link_ops = {on_line, on_lost};

/* Adds the denials to the line. Returns NULL if that is too long or memory is out; the worker can
 * do without them. */
static char *with_denials(const char *line, const char *denials)
{
	size_t n = strlen(line);

	if (n + strlen(denials) + 32 > NETWORK_POLICY_MAX)
		return NULL;
	return str_printf("%.*s,\"denials\":%s}", (int)(n - 1), line, denials);
}

static void on_tokens_old(uv_timer_t *t)
{
	struct egress *x = t->data;

	if (x->link)
		egress_policy_changed(x->instance);
}

/* The worker has new tokens, if any. */
static void renew_tokens_later(struct egress *x)
{
	uint64_t ms = identity_renew_ms(x->instance);

	if (ms)
		(void)uv_timer_start(&x->timer, on_tokens_old, ms, 0); /* cannot fail */
}

static int tell_reach(const struct egress *x, const struct egress_reach *reach)
{
	return reach_tell(x->instance->sandbox.dirfd, reach);
}

static int tell_policy(struct egress *x, struct error *e)
{
	struct egress_reach reach;
	_cleanup_(secret_freep) char *text = network_policy_text(x->instance, &reach, e);
	_cleanup_(secret_freep) char *with =
		text && x->denials ? with_denials(text, x->denials) : NULL;
	int r = text ? tell_reach(x, &reach) : -e->err;

	r = r ? r : egress_link_say(x->link, with ? with : text, x->instance->network_generation);

	if (r == 0)
		renew_tokens_later(x);
	return r < 0 ? error_set_errno(e, ERROR_NO_SPACE, -r, "the policy") : 0;
}

bool egress_when_applied(struct instance *i, void (*done)(void *arg), void *arg)
{
	struct waiter *w = i->egress && i->egress->link ? calloc(1, sizeof(*w)) : NULL;

	if (!w)
		return false;
	*w = (struct waiter){i->egress->waiters, i->network_generation, done, arg};
	i->egress->waiters = w;
	return true;
}

bool egress_is_serving(const struct instance *i)
{
	return i->egress && i->egress->state == EGRESS_SERVING;
}

void egress_policy_changed(struct instance *i)
{
	struct egress *x = i->egress;
	struct error e = {0};

	decisions_check(i);
	between_judge(i);
	if (x && x->link && tell_policy(x, &e) < 0) {
		fail(x, e.message);
		close_link(x);
		end_worker(x); /* with the older policy it would allow what is not allowed now */
		if (!x->watched)
			rest(x);
	}
}

/* --- connections to other sandboxes --- */

static void say_between(void *arg, const char *line, int fd)
{
	struct egress *x = arg;

	if (egress_link_send(x->link, line, fd) < 0)
		complain(x, "it does not read messages about its connections to other sandboxes");
}

static void note_between(struct instance *target, const json_t *flow)
{
	if (target->egress)
		activity_note(target->egress->log, STORE_ACTIVITY_FLOW, flow);
}

/* --- what people are asked --- */

static int say_decision(void *arg, const char *line)
{
	struct egress *x = arg;
	int r = egress_link_send(x->link, line, -1);

	if (r < 0)
		complain(x, "it does not read decisions of people");
	return r;
}

static void on_waits(void *arg, bool any, bool requests)
{
	struct egress *x = arg;

	if (x->instance && x->fleet->waits_changed)
		x->fleet->waits_changed(x->instance, any, requests);
}

static int open_link(struct egress *x, struct error *e)
{
	static const struct asker_ops asker_ops = {say_decision, on_waits};
	static const struct between_ops between_ops = {say_between, note_between};
	int r = egress_link_open(x->loop, x->instance->sandbox.dirfd, &link_ops, x, &x->link, e);

	if (r < 0)
		return r;
	x->between = between_open(x->instance, &between_ops, x); /* or none is made */
	budgets_lent_done(&x->lent);
	x->asker = asker_open(x->instance, &asker_ops, x, &x->lent); /* likewise */
	x->flows = flow_lease_open(x->fleet, x->key_id, !x->pid);
	r = x->flows ? say_lent(x) : -ENOMEM;
	if (r < 0)
		(void)error_set_errno(e, ERROR_NO_SPACE, -r, "the number of its flows");
	r = r ? r : tell_policy(x, e);
	if (r < 0)
		close_link(x);
	return r;
}

/* --- starting --- */

static int get_channel(struct task *t)
{
	_cleanup_close_ int vmm_fd = -1;
	int r = egress_channel(&vmm_fd, &t->far_fd, &t->why);

	return r == 0 ? vmm_set_egress(t->dirfd, vmm_fd, &t->why) : r;
}

static void task_work(uv_work_t *w)
{
	struct task *t = w->data;

	t->result = t->far_fd < 0 ? get_channel(t)
				  : egress_spawn(t->dirfd, t->far_fd, t->roots, &t->pid, &t->why);
}

static void task_free(struct task *t)
{
	cleanup_close_p(&t->dirfd);
	cleanup_close_p(&t->far_fd);
	free(t);
}

/* Nobody is there any more to watch it. */
static void drop_worker(const struct egress *x, pid_t pid)
{
	if (x->keep)
		return;
	(void)kill(pid, SIGKILL);
	while (waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		;
}

static void watch_worker(struct egress *x, pid_t pid)
{
	struct error e = {0};

	x->death.data = x;
	if (instance_watch_process(x->fleet, pid, &x->death, &x->pid_fd, on_death, &e) < 0) {
		fail(x, e.message);
		drop_worker(x, pid);
		rest(x);
		return;
	}
	x->watched = true;
	x->handles++;
	x->pid = pid;
	x->idle = false;
	x->state = EGRESS_SERVING;
	x->began_ms = uv_now(x->loop);
	if (open_link(x, &e) < 0) {
		fail(x, e.message);
		end_worker(x);
	}
}

static void watch_channel(struct egress *x);

static void task_done(uv_work_t *w, int status)
{
	struct task *t = w->data;
	struct egress *x = t->egress;
	bool channel = t->pid == 0 && t->result == 0;

	x->task = NULL;
	if (!x->instance) {
		if (t->pid > 0)
			drop_worker(x, t->pid);
		maybe_free(x);
	} else if (t->result < 0 && x->far_fd < 0 &&
		   (t->why.code == ERROR_USAGE || t->why.code == ERROR_NOT_FOUND)) {
		x->state = EGRESS_OVER; /* of an older Mayfly, or it has ended */
		complain(x, t->why.message);
	} else if (t->result < 0) {
		fail(x, t->why.message);
		rest(x);
	} else if (channel) {
		x->far_fd = TAKE_FD(t->far_fd);
		watch_channel(x);
	} else {
		watch_worker(x, t->pid);
	}
	task_free(t);
}

static int own_fd(int fd)
{
	return fd < 0 ? -1 : fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static void start(struct egress *x)
{
	struct task *t = calloc(1, sizeof(*t));

	x->state = EGRESS_STARTING;
	if (t) {
		t->dirfd = own_fd(x->instance->sandbox.dirfd);
		t->far_fd = own_fd(x->far_fd);
	}
	if (!t || t->dirfd < 0 || (x->far_fd >= 0 && t->far_fd < 0)) {
		if (t)
			task_free(t);
		fail(x, "out of memory or descriptors");
		rest(x);
		return;
	}
	t->egress = x;
	t->roots = x->fleet->options.network ? x->fleet->options.network->roots : NULL;
	t->work.data = t;
	x->task = t;
	/* fails only without a callback */
	(void)uv_queue_work(x->loop, &t->work, task_work, task_done);
}

/* --- the channel --- */

/* Whether the microVM is gone. Only peeks, because the worker reads what comes. */
static bool channel_is_over(int fd)
{
	char byte;

	return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

static void on_channel(uv_poll_t *h, int status, int events)
{
	struct egress *x = h->data;

	(void)uv_poll_stop(h); /* always 0 */
	if (channel_is_over(x->far_fd))
		x->state = EGRESS_OVER;
	else
		start(x);
}

static void watch_channel(struct egress *x)
{
	x->state = EGRESS_QUIET;
	if (!x->polling && uv_poll_init(x->loop, &x->poll, x->far_fd) < 0) {
		x->state = EGRESS_OVER;
		complain(x, "its channel cannot be watched");
		return;
	}
	x->handles += !x->polling;
	x->polling = true;
	x->poll.data = x;
	(void)uv_poll_start(&x->poll, UV_READABLE, on_channel); /* fails only for closed handles */
}

static void on_rested(uv_timer_t *t)
{
	struct egress *x = t->data;

	if (x->far_fd >= 0)
		watch_channel(x);
	else
		start(x);
}

static void rest(struct egress *x)
{
	if (x->idle)
		x->failures = 0;
	x->state = EGRESS_RESTING;
	(void)uv_timer_start(&x->timer, on_rested, delay_ms(x), 0); /* cannot fail */
}

/* --- the sandbox --- */

static void finish_close(struct egress *x)
{
	close_link(x);
	activity_log_close(x->log);
	x->log = NULL;
	uv_close((uv_handle_t *)&x->timer, on_closed);
	if (x->polling)
		uv_close((uv_handle_t *)&x->poll, on_closed);
	if (x->keep && x->pid > 0)
		uv_close((uv_handle_t *)&x->death, on_death_closed);
	else
		end_worker(x); /* its death frees x */
}

static void on_lingered(uv_timer_t *t)
{
	finish_close(t->data);
}

/* Stops serving the sandbox. end: the worker ends; otherwise it goes on for the next daemon. A
 * worker whose guest is gone reports its flows and ends by itself; its reports are read first. */
static void egress_close(struct egress *x, bool end)
{
	if (end)
		between_target_gone(x->instance);
	x->instance = NULL;
	asker_close(x->asker); /* it knows the instance */
	x->asker = NULL;
	x->keep = !end;
	if (end && x->link)
		(void)uv_timer_start(&x->timer, on_lingered, EGRESS_LINGER_MS, 0); /* cannot fail */
	else
		finish_close(x);
}

/* Without a far end, what the guest opens is refused. */
static void close_far_end(struct instance *i)
{
	if (i->sandbox.egress_fd > 0)
		(void)close(i->sandbox.egress_fd); /* nothing is in it that counts */
	i->sandbox.egress_fd = -1;
}

void egress_begin(struct instance *i)
{
	struct error e = {0};
	struct egress *x;

	if (network_is_off(i->fleet) && i->sandbox.egress_fd > 0) {
		close_far_end(i);
		return;
	}
	x = calloc(1, sizeof(*x));
	if (!x) {
		log_error("a sandbox has no network: out of memory sandbox=%s", i->sandbox.id);
		return;
	}
	*x = (struct egress){.instance = i,
		.fleet = i->fleet,
		.loop = i->fleet->loop,
		.pid_fd = -1,
		.far_fd = i->sandbox.egress_fd > 0 ? i->sandbox.egress_fd : -1,
		.handles = 1};
	i->sandbox.egress_fd = -1;
	memcpy(x->id, i->sandbox.id, sizeof(x->id));
	(void)snprintf(x->key_id, sizeof(x->key_id), "%s", i->key_id); /* fits */
	(void)uv_timer_init(x->loop, &x->timer);		       /* cannot fail */
	x->timer.data = x;
	x->log = activity_log_open(x->fleet, x->id, i->key_id); /* or nothing is noted */
	i->egress = x;
	i->egress_close = egress_close;
	if (x->far_fd >= 0)
		watch_channel(x);
	else if (open_link(x, &e) == 0)
		x->state = EGRESS_SERVING;
	else if (network_is_off(i->fleet))
		x->state = EGRESS_OVER;
	else
		start(x);
}
