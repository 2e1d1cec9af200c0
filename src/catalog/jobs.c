#include "catalog/jobs.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/str.h"
#include "catalog/build_priority.h"
#include "catalog/catalog.h"
#include "catalog/catalog_internal.h"
#include "catalog/runtime_wait.h"
#include "catalog/uploads.h"
#include "fleet/instance.h"
#include "fleet/places.h"
#include "fleet/quota.h"
#include "fleet/turns.h"
#include "io/jailed.h"
#include "policy/network_floor_json.h"
#include "proto/json_tree.h"
#include "sandbox/cgroup_build.h"
#include "store/agent_versions.h"
#include "store/keys.h"
#include "store/tags.h"

#define MIB (UINT64_C(1) << 20)

enum { RETRY_MS = 2000, LOOK_MS = 500, GROUP_MS = 20, GROUP_TRIES = 250 };

/* WAITING leads to RUNNING, and that to ENDING. An ENDING job is freed when its handles are closed.
 * A WAITING job may also end at once. */
struct build_job {
	struct build_job *next;
	struct catalog *catalog;
	char build_id[STORE_UUID_BYTES], template_id[STORE_TEMPLATE_ID_BYTES],
		key_id[STORE_UUID_BYTES];
	struct sandbox_sizes sizes;
	uint32_t second_mb;	       /* of these, for a second microVM */
	char *spec;		       /* owned; overwritten when it is freed */
	char base[STORE_NAME_MAX + 1]; /* the directory of the template that it is on, or "" */
	json_t *files;		       /* paths of uploads that it holds, owned */
	bool running, cancelled, watched, revoked;
	bool placed;	   /* it has a place on the host */
	json_t *said;	   /* owned, or NULL */
	char *answer;	   /* owned: to what it said, or NULL */
	bool tried;	   /* to find a place */
	uint64_t since_ns; /* monotonic: when it could run, but for a place; 0: not yet */

	uv_process_t process;
	uv_pipe_t in, out;
	struct turn turn; /* reads from out */
	uv_timer_t limit;
	uv_write_t write, answer_write, need_write;
	struct runtime_wait need; /* of the template that it stands on */
	char *need_answer;	  /* owned, or NULL */
	unsigned handles;	  /* that are not closed */
	char *line;		  /* of BUILD_JOB_LINE_MAX */
	size_t line_bytes;
	bool line_is_cut, exited, finished;
	unsigned tries; /* to remove its control group */
	uint32_t disk_mb;
	char reason[STORE_BUILD_REASON_MAX + 1], step[STORE_BUILD_STEP_MAX + 1];
};

static void turn(struct catalog *c);
static void on_place(uv_timer_t *t);

/* --- the end of a job --- */

static void wipe_spec(struct build_job *j)
{
	if (!j->spec)
		return;
	OPENSSL_cleanse(j->spec, strlen(j->spec));
	free(TAKE_PTR(j->spec));
}

/* --- the files that it needs --- */

static void each_file(const struct build_job *j,
	void (*act)(struct uploads *u, const char *key_id, const char *hash))
{
	const json_t *path;
	size_t i;

	json_array_foreach(j->files, i, path)
	{
		const char *hash = strrchr(json_string_value(path), '.');

		if (hash)
			act(j->catalog->uploads, j->key_id, hash + 1);
	}
}

static void hold_files(struct build_job *j, const json_t *spec)
{
	const json_t *steps = json_object_get(spec, "steps");
	json_t *step, *path = json_object_get(json_object_get(spec, "agent"), "files");
	size_t i;

	j->files = json_array();
	if (json_is_string(path))
		(void)json_array_append(j->files, path); /* as below */
	json_array_foreach(steps, i, step)
	{
		path = json_object_get(step, "files");
		if (json_is_string(path))
			(void)json_array_append(j->files, path); /* it fails if it has gone */
	}
	each_file(j, uploads_hold);
}

static void job_free(struct build_job *j)
{
	struct build_job **p = &j->catalog->jobs;

	while (*p && *p != j)
		p = &(*p)->next;
	if (*p)
		*p = j->next;
	turn_leave(&j->turn);
	each_file(j, uploads_release);
	json_decref(j->files);
	wipe_spec(j);
	json_decref(j->said);
	free(j->answer);
	free(j->need_answer);
	free(j->line);
	free(j);
}

