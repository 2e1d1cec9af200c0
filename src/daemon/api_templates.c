/* Templates, read-only (protocol section 2.13). A template's name is its id. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uv.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "daemon/api.h"
#include "daemon/daemon.h"
#include "daemon/reply.h"
#include "image/template.h"

/* A build has no id of its own yet; the time of the template's making tells builds apart. */
static json_t *build_id(const struct template *t)
{
	return json_sprintf("00000000-0000-4000-8000-%012llx",
		(unsigned long long)(t->created_s & 0xffffffffffff));
}

static json_t *common_json(const struct template *t)
{
	json_t *time = api_time(t->created_s * NS_PER_S);

	return json_pack("{s:s, s:[s], s:[s], s:b, s:O, s:o, s:n, s:i}", "templateID", t->name,
		"names", t->name, "aliases", t->name, "public", 1, "createdAt", time, "updatedAt",
		time, "lastSpawnedAt", "spawnCount", 0);
}

static json_t *template_json(const struct template *t)
{
	json_t *root = common_json(t);
	json_t *more = json_pack("{s:o, s:s, s:i, s:i, s:i, s:i, s:s, s:n}", "buildID", build_id(t),
		"buildStatus", "ready", "buildCount", 1, "cpuCount", (int)t->config.cpus,
		"memoryMB", (int)t->config.memory_mb, "diskSizeMB", (int)t->config.disk_mb,
		"envdVersion", API_ENVD_VERSION, "createdBy");

	if (!root || !more || json_object_update(root, more) < 0) {
		json_decref(root);
		root = NULL;
	}
	json_decref(more);
	return root;
}

static json_t *detail_json(const struct template *t)
{
	json_t *root = common_json(t);
	json_t *time = api_time(t->created_s * NS_PER_S);
	json_t *builds = json_pack("[{s:o, s:s, s:O, s:O, s:o, s:i, s:i, s:i, s:s}]", "buildID",
		build_id(t), "status", "ready", "createdAt", time, "updatedAt", time, "finishedAt",
		time, "cpuCount", (int)t->config.cpus, "memoryMB", (int)t->config.memory_mb,
		"diskSizeMB", (int)t->config.disk_mb, "envdVersion", API_ENVD_VERSION);

	if (!root || json_object_set_new(root, "builds", builds) < 0) {
		json_decref(root);
		return NULL;
	}
	return root;
}

/* --- the list: read in a worker, as every template is a file --- */

struct listing {
	uv_work_t work;
	struct daemon *daemon;
	struct request *request; /* NULL when its client has gone */
	json_t *list;
	int result;
	struct error why;
};

static int add_template(void *arg, const struct template *t, const struct error *damage)
{
	if (damage)
		return 0; /* mayfly template ls shows it */
	return json_array_append_new(arg, template_json(t)) < 0 ? -ENOMEM : 0;
}

static void list_work(uv_work_t *w)
{
	struct listing *l = w->data;

	l->list = json_array();
	l->result = template_each(&l->daemon->home, add_template, l->list, &l->why);
}

static void list_done(uv_work_t *w, int status)
{
	struct listing *l = w->data;
	struct request *r = l->request;

	if (r) {
		r->data = NULL;
		if (l->result < 0)
			reply_failure(r, &l->why);
		else
			reply_json(r, 200, TAKE_PTR(l->list));
	}
	json_decref(l->list);
	free(l);
}

static void on_done(struct request *r, bool complete)
{
	struct listing *l = r->data;

	if (l)
		l->request = NULL;
}

void api_templates_list(struct request *r)
{
	static const struct request_ops ops = {.done = on_done};
	struct listing *l = calloc(1, sizeof(*l));

	if (!l) {
		reply_error(r, 503, "out of memory");
		return;
	}
	l->work.data = l;
	l->daemon = r->daemon;
	l->request = r;
	request_set_ops(r, &ops, l);
	(void)uv_queue_work(r->daemon->loop, &l->work, list_work, list_done); /* never fails */
}

/* --- one --- */

/* A small file: read at once. False: answered. */
static bool load(struct request *r, struct template *ret)
{
	struct template_ref ref;
	const char *reason;
	struct error e = {0};

	if (template_ref_parse(r->params[0], &ref, &reason) < 0) {
		reply_error(r, 400, "%s", reason);
		return false;
	}
	if (*ref.namespace || strcmp(ref.tag, "default") != 0)
		(void)error_set(&e, ERROR_NOT_FOUND, ENOENT, "there is no template '%.200s'",
			r->params[0]); /* filled is enough */
	else if (template_load(&r->daemon->home, ref.name, ret, &e) == 0)
		return true;
	reply_failure(r, &e);
	return false;
}

void api_template_get(struct request *r)
{
	struct template t = {0};

	if (!load(r, &t))
		return;
	reply_json(r, 200, detail_json(&t));
	template_done(&t);
}

void api_template_alias(struct request *r)
{
	struct template t = {0};

	if (!load(r, &t))
		return;
	reply_json(r, 200, json_pack("{s:s, s:b}", "templateID", t.name, "public", 1));
	template_done(&t);
}
