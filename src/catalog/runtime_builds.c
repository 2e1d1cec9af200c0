#include "catalog/runtime_builds.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "catalog/runtime_starter.h"
#include "fleet/fleet.h"
#include "fleet/places.h"
#include "fleet/quota.h"
#include "proto/json_tree.h"
#include "sandbox/backend.h"
#include "sandbox/cgroup_build.h"

#define MIB	(UINT64_C(1) << 20)
#define SELF	"mayfly: " /* heads what the command line says of itself */
#define NOTHING "it ended without a reason"
#define LOST	"the process that starts builds has ended: restart the daemon"

enum {
	RETRY_MS = 2000,
	GROUP_MS = 20,
	GROUP_TRIES = 250,
	LINE_MAX_BYTES = 16 * 1024,
	LAST_READS = 16
};

static const struct sandbox_sizes sizes = {
	RUNTIME_BUILD_CPUS, RUNTIME_BUILD_MEMORY_MB *MIB, RUNTIME_BUILD_DISK_MB *MIB};

/* Removed when its template is there, or some time after it has failed. */
struct runtime_build {
	struct runtime_build *next;
	struct runtime_status status; /* WAITING, BUILDING or FAILED */
	char template[RUNTIME_NAME_MAX + 1];
	unsigned number;
	bool tried;	   /* to find a place */
	uint64_t since_ns; /* monotonic: of the state */
};

struct runtime_builds {
	struct fleet *fleet;
	struct runtime_starter *starter;
	bool lost; /* the starter has ended */
	bool stopping;
	uv_poll_t messages, output;
	uv_timer_t retry, limit;
	struct runtime_build *builds;  /* in the order of their arrival */
	struct runtime_build *running; /* one of these, or NULL; it has a place */
	bool ended;		       /* it has, but not yet what it started */
	char group[STR_UUID_BYTES];    /* of its control group */
	unsigned tries;		       /* to remove that */
	char line[LINE_MAX_BYTES];
	size_t line_bytes;
	bool line_is_cut;
	char failed[RUNTIME_REASON_MAX + 1], last[RUNTIME_REASON_MAX + 1]; /* what it said */
};

static void turn(struct runtime_builds *b);

/* Cut at a character's end. */
static void copy_text(char *out, size_t max, const char *text, size_t n)
{
	n = str_cut(text, n, max);
	memcpy(out, text, n);
	out[n] = '\0';
}

static void set_state(struct runtime_build *j, enum runtime_state state)
{
	j->status.state = state;
	j->since_ns = clock_monotonic_ns();
}

static void forget(struct runtime_builds *b, struct runtime_build *j)
{
	struct runtime_build **p = &b->builds;

	while (*p != j)
		p = &(*p)->next;
	*p = j->next;
	free(j);
}

static void set_failed(struct runtime_build *j, const char *reason)
{
	copy_text(j->status.reason, RUNTIME_REASON_MAX, reason, strlen(reason));
	log_warn("a runtime's template could not be built: %s template=%s", j->status.reason,
		j->template);
	set_state(j, RUNTIME_FAILED);
}

/* One that is damaged is there: its creation says what is wrong with it. */
static bool has_template(const struct fleet *f, const char *name)
{
	const struct sandbox_options o = {.template = name};
	struct sandbox_sizes its;
	struct error e = {0};
	uint64_t made_s;
	int r = f->options.backend->measure(&f->home, &o, &its, &made_s, &e);

	return r == 0 || e.code != ERROR_NOT_FOUND;
}

/* --- what a build says --- */

static void take_event(struct runtime_builds *b, const json_t *event)
{
	const char *stage = json_tree_word(event, "stage"),
		   *failed = json_tree_word(event, "failed");
	const json_t *percent = json_object_get(event, "percent");
	struct runtime_status *s = &b->running->status;

	if (failed)
		copy_text(b->failed, RUNTIME_REASON_MAX, failed, strlen(failed));
	if (!stage)
		return;
	copy_text(s->phase, RUNTIME_PHASE_MAX, stage, strlen(stage));
	s->percent = json_is_integer(percent) ? (int)json_integer_value(percent) : -1;
}