static void leave_place(struct build_job *j)
{
	if (j->placed)
		quota_release(&j->catalog->fleet->quota, &j->sizes);
	j->placed = false;
}

/* VMs of the pool make room for a build when it first asks, but not at each further attempt. */
static bool take_place(struct build_job *j)
{
	struct fleet *f = j->catalog->fleet;
	bool first = !j->tried;

	j->tried = true;
	if (!j->placed)
		j->placed = (first ? places_take_host(f, &j->sizes, 1, NULL)
				   : quota_reserve(&f->quota, &f->dirs, &j->sizes, 1, NULL)) == 0;
	return j->placed;
}

static void on_closed(uv_handle_t *h)
{
	struct build_job *j = h->data;
	struct catalog *c = j->catalog;

	if (--j->handles)
		return;
	leave_place(j);
	if (j->revoked)
		catalog_drop_steps(c->fleet, j->key_id); /* it may have kept one since */
	job_free(j);
	if (!c->stopping)
		turn(c);
}

static void close_handle(void *handle)
{
	if (!uv_is_closing(handle))
		uv_close(handle, on_closed);
}

static void set_reason(struct build_job *j, const char *step, const char *reason)
{
	if (*j->reason)
		return;						    /* the first says most */
	(void)snprintf(j->reason, sizeof(j->reason), "%s", reason); /* these may be cut */
	(void)snprintf(j->step, sizeof(j->step), "%s", step);
}

/* What the tag named before joins `old`. */
static int move_tag(
	struct build_job *j, const char *tag, uint64_t now, json_t *old, struct error *e)
{
	struct store *s = j->catalog->fleet->store;
	struct store_tag before = {0};

	if (store_tag_get(s, j->template_id, tag, &before, NULL) == 0)
		(void)json_array_append_new(old, json_string(before.build_id)); /* or at a start */
	return store_tag_assign(s, j->template_id, tag, j->build_id, now, e);
}

static void drop_all(struct fleet *f, const json_t *builds)
{
	const json_t *id;
	size_t i;

	json_array_foreach(builds, i, id) catalog_drop_later(f, json_string_value(id));
}

/* The build is ready and its tags name it, or neither. */
static int record_ready(struct build_job *j, struct error *e)
{
	struct store *s = j->catalog->fleet->store;
	uint64_t now = clock_realtime_ns();
	struct store_build b = {0};
	json_t *tags = NULL, *old = json_array(), *tag;
	size_t i;
	int r = store_begin(s, e);

	if (r == 0)
		r = store_build_get(s, j->build_id, &b, e);
	if (r == 0)
		r = store_build_finish(
			s, j->build_id, STORE_BUILD_READY, now, j->disk_mb, "", "", e);
	if (r == 0 && j->watched)
		r = j->catalog->watch->ready(j->catalog->fleet, &b, j->said, e);
	if (r == 0)
		tags = json_loads(b.tags_json, 0, NULL);
	json_array_foreach(tags, i, tag)
	{
		if (r == 0)
			r = move_tag(j, json_string_value(tag), now, old, e);
	}
	json_decref(tags);
	if (r == 0)
		r = store_commit(s, e);
	if (r == 0)
		drop_all(j->catalog->fleet, old);
	else
		store_rollback(s);
	json_decref(old);
	return r;
}

static void tell_end(const struct build_job *j, const char *reason)
{
	if (j->watched)
		j->catalog->watch->ended(j->catalog->fleet, j->build_id, j->step, reason);
}

static void record_failed(struct build_job *j)
{
	struct fleet *f = j->catalog->fleet;
	struct error e = {0};

	set_reason(j, "", "the build ended without a reason: see the daemon's log");
	if (store_build_finish(f->store, j->build_id, STORE_BUILD_FAILED, clock_realtime_ns(), 0,
		    j->reason, j->step, &e) < 0)
		log_error("cannot record the end of a build: %s build=%s", e.message, j->build_id);
	tell_end(j, j->reason);
	catalog_drop(f, j->build_id);
}

