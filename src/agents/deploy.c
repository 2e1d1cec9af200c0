#include "agents/deploy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents_internal.h"
#include "agents/keep.h"
#include "agents/warm.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/catalog.h"
#include "catalog/jobs.h"
#include "catalog/uploads.h"
#include "fleet/fleet.h"
#include "fleet/limits.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"
#include "store/agent_versions.h"
#include "store/builds.h"

#define MIB (UINT64_C(1) << 20)

/* --- settings --- */

static uint32_t at_most(uint32_t wanted, uint64_t max)
{
	return wanted > max ? (uint32_t)max : wanted;
}

/* Whether a size that was given is within the key's. */
static int check_size(const json_t *settings, const char *name, uint32_t wanted, uint64_t least,
	uint64_t max, struct error *e)
{
	if (!json_object_get(settings, name) || (wanted >= least && wanted <= max))
		return 0;
	return error_set(e, ERROR_LIMIT, ERANGE, "%s must be from %llu to %llu%s for this key",
		name, (unsigned long long)least, (unsigned long long)max,
		strcmp(name, "cpus") == 0 ? "" : " MB");
}

static int check_timeout(
	const json_t *settings, uint32_t wanted_s, uint64_t max_ns, struct error *e)
{
	if (!json_object_get(settings, "timeout") || !max_ns || wanted_s * NS_PER_S <= max_ns)
		return 0;
	return error_set(e, ERROR_LIMIT, ERANGE, "timeout must be at most %llu s for this key",
		(unsigned long long)(max_ns / NS_PER_S));
}

/* Defaults that a key may not have are made smaller. */
static int take_sizes(struct fleet *f, const char *key_id, const json_t *settings,
	struct agent_sizes *ret, struct error *e)
{
	struct agent_sizes s = agent_settings_sizes(settings);
	struct store_limits limits;
	struct sandbox_sizes max;
	int r = limits_of_key(f, key_id, &limits, e);

	if (r < 0)
		return r;
	max = limits_sizes(&limits);
	if (check_size(settings, "cpus", s.cpus, 1, max.cpus, e) < 0 ||
		check_size(settings, "memory", s.memory_mb, SANDBOX_MEMORY_MB_MIN,
			max.memory_bytes / MIB, e) < 0 ||
		check_size(settings, "disk", s.disk_mb, 1, max.disk_bytes / MIB, e) < 0 ||
		check_timeout(settings, s.timeout_s, limits.max_timeout_ns, e) < 0)
		return -ERANGE;
	s.cpus = at_most(s.cpus, max.cpus);
	s.memory_mb = at_most(s.memory_mb, max.memory_bytes / MIB);
	s.disk_mb = at_most(s.disk_mb, max.disk_bytes / MIB);
	if (s.cpus > 1 && s.cpus % 2)
		return error_set(e, ERROR_LIMIT, ERANGE, "cpus must be 1 or an even number");
	if (s.memory_mb % 2 && json_object_get(settings, "memory"))
		return error_set(e, ERROR_LIMIT, ERANGE, "memory must be an even number of MB");
	s.memory_mb -= s.memory_mb % 2; /* the key's maximum */
	*ret = s;
	return 0;
}

static int write_object(const json_t *settings, const char *name, char *out, size_t n)
{
	const json_t *v = json_object_get(settings, name);
	size_t bytes = v ? json_dumpb(v, out, n - 1, JSON_COMPACT) : 2;

	if (!v)
		memcpy(out, "{}", 3);
	if (!bytes || bytes >= n)
		return -E2BIG;
	out[bytes] = '\0';
	return 0;
}

static int take_settings(struct fleet *f, const char *key_id, const json_t *settings,
	struct store_agent_version *v, struct error *e)
{
	struct agent_sizes s = {0};
	int r = take_sizes(f, key_id, settings, &s, e);

	if (r < 0)
		return r;
	v->cpus = s.cpus;
	v->memory_mb = s.memory_mb;
	v->disk_mb = s.disk_mb;
	v->timeout_s = s.timeout_s;
	v->concurrency = s.concurrency;
	r = write_object(settings, "env", v->env_json, sizeof(v->env_json));
	if (r == 0)
		r = write_object(settings, "secrets", v->secrets_json, sizeof(v->secrets_json));
	return r < 0 ? error_set(e, ERROR_LIMIT, -r, "env or secrets are too long") : 0;
}

