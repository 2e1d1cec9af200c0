#include "catalog/catalog.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/log.h"
#include "catalog/catalog_internal.h"
#include "catalog/jobs.h"
#include "catalog/uploads.h"
#include "image/workdir.h"
#include "proto/route.h"
#include "sandbox/cgroup_build.h"
#include "store/builds.h"
#include "store/keys.h"
#include "store/tags.h"

enum { DROP_LATER_MS = 60 * 1000 };

/* --- what is removed --- */

struct catalog_removal {
	struct catalog *catalog;
	struct catalog_removal *next;
	uv_timer_t timer;
	uv_work_t work;
	int image_area, template_area, step_area;
	char id[STORE_UUID_BYTES];  /* "": only what killed builds left */
	char key[STORE_UUID_BYTES]; /* whose kept steps go, or "" */
};

static void remove_work(uv_work_t *w)
{
	const struct catalog_removal *m = w->data;

	/* what stays because of a failure, the next start removes */
	if (*m->id) {
		(void)workdir_remove(m->template_area, m->id);
		(void)workdir_remove(m->image_area, m->id);
	}
	if (*m->key)
		workdir_remove_owned(m->step_area, m->key);
	workdir_sweep(m->template_area);
	workdir_sweep(m->image_area);
	workdir_sweep(m->step_area);
}

static void after_remove(uv_work_t *w, int status)
{
	free(w->data);
}

static void start_removal(struct catalog_removal *m)
{
	m->work.data = m;
	(void)uv_queue_work(
		m->catalog->fleet->loop, &m->work, remove_work, after_remove); /* cannot fail */
}

/* Whether a tag leads to the files of a build. If the store cannot tell, they stay. */
static bool is_used(struct fleet *f, const char *id)
{
	struct store_build b = {0};
	struct error why = {0};
	uint64_t tags = 0;
	bool known = store_build_get(f->store, id, &b, &why) == 0;

	if (!known && why.code != ERROR_NOT_FOUND)
		return true;
	if (!known || b.status != STORE_BUILD_READY)
		return false;
	return store_tag_count_of(f->store, b.template_id, id, &tags, NULL) < 0 || tags > 0;
}

static void on_timer_closed(uv_handle_t *h)
{
	struct catalog_removal *m = h->data;

	/* what is not removed now, the next start removes */
	if (m->catalog->stopping || is_used(m->catalog->fleet, m->id))
		free(m);
	else
		start_removal(m);
}

static void on_removal_due(uv_timer_t *t)
{
	struct catalog_removal *m = t->data;
	struct catalog_removal **p = &m->catalog->removals;

	if (jobs_use(m->catalog, m->id)) {
		(void)uv_timer_start(t, on_removal_due, DROP_LATER_MS, 0); /* cannot fail */
		return;
	}
	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	uv_close((uv_handle_t *)t, on_timer_closed);
}

static struct catalog_removal *removal_of(struct fleet *f, const char *build_id)
{
	struct catalog_removal *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL; /* the next start removes it */
	m->catalog = f->catalog;
	m->image_area = f->home.area_fd[HOME_IMAGES];
	m->template_area = f->home.area_fd[HOME_TEMPLATES];
	m->step_area = f->home.area_fd[HOME_STEPS];
	(void)snprintf(m->id, sizeof(m->id), "%s", build_id); /* ours: fits */
	return m;
}

static struct catalog_removal *waiting_removal(struct catalog *c, const char *build_id)
{
	struct catalog_removal *m = c->removals;

	while (m && strcmp(m->id, build_id) != 0)
		m = m->next;
	return m;
}

struct uploads *catalog_uploads(const struct fleet *f)
{
	return f->catalog->uploads;
}

void catalog_drop_later(struct fleet *f, const char *build_id)
{
	struct catalog_removal *m = waiting_removal(f->catalog, build_id);

	if (m) {								   /* from now on */
		(void)uv_timer_start(&m->timer, on_removal_due, DROP_LATER_MS, 0); /* cannot fail */
		return;
	}
	m = removal_of(f, build_id);
	if (!m)
		return;
	m->next = f->catalog->removals;
	f->catalog->removals = m;
	m->timer.data = m;
	(void)uv_timer_init(f->loop, &m->timer); /* these cannot fail */
	(void)uv_timer_start(&m->timer, on_removal_due, DROP_LATER_MS, 0);
}