static void finish(struct build_job *j)
{
	struct error e = {0};

	if (j->catalog->stopping)
		return; /* the next start says so */
	if (j->finished && !j->cancelled && !*j->reason && record_ready(j, &e) < 0)
		set_reason(j, "finalize", e.message);
	if (j->cancelled) {
		catalog_drop(j->catalog->fleet, j->build_id); /* the row is gone */
		tell_end(j, "it was cancelled");
	} else if (!j->finished || *j->reason) {
		record_failed(j);
	} else {
		tell_end(j, NULL);
	}
}

/* What it has started does not outlive it. Its place on the host is free when all of that has
 * ended. */
static void on_end_group(uv_timer_t *t)
{
	struct build_job *j = t->data;
	int r = cgroup_build_remove(j->catalog->fleet->dirs.cgroups, j->build_id);

	if (r == -EBUSY && j->tries++ < GROUP_TRIES)
		(void)uv_timer_start(t, on_end_group, GROUP_MS, 0); /* cannot fail */
	else
		close_handle(t);
}

/* After the last line and the exit. */
static void check_end(struct build_job *j)
{
	if (!j->exited || !uv_is_closing((uv_handle_t *)&j->out))
		return;
	on_end_group(&j->limit);
	finish(j);
	close_handle(&j->process);
	close_handle(&j->need.timer);
	close_handle(&j->in);
}

static void kill_job(struct build_job *j)
{
	if (!j->exited)
		(void)uv_process_kill(&j->process, SIGKILL); /* it may have just ended */
}

static void on_limit(uv_timer_t *t)
{
	struct build_job *j = t->data;
	char text[64];

	(void)snprintf(text, sizeof(text), "the build took longer than %d s", BUILD_JOB_S);
	set_reason(j, "", text);
	kill_job(j);
}

static void on_exit_of(uv_process_t *p, int64_t status, int signal)
{
	struct build_job *j = p->data;

	j->exited = true;
	if (status || signal)
		j->finished = false;
	check_end(j);
}

/* --- what it says --- */

static void say(struct build_job *j, unsigned level, const char *step, const char *text)
{
	const struct store_build_log l = {
		.at_ns = clock_realtime_ns(), .level = level, .step = step, .message = text};
	struct error e = {0};

	if (*text && store_build_log(j->catalog->fleet->store, j->build_id, &l, &e) < 0 &&
		e.code != ERROR_NOT_FOUND)
		log_debug("cannot keep an entry of a build's log: %s", e.message);
}

static void take_log(struct build_job *j, const json_t *log)
{
	json_int_t level = json_integer_value(json_object_get(log, "level"));

	say(j, level >= 0 && level <= 3 ? (unsigned)level : 1, json_tree_text(log, "step"),
		json_tree_text(log, "message"));
}

static void on_answered(uv_write_t *w, int status)
{
	struct build_job *j = w->data;

	close_handle(&j->in);
}

static int make_answer(struct build_job *j, struct error *e)
{
	struct store_build b = {0};
	_cleanup_free_ char *text = NULL;
	json_t *answer = NULL;
	int r = store_build_get(j->catalog->fleet->store, j->build_id, &b, e);

	if (r == 0)
		r = j->catalog->watch->said(j->catalog->fleet, &b, j->said, &answer, e);
	if (r == 0) {
		text = json_dumps(answer, JSON_COMPACT);
		j->answer = text ? str_printf("%s\n", text) : NULL;
		r = j->answer ? 0 : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	}
	json_decref(answer);
	return r;
}

/* It waits for the answer. */
static void take_said(struct build_job *j, json_t *said)
{
	struct error e = {0};
	uv_buf_t text;

	if (j->said)
		return;
	j->said = json_incref(said);
	if (!j->watched)
		return;
	if (make_answer(j, &e) < 0) {
		set_reason(j, "finalize", e.message);
		kill_job(j);
		return;
	}
	text = uv_buf_init(j->answer, (unsigned)strlen(j->answer));
	if (uv_write(&j->answer_write, (uv_stream_t *)&j->in, &text, 1, on_answered) < 0)
		kill_job(j);
}