/* What the build does not know: see agents_warm_answer(), and "diskMB", the size of the disk. */
static int answer(struct fleet *f, const struct store_build *b, const json_t *said, json_t **ret,
	struct error *e)
{
	struct agent_sizes s = {0};
	int r = take_sizes(f, b->key_id, json_object_get(said, "settings"), &s, e);

	if (r == 0)
		r = agents_warm_answer(f, b, said, ret, e);
	if (r < 0 || json_object_set_new(*ret, "diskMB", json_integer(s.disk_mb)) == 0)
		return r;
	json_decref(*ret);
	return error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");
}

/* --- the end of a build --- */

static void forget(struct fleet *f, const char *build_id)
{
	struct agent_build **p = &f->agents->builds, *b;

	while (*p && strcmp((*p)->build_id, build_id) != 0)
		p = &(*p)->next;
	b = *p;
	if (!b)
		return;
	*p = b->next;
	if (*b->upload)
		uploads_drop(catalog_uploads(f), b->key_id, b->upload);
	free(b);
}

/* What its process said. */
static int take_said(struct fleet *f, const struct store_build *b, const json_t *said,
	struct store_agent_version *v, struct error *e)
{
	const json_t *settings = json_object_get(said, "settings");
	const char *kind = json_tree_text(said, "kind"), *entry = json_tree_text(said, "entry"),
		   *dir = json_tree_text(said, "dir"), *user = json_tree_text(said, "user");

	if (!*kind || !*entry || !*user || strlen(kind) > STORE_AGENT_KIND_MAX ||
		strlen(entry) > STORE_AGENT_ENTRY_MAX || strlen(dir) > STORE_AGENT_DIR_MAX ||
		strlen(user) > STORE_AGENT_USER_MAX)
		return error_set(e, ERROR_LIMIT, EINVAL,
			"the agent's command, directory or user is missing or too long");
	v->protocol = strcmp(json_tree_text(said, "protocol"), "http") == 0 ? STORE_AGENT_HTTP
									    : STORE_AGENT_STDIN;
	(void)snprintf(v->kind, sizeof(v->kind), "%s", kind); /* these fit */
	(void)snprintf(v->entry, sizeof(v->entry), "%s", entry);
	(void)snprintf(v->dir, sizeof(v->dir), "%s", dir);
	(void)snprintf(v->user, sizeof(v->user), "%s", user);
	return settings ? take_settings(f, b->key_id, settings, v, e) : 0;
}

static int on_ready(
	struct fleet *f, const struct store_build *b, const json_t *said, struct error *e)
{
	struct store_agent_version *v = calloc(1, sizeof(*v));
	uint64_t now = clock_realtime_ns();
	struct store_agent a;
	int r = v ? store_agent_version_of_build(f->store, b->id, v, e)
		  : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	if (r == 0)
		r = take_said(f, b, said, v, e);
	if (r == 0 && *json_tree_text(said, "cold"))
		r = store_agent_cold_set(f->store, b->id, json_tree_text(said, "cold"), e);
	if (r == 0)
		r = store_agent_get(f->store, v->agent_id, &a, e);
	if (r == 0) {
		v->finished_ns = now;
		r = store_agent_version_ready(f->store, v, e);
	}
	/* builds of a key run one after the other */
	if (r == 0 && v->number > a.current)
		r = store_agent_set_current(f->store, a.id, v->number, now, e);
	free(v);
	return r;
}

static void on_ended(struct fleet *f, const char *build_id, const char *step, const char *reason)
{
	struct store_agent_version *v = malloc(sizeof(*v));
	struct error e = {0};
	int r = v ? store_agent_version_of_build(f->store, build_id, v, &e) : -ENOMEM;

	forget(f, build_id);
	if (r == 0 && reason)
		r = store_agent_version_end(f->store, v->agent_id, v->number, STORE_AGENT_FAILED,
			clock_realtime_ns(), reason, step, &e);
	else if (r == 0)
		agents_tidy(f, v->agent_id);
	if (r < 0 && e.code != ERROR_NOT_FOUND) /* the agent was removed */
		log_error("cannot record the end of an agent's build: %s build=%s", e.message,
			build_id);
	free(v);
}