/* What is no event is for people. */
static void take_words(struct runtime_builds *b, const char *text, size_t n)
{
	size_t self = sizeof(SELF) - 1;

	if (n > self && memcmp(text, SELF, self) == 0) {
		text += self;
		n -= self;
	}
	if (n == 0)
		return;
	copy_text(b->last, RUNTIME_REASON_MAX, text, n);
	for (char *p = b->last; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
}

static void take_line(struct runtime_builds *b)
{
	const char *reason;
	json_t *event = json_tree_parse(b->line, b->line_bytes, 0, &reason);

	if (event)
		take_event(b, event);
	else
		take_words(b, b->line, b->line_bytes);
	json_decref(event);
}

/* A line that is too long is dropped. */
static void take_bytes(struct runtime_builds *b, const char *p, size_t n)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;

		b->line_is_cut |= b->line_bytes + part > sizeof(b->line);
		if (!b->line_is_cut) {
			memcpy(b->line + b->line_bytes, p, part);
			b->line_bytes += part;
		}
		if (end && !b->line_is_cut)
			take_line(b);
		if (end) {
			b->line_bytes = 0;
			b->line_is_cut = false;
		}
		part += end != NULL;
		p += part;
		n -= part;
	}
}

/* What a process that was killed writes late is dropped. False: there is nothing more now. */
static bool read_some(struct runtime_builds *b)
{
	char data[8192];
	ssize_t n = read(b->starter->out_fd, data, sizeof(data));

	if (n > 0 && b->running)
		take_bytes(b, data, (size_t)n);
	return n > 0;
}

static void on_output(uv_poll_t *p, int status, int events)
{
	if (!read_some(p->data) && status < 0)
		(void)uv_poll_stop(p); /* cannot fail */
}

/* --- its end --- */

static void finish(struct runtime_builds *b)
{
	struct runtime_build *j = TAKE_PTR(b->running);
	const char *why = *b->failed ? b->failed : *b->last ? b->last : NOTHING;

	(void)uv_timer_stop(&b->limit); /* cannot fail */
	quota_release(&b->fleet->quota, &sizes);
	if (has_template(b->fleet, j->template)) {
		log_info("a runtime's template is built in %.0f s template=%s",
			(double)(clock_monotonic_ns() - j->since_ns) / (double)NS_PER_S,
			j->template);
		forget(b, j);
	} else {
		set_failed(j, why);
	}
	turn(b);
}

/* The next build begins when nothing of this one is left. */
static void on_end_group(uv_timer_t *t)
{
	struct runtime_builds *b = t->data;
	int r = cgroup_build_remove(b->fleet->dirs.cgroups, b->group);

	if (r == -EBUSY && b->tries++ < GROUP_TRIES)
		(void)uv_timer_start(t, on_end_group, GROUP_MS, 0); /* cannot fail */
	else
		finish(b);
}

static void end(struct runtime_builds *b, int status)
{
	if (!b->running || b->ended)
		return;
	b->ended = true;
	for (unsigned n = 0; n < LAST_READS && read_some(b); n++)
		continue; /* all that was in the pipe when it ended */
	if (status < 0)
		copy_text(b->failed, RUNTIME_REASON_MAX, strerror(-status),
			strlen(strerror(-status)));
	else if (WIFSIGNALED(status) && !*b->failed)
		(void)snprintf(
			b->failed, sizeof(b->failed), "signal %d ended it", WTERMSIG(status));
	on_end_group(&b->limit);
}

static void on_limit(uv_timer_t *t)
{
	struct runtime_builds *b = t->data;

	(void)snprintf(b->failed, sizeof(b->failed), "it took longer than %d s", RUNTIME_BUILD_S);
	(void)runtime_starter_send(b->starter, RUNTIME_KILL, 0); /* else it has ended */
}