/* --- the template that it stands on --- */

static void on_need_answered(uv_write_t *w, int status)
{
	struct build_job *j = w->data;

	free(TAKE_PTR(j->need_answer));
	if (status < 0)
		kill_job(j);
}

/* Takes the answer. */
static void answer_need(struct build_job *j, json_t *answer)
{
	_cleanup_free_ char *text = json_dumps(answer, JSON_COMPACT);
	uv_buf_t line;

	json_decref(answer);
	j->need_answer = text ? str_printf("%s\n", text) : NULL;
	if (!j->need_answer) {
		set_reason(j, "base", "out of memory");
		kill_job(j);
		return;
	}
	(void)uv_timer_start(&j->limit, on_limit, BUILD_JOB_S * 1000, 0); /* cannot fail */
	line = uv_buf_init(j->need_answer, (unsigned)strlen(j->need_answer));
	if (uv_write(&j->need_write, (uv_stream_t *)&j->in, &line, 1, on_need_answered) < 0)
		kill_job(j);
}

/* The wait is over: it needs a place again. */
static void go_on(struct build_job *j)
{
	if (take_place(j))
		answer_need(j, json_pack("{s:s}", "template", j->need.runtime.template));
	else
		(void)uv_timer_start(&j->need.timer, on_place, RETRY_MS, 0); /* cannot fail */
}

static void on_place(uv_timer_t *t)
{
	go_on(t->data);
}

static void on_need_said(void *arg, const char *text)
{
	struct build_job *j = arg;

	leave_place(j);
	j->tried = false;
	say(j, 1, "base", text);
}

static void on_need_over(void *arg, const char *reason)
{
	if (reason)
		answer_need(arg, json_pack("{s:s}", "failed", reason));
	else
		go_on(arg);
}

/* False: it is the template of no runtime. */
static bool find_runtime(const struct fleet *f, const json_t *need, struct runtime *ret)
{
	const char *name = json_tree_word(need, "runtime"),
		   *template = json_tree_text(need, "template");

	if (name)
		return runtimes_find(f->options.runtimes, name, ret);
	for (unsigned i = 0; runtimes_get(f->options.runtimes, i, ret); i++)
		if (strcmp(ret->template, template) == 0)
			return true;
	return false;
}

/* It waits for the answer. */
static void take_need(struct build_job *j, const json_t *need)
{
	static const struct runtime_wait_ops ops = {.said = on_need_said, .over = on_need_over};

	if (!j->watched || j->need_answer || uv_is_active((uv_handle_t *)&j->need.timer))
		return;
	j->need.fleet = j->catalog->fleet;
	j->need.ops = &ops;
	j->need.arg = j;
	if (find_runtime(j->catalog->fleet, need, &j->need.runtime))
		runtime_wait_begin(&j->need);
	else
		answer_need(j, json_object());
}

/* Adds it to what was said. Its text is a guest's in part, so a long one is cut. */
static void take_cold(struct build_job *j, const json_t *cold)
{
	const char *text = json_string_value(cold);

	if (text && j->said)
		(void)json_object_set_new(j->said, "cold",
			json_stringn(text, str_cut(text, strlen(text), STORE_AGENT_COLD_MAX)));
}

static void take_line(struct build_job *j, const char *text, size_t n)
{
	const char *reason;
	json_t *root = json_tree_parse(text, n, 0, &reason), *value;

	value = json_object_get(root, "log");
	if (value)
		take_log(j, value);
	value = json_object_get(root, "failed");
	if (value)
		set_reason(j, json_tree_text(value, "step"), json_tree_text(value, "message"));
	value = json_object_get(root, "agent");
	if (value)
		take_said(j, value);
	value = json_object_get(root, "need");
	if (value)
		take_need(j, value);
	value = json_object_get(root, "end");
	if (value) {
		j->finished = true;
		take_cold(j, json_object_get(value, "cold"));
		j->disk_mb = (uint32_t)json_integer_value(json_object_get(value, "diskMB"));
	}
	json_decref(root);
}