void agents_watch_builds(struct fleet *f)
{
	static const struct build_watch watch = {
		.said = answer, .ready = on_ready, .ended = on_ended};

	jobs_watch(f, &watch);
}

/* --- a new version --- */

static int add_rows(struct fleet *f, const struct agent_order *o, struct store_agent *ret,
	struct store_build *b, struct store_agent_version *v, struct error *e)
{
	struct store *s = f->store;
	int r = store_begin(s, e);

	if (r == 0)
		r = store_agent_put(s, o->key_id, o->name, v->created_ns, ret, e);
	(void)snprintf(b->tags_json, sizeof(b->tags_json), "[\"v%u\"]", ret->last + 1); /* fits */
	memcpy(b->template_id, ret->id, sizeof(b->template_id));
	memcpy(v->agent_id, ret->id, sizeof(v->agent_id));
	if (r == 0)
		r = store_build_add(s, b, b->id, e);
	memcpy(v->build_id, b->id, sizeof(v->build_id));
	if (r == 0)
		r = store_agent_version_add(s, v, &v->number, e);
	if (r == 0)
		r = store_commit(s, e);
	if (r < 0)
		store_rollback(s);
	return r;
}

static json_t *make_spec(struct fleet *f, const struct agent_order *o, const struct store_build *b)
{
	char file[UPLOAD_NAME_BYTES] = "";
	_cleanup_free_ char *path = NULL;

	if (o->upload) {
		upload_name(o->key_id, o->upload, file);
		path = str_printf("%s/uploads/%s", f->home.path, file);
	}
	return json_pack("{s:s, s:s, s:I, s:I, s:i, s:I, s:{s:O, s:s*, s:s*, s:s*, s:s}}", "build",
		b->id, "template", b->template_id, "cpus", (json_int_t)b->cpus, "memoryMB",
		(json_int_t)b->memory_mb, "freeMB", 0, "reserveBytes",
		(json_int_t)f->options.kept.reserve_bytes, "agent", "settings", o->settings,
		"files", path, "base", o->base, "registry", f->options.build_registry, "caches",
		o->key_id);
}

static int remember(struct fleet *f, const struct agent_order *o, const char *build_id)
{
	struct agent_build *b = calloc(1, sizeof(*b));

	if (!b)
		return -ENOMEM;
	(void)snprintf(b->build_id, sizeof(b->build_id), "%s", build_id); /* these fit */
	(void)snprintf(b->key_id, sizeof(b->key_id), "%s", o->key_id);
	(void)snprintf(b->upload, sizeof(b->upload), "%s", o->upload ? o->upload : "");
	b->next = f->agents->builds;
	f->agents->builds = b;
	return 0;
}

/* What cannot be queued has failed. */
static int queue(
	struct fleet *f, const struct agent_order *o, const struct store_build *b, struct error *e)
{
	json_t *spec = make_spec(f, o, b);
	int r = spec && remember(f, o, b->id) == 0
			? jobs_add(f, b, spec, e)
			: error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	json_decref(spec);
	if (r < 0) {
		(void)store_build_finish(f->store, b->id, STORE_BUILD_FAILED, clock_realtime_ns(),
			0, e->message, "", NULL); /* the caller is told */
		on_ended(f, b->id, "", e->message);
	}
	return r;
}

int agents_deploy(struct fleet *f, const struct agent_order *o, struct store_agent *ret,
	uint32_t *ret_number, struct error *e)
{
	struct store_agent_version *v = calloc(1, sizeof(*v));
	struct store_build *b = calloc(1, sizeof(*b));
	int r = v && b ? take_settings(f, o->key_id, o->settings, v, e)
		       : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	if (r == 0)
		r = jobs_check_room(f, o->key_id, e); /* before there are rows */
	if (r == 0) {
		v->created_ns = b->created_ns = clock_realtime_ns();
		b->cpus = v->cpus;
		b->memory_mb = v->memory_mb;
		(void)snprintf(b->key_id, sizeof(b->key_id), "%s", o->key_id); /* a UUID */
		r = add_rows(f, o, ret, b, v, e);
	}
	if (r < 0 && o->upload)
		uploads_drop(catalog_uploads(f), o->key_id, o->upload);
	if (r == 0) {
		*ret_number = v->number;
		r = queue(f, o, b, e);
	}
	free(v);
	free(b);
	return r;
}