/* --- the starter --- */

/* The process waits until it is in its group. */
static void born(struct runtime_builds *b, pid_t pid)
{
	int r = cgroup_build_enter(b->fleet->dirs.cgroups, b->group, pid);

	if (r < 0)
		log_warn("a runtime's build has no control group: %s build=%s", strerror(-r),
			b->group);
	(void)runtime_starter_send(b->starter, RUNTIME_GO, 0); /* else it has ended */
}

static void lose(struct runtime_builds *b)
{
	b->lost = true;
	(void)uv_poll_stop(&b->messages); /* cannot fail */
	log_error(LOST);
	end(b, -ECHILD);
}

static void on_message(uv_poll_t *p, int status, int events)
{
	struct runtime_builds *b = p->data;
	struct runtime_message m;
	int r;

	while ((r = runtime_starter_receive(b->starter, &m)) == 0)
		if (m.kind == RUNTIME_BORN)
			born(b, m.value);
		else if (m.kind == RUNTIME_ENDED)
			end(b, m.value);
	if (r != -EAGAIN && r != -EINTR)
		lose(b);
}

/* --- turns --- */

static void start(struct runtime_builds *b, struct runtime_build *j)
{
	b->running = j;
	b->line_bytes = b->tries = 0;
	b->line_is_cut = b->ended = false;
	b->failed[0] = b->last[0] = '\0';
	j->status.percent = -1;
	set_state(j, RUNTIME_BUILDING);
	log_info("a runtime's template is being built template=%s build=%s", j->template, b->group);
	(void)uv_timer_start(&b->limit, on_limit, RUNTIME_BUILD_S * 1000, 0); /* cannot fail */
	/* if it cannot be sent, its end comes as a message, too */
	(void)runtime_starter_send(b->starter, RUNTIME_BEGIN, (int32_t)j->number);
}

/* VMs of the pool make room when it first asks. */
static bool take_place(struct runtime_builds *b, struct runtime_build *j)
{
	struct fleet *f = b->fleet;
	bool first = !j->tried;

	j->tried = true;
	return f->status == FLEET_READY && str_random_uuid(b->group) == 0 &&
	       (first ? places_take_host(f, &sizes, 1, NULL)
		      : quota_reserve(&f->quota, &f->dirs, &sizes, 1, NULL)) == 0;
}

static struct runtime_build *first_waiting(const struct runtime_builds *b)
{
	struct runtime_build *j = b->builds;

	while (j && j->status.state != RUNTIME_WAITING)
		j = j->next;
	return j;
}

static void on_retry(uv_timer_t *t)
{
	turn(t->data);
}

/* Whether a build need not wait: its template is there, or it will never run. */
static bool is_over(struct runtime_builds *b, struct runtime_build *j)
{
	struct error e = {0};

	if (has_template(b->fleet, j->template)) {
		forget(b, j);
		return true;
	}
	if (b->lost)
		(void)error_set(&e, ERROR_HOST, ECHILD, LOST); /* for its message; so below */
	else
		(void)quota_check_ever(&b->fleet->quota, &b->fleet->dirs, &sizes, &e);
	if (*e.message)
		set_failed(j, e.message);
	return *e.message;
}

static void turn(struct runtime_builds *b)
{
	struct runtime_build *j;

	do
		j = first_waiting(b);
	while (j && is_over(b, j));
	if (!j || b->running || b->stopping)
		return;
	if (take_place(b, j))
		start(b, j);
	else
		(void)uv_timer_start(&b->retry, on_retry, RETRY_MS, 0); /* cannot fail */
}

/* --- what there is --- */

static struct runtime_build *find(const struct runtime_builds *b, const char *template)
{
	struct runtime_build *j = b ? b->builds : NULL;

	while (j && strcmp(j->template, template) != 0)
		j = j->next;
	return j;
}