/* A line that is too long is dropped. */
static void take_bytes(struct build_job *j, const char *p, size_t n)
{
	while (n) {
		const char *end = memchr(p, '\n', n);
		size_t part = end ? (size_t)(end - p) : n;

		if (j->line_bytes + part > BUILD_JOB_LINE_MAX)
			j->line_is_cut = true;
		else
			memcpy(j->line + j->line_bytes, p, part);
		j->line_bytes += j->line_is_cut ? 0 : part;
		if (end && !j->line_is_cut)
			take_line(j, j->line, j->line_bytes);
		if (end) {
			j->line_bytes = 0;
			j->line_is_cut = false;
		}
		part += end != NULL;
		p += part;
		n -= part;
	}
}

static void on_alloc(uv_handle_t *h, size_t suggested, uv_buf_t *ret)
{
	static char buffer[4096]; /* used until the callback returns; a share of a turn */

	*ret = uv_buf_init(buffer, sizeof(buffer));
}

/* All that came at once is one commit. */
static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *buf)
{
	struct build_job *j = s->data;
	struct store *store = j->catalog->fleet->store;
	bool begun;

	if (n < 0) {
		close_handle(s);
		check_end(j);
		return;
	}
	if (j->catalog->stopping || j->cancelled)
		return;
	(void)uv_read_stop(s); /* always 0 */
	turn_ask(&j->turn);
	begun = store_begin(store, NULL) == 0;
	take_bytes(j, buf->base, (size_t)n); /* its end counts even where its log is lost */
	if (begun && store_commit(store, NULL) < 0)
		store_rollback(store);
}

/* Much of what a build says comes from its guests. */
static void on_turn(struct turn *t)
{
	struct build_job *j = t->arg;

	(void)uv_read_start((uv_stream_t *)&j->out, on_alloc, on_read); /* fails if it is closed */
}

static void on_written(uv_write_t *w, int status)
{
	struct build_job *j = w->data;

	wipe_spec(j);
	if (!j->watched || status < 0)
		close_handle(&j->in);
}

/* --- start --- */

/* Returns the network settings of the operator and the key as they are now, or NULL on failure. */
static json_t *network_json(const struct build_job *j, struct error *e)
{
	const struct fleet *f = j->catalog->fleet;
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	json_t *floor, *network;

	if (store_key_get(f->store, j->key_id, &key, e) < 0)
		return NULL;
	floor = f->options.network ? network_floor_to_json(f->options.network) : NULL;
	network = !f->options.network || floor
			  ? json_pack("{s:o*, s:s*}", "floor", floor, "key", key->limits.network)
			  : NULL;
	if (!network)
		(void)error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	return network;
}

/* Adds the network, what guests trust, and whose steps are kept, to the specification. The
 * operator's own builds share their steps with `mayfly template build`. */
static int complete_spec(struct build_job *j, struct error *e)
{
	const struct fleet_options *o = &j->catalog->fleet->options;
	json_t *network = network_json(j, e), *more;
	char *text, *spec = NULL;

	if (!network)
		return -e->err;
	more = json_pack("{s:o, s:s*, s:s*, s:I}", "network", network, "trust", o->guest_ca,
		"owner", strcmp(j->key_id, STORE_KEY_LOCAL) ? j->key_id : NULL, "cacheMaxSeconds",
		(json_int_t)(o->build_cache_max_ns / NS_PER_S));
	text = more ? json_dumps(more, JSON_COMPACT) : NULL;
	json_decref(more);
	if (text) { /* it may have a proxy's password */
		spec = str_printf("%.*s,%s\n", (int)strlen(j->spec) - 1, j->spec, text + 1);
		OPENSSL_cleanse(text, strlen(text));
		free(text);
	}
	if (!spec)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	wipe_spec(j);
	j->spec = spec;
	return 0;
}