bool catalog_keep(struct fleet *f, const struct store_build *b)
{
	if (b->status != STORE_BUILD_READY)
		return false;
	if (waiting_removal(f->catalog, b->id)) {
		catalog_drop_later(f, b->id); /* from now on */
		return true;
	}
	return is_used(f, b->id);
}

void catalog_drop(struct fleet *f, const char *build_id)
{
	struct catalog_removal *m;

	if (jobs_use(f->catalog, build_id)) {
		catalog_drop_later(f, build_id);
		return;
	}
	m = removal_of(f, build_id);
	if (m)
		start_removal(m);
}

void catalog_drop_steps(struct fleet *f, const char *key_id)
{
	struct catalog_removal *m = removal_of(f, "");

	if (!m || f->catalog->stopping) {
		free(m); /* the next start removes them */
		return;
	}
	(void)snprintf(m->key, sizeof(m->key), "%s", key_id); /* ours: fits */
	start_removal(m);
}

/* --- what an earlier daemon left --- */

static void sweep(struct fleet *f, enum home_area area, bool keep_used)
{
	char **names = NULL;

	if (workdir_list(f->home.area_fd[area], &names) < 0)
		return; /* the next start tries again */
	for (char **n = names; *n; n++)
		if (route_is_uuid(*n) && !(keep_used && is_used(f, *n)))
			(void)workdir_remove(f->home.area_fd[area], *n); /* as above */
	workdir_list_free(names);
}

/* --- start and stop --- */

static bool key_is_gone(void *opaque, const char *key_id)
{
	struct fleet *f = opaque;
	_cleanup_(store_key_freep) struct store_key *key = NULL;
	struct error why = {0};

	if (store_key_get(f->store, key_id, &key, &why) < 0)
		return why.code == ERROR_NOT_FOUND;
	return key->revoked_ns != 0;
}

/* Kept steps are <key id>.<digest>; the operator's have no owner (build/step_cache.h). */
static void sweep_steps(struct fleet *f)
{
	char **names = NULL;

	if (workdir_list(f->home.area_fd[HOME_STEPS], &names) < 0)
		return; /* the next start tries again */
	for (char **n = names; *n; n++) {
		char *dot = strchr(*n, '.'), id[STORE_UUID_BYTES] = "";

		if (dot && dot - *n < (ptrdiff_t)sizeof(id))
			memcpy(id, *n, (size_t)(dot - *n));
		if (route_is_uuid(id) && key_is_gone(f, id))
			(void)workdir_remove(f->home.area_fd[HOME_STEPS], *n); /* as above */
	}
	workdir_list_free(names);
}

int catalog_start(struct fleet *f, struct error *e)
{
	struct catalog *c = calloc(1, sizeof(*c));
	int r;

	if (!c)
		return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
	f->catalog = c;
	c->fleet = f;
	c->retry.data = c->look.data = c;
	(void)uv_timer_init(f->loop, &c->retry); /* these cannot fail */
	(void)uv_timer_init(f->loop, &c->look);
	cgroup_build_sweep(f->dirs.cgroups);
	r = uploads_open(f->home.fd, f->options.kept.reserve_bytes, &c->uploads, e);
	if (r == 0)
		r = store_build_fail_open(f->store, clock_realtime_ns(),
			"the daemon was restarted during the build: build it again", e);
	if (r < 0)
		return r;
	uploads_forget_keys(c->uploads, key_is_gone, f);
	sweep(f, HOME_IMAGES, false);
	sweep(f, HOME_TEMPLATES, true);
	sweep_steps(f);
	catalog_drop(f, ""); /* a dying build may still lock what it has */
	catalog_drop_later(f, "");
	return 0;
}

static void on_removal_stopped(uv_handle_t *h)
{
	free(h->data);
}

void catalog_stop(struct fleet *f)
{
	struct catalog *c = f->catalog;

	if (!c || c->stopping)
		return;
	c->stopping = true;
	uv_close((uv_handle_t *)&c->retry, NULL);
	uv_close((uv_handle_t *)&c->look, NULL);
	for (struct catalog_removal *m = c->removals, *next; m; m = next) {
		next = m->next;
		uv_close((uv_handle_t *)&m->timer, on_removal_stopped);
	}
	jobs_stop(c);
}

void catalog_free(struct fleet *f)
{
	if (!f->catalog)
		return;
	uploads_close(f->catalog->uploads);
	free(f->catalog);
	f->catalog = NULL;
}