/* Seconds, rounded up; 0: it is over. */
static unsigned failed_for_s(const struct runtime_build *j)
{
	uint64_t end_ns = j->since_ns + RUNTIME_FAILED_S * NS_PER_S, now = clock_monotonic_ns();

	return now < end_ns ? (unsigned)((end_ns - now + NS_PER_S - 1) / NS_PER_S) : 0;
}

bool runtime_builds_allowed(const struct fleet *f)
{
	return f->runtime_builds != NULL;
}

void runtime_builds_look(struct fleet *f, const struct runtime *rt, struct runtime_status *ret)
{
	struct runtime_build *j = find(f->runtime_builds, rt->template);
	bool over = j && j->status.state == RUNTIME_FAILED && !failed_for_s(j);

	*ret = (struct runtime_status){.state = RUNTIME_READY, .percent = -1};
	if (has_template(f, rt->template))
		return;
	ret->state = RUNTIME_MISSING;
	if (over)
		forget(f->runtime_builds, j);
	else if (j)
		*ret = j->status;
	if (ret->state == RUNTIME_FAILED)
		ret->again_s = failed_for_s(j);
}

static int add(struct runtime_builds *b, const struct runtime *rt)
{
	struct runtime_build *j = calloc(1, sizeof(*j)), **end = &b->builds;

	if (!j)
		return -ENOMEM;
	j->number = rt->number;
	j->status.percent = -1;
	(void)snprintf(j->template, sizeof(j->template), "%s", rt->template); /* fits */
	set_state(j, RUNTIME_WAITING);
	while (*end)
		end = &(*end)->next;
	*end = j;
	return 0;
}

void runtime_builds_want(struct fleet *f, const struct runtime *rt, struct runtime_status *ret)
{
	struct runtime_builds *b = f->runtime_builds;

	runtime_builds_look(f, rt, ret);
	if (ret->state != RUNTIME_MISSING || !b || b->stopping)
		return;
	if (add(b, rt) < 0)
		return; /* out of memory: it stays missing */
	turn(b);
	runtime_builds_look(f, rt, ret);
}

/* --- start and stop --- */

int runtime_builds_open(struct fleet *f, struct error *e)
{
	struct runtime_builds *b;
	int r;

	if (!f->options.build_runtimes)
		return 0;
	b = calloc(1, sizeof(*b));
	if (!b)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	r = runtime_starter_open(&f->options, &b->starter, e);
	if (r < 0) {
		free(b);
		return r;
	}
	b->fleet = f;
	b->messages.data = b->output.data = b->retry.data = b->limit.data = b;
	(void)uv_timer_init(f->loop, &b->retry); /* these cannot fail for such files */
	(void)uv_timer_init(f->loop, &b->limit);
	(void)uv_poll_init(f->loop, &b->messages, b->starter->fd);
	(void)uv_poll_init(f->loop, &b->output, b->starter->out_fd);
	(void)uv_poll_start(&b->messages, UV_READABLE, on_message);
	(void)uv_poll_start(&b->output, UV_READABLE, on_output);
	f->runtime_builds = b;
	return 0;
}

void runtime_builds_stop(struct fleet *f)
{
	struct runtime_builds *b = f->runtime_builds;

	if (!b || b->stopping)
		return;
	b->stopping = true;
	uv_close((uv_handle_t *)&b->messages, NULL);
	uv_close((uv_handle_t *)&b->output, NULL);
	uv_close((uv_handle_t *)&b->retry, NULL);
	uv_close((uv_handle_t *)&b->limit, NULL);
}

void runtime_builds_free(struct fleet *f)
{
	struct runtime_builds *b = TAKE_PTR(f->runtime_builds);

	if (!b)
		return;
	runtime_starter_free(b->starter); /* kills what runs */
	if (b->running)
		(void)cgroup_build_remove(f->dirs.cgroups, b->group); /* else the next start */
	while (b->builds)
		forget(b, b->builds);
	free(b);
}