static int spawn(struct build_job *j, struct error *e)
{
	const char *program = j->catalog->fleet->options.builder;
	static char mayfly[] = "mayfly", group[] = "template", verb[] = "run-build",
		    on[] = "--jail=on", off[] = "--jail=off", mirror[] = "--registry-mirror";
	const struct option_list *mirrors = j->catalog->fleet->options.mirrors;
	char *words[5 + 2 * OPTION_LIST_MAX] = {
		mayfly, group, verb, jailed_is_on() ? on : off, NULL};
	uv_stdio_container_t stdio[3] = {
		{.flags = UV_CREATE_PIPE | UV_READABLE_PIPE, .data.stream = (uv_stream_t *)&j->in},
		{.flags = UV_CREATE_PIPE | UV_WRITABLE_PIPE, .data.stream = (uv_stream_t *)&j->out},
		{.flags = UV_INHERIT_FD, .data.fd = 2}};
	const uv_process_options_t o = {.exit_cb = on_exit_of,
		.file = program ? program : "/proc/self/exe",
		.args = words,
		.stdio_count = 3,
		.stdio = stdio};
	int r;

	for (unsigned i = 0; mirrors && i < mirrors->count; i++) {
		words[4 + 2 * i] = mirror;
		words[5 + 2 * i] = (char *)(uintptr_t)mirrors->items[i]; /* it is only read */
	}
	r = uv_spawn(j->catalog->fleet->loop, &j->process, &o);

	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot start %s", o.file) : 0;
}

/* It starts nothing before it is told what to build. */
static void enter_group(const struct build_job *j)
{
	const struct cgroup_tree *t = j->catalog->fleet->dirs.cgroups;
	int r = cgroup_build_enter(t, j->build_id, j->process.pid);

	if (r < 0)
		log_warn("a build has no control group: %s build=%s", strerror(-r), j->build_id);
}

static void init_handles(struct build_job *j)
{
	uv_loop_t *loop = j->catalog->fleet->loop;

	(void)uv_pipe_init(loop, &j->in, 0); /* none of these can fail */
	(void)uv_pipe_init(loop, &j->out, 0);
	(void)uv_timer_init(loop, &j->limit);
	(void)uv_timer_init(loop, &j->need.timer);
	j->in.data = j->out.data = j->limit.data = j->process.data = j->write.data = j;
	j->answer_write.data = j->need_write.data = j->need.timer.data = j;
	j->handles = 5;
}

static int tell(struct build_job *j, struct error *e)
{
	uv_buf_t text;
	int r = complete_spec(j, e);

	if (r < 0)
		return r;
	text = uv_buf_init(j->spec, (unsigned)strlen(j->spec));
	r = uv_write(&j->write, (uv_stream_t *)&j->in, &text, 1, on_written);
	if (r == 0)
		r = turn_join(&j->turn, j->catalog->fleet->loop, on_turn, j);
	if (r == 0)
		r = uv_read_start((uv_stream_t *)&j->out, on_alloc, on_read);
	return r < 0 ? error_set_errno(e, ERROR_HOST, -r, "cannot talk to the build's process") : 0;
}

/* --- priority --- */

static int note_lowered(struct instance *i, void *arg)
{
	*(bool *)arg |= i->fair.lowered;
	return *(bool *)arg;
}

/* While priority is low, children that were started during the last look are found by the next
 * one. */
static void on_look(uv_timer_t *t)
{
	struct catalog *c = t->data;
	bool was = c->idle, any = false;

	c->idle = false;
	(void)instance_each(c->fleet, note_lowered, &c->idle); /* 1: it found one */
	for (struct build_job *j = c->jobs; j; j = j->next) {
		any |= j->running && !j->exited;
		if (j->running && !j->exited && (was || c->idle))
			build_priority_set(j->process.pid, c->idle);
	}
	if (!any)
		(void)uv_timer_stop(t); /* cannot fail */
}

static void start(struct build_job *j)
{
	struct fleet *f = j->catalog->fleet;
	struct error e = {0};

	j->running = true;
	init_handles(j);
	if (spawn(j, &e) < 0) {
		set_reason(j, "", e.message);
		j->exited = true;
		close_handle(&j->out);
		check_end(j);
		return;
	}
	enter_group(j);
	(void)store_build_set_status(f->store, j->build_id, STORE_BUILD_RUNNING,
		clock_realtime_ns(), NULL); /* a failure shows at the end */
	(void)uv_timer_start(&j->limit, on_limit, BUILD_JOB_S * 1000, 0); /* cannot fail */
	(void)uv_timer_start(&j->catalog->look, on_look, 0, LOOK_MS);	  /* likewise */
	if (tell(j, &e) < 0) {
		set_reason(j, "", e.message);
		kill_job(j);
		close_handle(&j->out);
	}
}

static bool may_run(const struct catalog *c, const struct build_job *j)
{
	unsigned all = 0, own = 0;

	for (const struct build_job *k = c->jobs; k; k = k->next) {
		all += k->running;
		own += k->running && strcmp(k->key_id, j->key_id) == 0;
	}
	return all < BUILD_JOBS_MAX && own < BUILD_JOBS_KEY_MAX;
}

/* A key's builds run in the order of their arrival. */
static bool is_first_of_key(const struct catalog *c, const struct build_job *j)
{
	const struct build_job *k = c->jobs;

	while (strcmp(k->key_id, j->key_id) != 0)
		k = k->next;
	return k == j;
}

static void on_retry(uv_timer_t *t)
{
	turn(t->data);
}

static bool waited_too_long(struct build_job *j)
{
	uint64_t now = clock_monotonic_ns();

	if (!j->since_ns)
		j->since_ns = now;
	return now - j->since_ns > BUILD_JOB_WAIT_S * NS_PER_S;
}

/* Whether a job need not wait any more for a place on this host: none will come, or it has waited
 * too long. The reason is set then. Waiting for the key's other builds does not count. */
static bool is_hopeless(struct build_job *j)
{
	const struct fleet *f = j->catalog->fleet;
	struct error e = {0};
	char text[STORE_BUILD_REASON_MAX + 1];

	if (quota_check_ever(&f->quota, &f->dirs, &j->sizes, &e) == 0) {
		if (!waited_too_long(j))
			return false;
		(void)error_set(&e, ERROR_NO_SPACE, ETIMEDOUT,
			"the host had no place for the build for %d minutes: try again later, or "
			"with less memory",
			BUILD_JOB_WAIT_S / 60);
	}
	(void)snprintf(text, sizeof(text),
		"%s. The build of an agent takes %u MB more than an invocation", e.message,
		j->second_mb); /* may be cut */
	set_reason(j, "", j->second_mb ? text : e.message);
	return true;
}

/* Starts the jobs that may run now. A job without a place on the host waits, and delays only builds
 * of its own key. */
static void turn(struct catalog *c)
{
	bool ready = c->fleet->status == FLEET_READY, again = false;

	for (struct build_job *j = c->jobs, *next; j; j = next) {
		next = j->next;
		if (j->running || !may_run(c, j) || !is_first_of_key(c, j))
			continue;
		if (ready && take_place(j)) {
			start(j);
			continue;
		}
		if (is_hopeless(j)) {
			record_failed(j);
			job_free(j);
			continue;
		}
		again = true;
	}
	if (again)
		(void)uv_timer_start(&c->retry, on_retry, RETRY_MS, 0); /* cannot fail */
}

static unsigned count_jobs(const struct catalog *c, const char *key_id)
{
	unsigned n = 0;

	for (const struct build_job *j = c->jobs; j; j = j->next)
		n += !key_id || strcmp(j->key_id, key_id) == 0;
	return n;
}

/* A build of a Dockerfile may have a second microVM, for --from. A client's steps have none. */
static uint32_t second_mb(const struct store_build *b, const json_t *spec)
{
	if (!json_object_get(spec, "agent"))
		return 0;
	return b->memory_mb < BUILD_JOB_SOURCE_MB ? b->memory_mb : BUILD_JOB_SOURCE_MB;
}

/* What the build takes of the host's memory. A base that is a snapshot runs first, alone. */
static uint64_t memory_mb(
	const struct build_job *j, const struct store_build *b, const json_t *base)
{
	uint64_t own = (uint64_t)b->memory_mb + j->second_mb,
		 first = (uint64_t)json_integer_value(json_object_get(base, "memoryMB"));

	return first > own ? first : own;
}

static struct build_job *job_new(struct catalog *c, const struct store_build *b, const json_t *spec)
{
	struct build_job *j = calloc(1, sizeof(*j)), **end = &c->jobs;

	if (!j)
		return NULL;
	j->catalog = c;
	j->spec = json_dumps(spec, JSON_COMPACT);
	j->line = malloc(BUILD_JOB_LINE_MAX);
	(void)snprintf(j->build_id, sizeof(j->build_id), "%s", b->id); /* these fit */
	(void)snprintf(j->template_id, sizeof(j->template_id), "%s", b->template_id);
	(void)snprintf(j->key_id, sizeof(j->key_id), "%s", b->key_id);
	(void)snprintf(j->base, sizeof(j->base), "%s",
		json_tree_text(json_object_get(spec, "base"), "template"));
	if (json_object_get(spec, "agent")) {
		j->watched = c->watch != NULL;
		(void)snprintf(j->base, sizeof(j->base), "%s",
			json_tree_text(json_object_get(spec, "agent"), "base"));
	}
	j->second_mb = second_mb(b, spec);
	j->sizes = (struct sandbox_sizes){b->cpus,
		memory_mb(j, b, json_object_get(spec, "base")) * MIB,
		(BUILD_JOB_DISK_MB + b->free_mb) * MIB};
	if (!j->spec || !j->line) {
		job_free(j);
		return NULL;
	}
	hold_files(j, spec);
	while (*end)
		end = &(*end)->next;
	*end = j;
	return j;
}

int jobs_check_room(struct fleet *f, const char *key_id, struct error *e)
{
	const struct catalog *c = f->catalog;

	if (c->stopping)
		return error_set(e, ERROR_HOST, ESHUTDOWN, "the daemon is stopping");
	if (count_jobs(c, key_id) >= BUILD_JOBS_KEY_WAITING)
		return error_set(e, ERROR_TOO_MANY, EBUSY,
			"%d builds of this key wait or run: try again when one is complete",
			BUILD_JOBS_KEY_WAITING);
	if (count_jobs(c, NULL) >= BUILD_JOBS_WAITING)
		return error_set(e, ERROR_NO_SPACE, EBUSY,
			"%d builds wait at the moment: try again later", BUILD_JOBS_WAITING);
	return 0;
}

int jobs_add(struct fleet *f, const struct store_build *b, const json_t *spec, struct error *e)
{
	struct catalog *c = f->catalog;
	struct build_job *j;
	int r = jobs_check_room(f, b->key_id, e);

	if (r < 0)
		return r;
	j = job_new(c, b, spec);
	if (!j)
		return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	r = store_build_set_status(f->store, b->id, STORE_BUILD_WAITING, clock_realtime_ns(), e);
	if (r < 0) {
		job_free(j);
		return r;
	}
	turn(c);
	return 0;
}

bool jobs_use(const struct catalog *c, const char *dir)
{
	for (const struct build_job *j = c->jobs; j; j = j->next)
		if (strcmp(j->base, dir) == 0)
			return true;
	return false;
}

/* --- before its time --- */

void jobs_cancel(struct fleet *f, const char *template_id)
{
	for (struct build_job *j = f->catalog->jobs, *next; j; j = next) {
		next = j->next;
		if (strcmp(j->template_id, template_id) != 0)
			continue;
		j->cancelled = true;
		if (j->running) {
			kill_job(j);
			continue;
		}
		tell_end(j, "it was cancelled");
		job_free(j);
	}
}

void jobs_watch(struct fleet *f, const struct build_watch *w)
{
	f->catalog->watch = w;
}

void jobs_end_key(struct fleet *f, const char *key_id)
{
	for (struct build_job *j = f->catalog->jobs, *next; j; j = next) {
		next = j->next;
		if (strcmp(j->key_id, key_id) != 0)
			continue;
		set_reason(j, "", "the API key of the build was revoked");
		j->revoked = true;
		if (j->running) {
			kill_job(j);
			continue;
		}
		record_failed(j);
		job_free(j);
	}
	uploads_forget_key(f->catalog->uploads, key_id);
	catalog_drop_steps(f, key_id);
}

void jobs_stop(struct catalog *c)
{
	for (struct build_job *j = c->jobs, *next; j; j = next) {
		next = j->next;
		if (j->running)
			kill_job(j); /* its handles close when it has ended */
		else
			job_free(j);
	}
}
