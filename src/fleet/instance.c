#include "fleet/instance.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "fleet/fleet.h"
#include "proto/json_tree.h"
#include "store/sandboxes.h"

/* --- accessors --- */

const char *instance_id(const struct instance *i)
{
	return i->sandbox.id;
}

const char *instance_key_id(const struct instance *i)
{
	return i->key_id;
}

const char *instance_template(const struct instance *i)
{
	return i->sandbox.template;
}

const char *instance_template_id(const struct instance *i)
{
	return i->template.id;
}

const char *instance_shown_template_id(const struct instance *i)
{
	return *i->snapshot_id ? i->snapshot_id : i->template.id;
}

bool instance_is_revoked(const struct instance *i)
{
	return i->revoked;
}

const char *instance_envd_token(const struct instance *i)
{
	return i->envd_token;
}

const char *instance_traffic_token(const struct instance *i)
{
	return i->traffic_token;
}

const char *instance_network_json(const struct instance *i)
{
	return i->network_json;
}

const char *instance_env_json(const struct instance *i)
{
	return i->env_json;
}

int instance_dirfd(const struct instance *i)
{
	return i->sandbox.dirfd;
}

int instance_agent_connect(struct instance *i, enum link_places places,
	const struct agent_link_ops *ops, void *arg, struct agent_link **ret, struct error *e)
{
	struct agent_way way = {.dirfd = i->sandbox.dirfd, .places = places};

	if (places != LINK_OWN) {
		i->gate = i->gate ? i->gate : gate_new(i->fleet->loop);
		if (!i->gate)
			return error_set(e, ERROR_INTERNAL, ENOMEM, "out of memory");
		way.gate = i->gate;
	}
	return agent_link_open(i->fleet->loop, &way, ops, arg, ret, e);
}

/* --- the table --- */

static unsigned bucket_of(const char *id)
{
	return str_hash64(id) % FLEET_BUCKETS; /* ids are random, and we choose them */
}

struct instance *instance_find(struct fleet *f, const char *id)
{
	struct instance *i = f->buckets[bucket_of(id)];

	while (i && strcmp(i->sandbox.id, id) != 0)
		i = i->next;
	return i;
}

int instance_each(struct fleet *f, int (*fn)(struct instance *i, void *arg), void *arg)
{
	for (unsigned b = 0; b < FLEET_BUCKETS; b++)
		for (struct instance *i = f->buckets[b], *next; i; i = next) {
			int r;

			next = i->next;
			r = fn(i, arg);
			if (r)
				return r;
		}
	return 0;
}

static bool take_out(struct instance **list, struct instance *i)
{
	for (; *list; list = &(*list)->next)
		if (*list == i) {
			*list = i->next;
			i->next = NULL;
			return true;
		}
	return false;
}

/* Removes it from its table or list. */
static void leave(struct instance *i)
{
	struct fleet *f = i->fleet;

	if (i->state == INSTANCE_RUNNING && take_out(&f->buckets[bucket_of(i->sandbox.id)], i))
		f->running--;
	else
		(void)take_out(&f->other, i); /* may be in neither */
}

void instance_enter(struct instance *i)
{
	struct fleet *f = i->fleet;
	struct instance **bucket = &f->buckets[bucket_of(i->sandbox.id)];

	leave(i);
	i->state = INSTANCE_RUNNING;
	i->next = *bucket;
	*bucket = i;
	f->running++;
}

void instance_set_aside(struct instance *i, enum instance_state state)
{
	struct fleet *f = i->fleet;

	leave(i);
	i->state = state;
	i->next = f->other;
	f->other = i;
}

struct instance *instance_new(struct fleet *f)
{
	struct instance *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->fleet = f;
	i->pid_fd = -1;
	i->sandbox.dirfd = -1;
	i->work.data = i;
	instance_set_aside(i, INSTANCE_CREATING);
	return i;
}

static void free_secret(char *s)
{
	if (s)
		explicit_bzero(s, strlen(s));
	free(s);
}

static void release(struct instance *i)
{
	cleanup_close_p(&i->pid_fd);
	vmm_release(i->sandbox.vmm);
	backend_sandbox_done(&i->sandbox);
	free(i->key_id);
	free(i->end_text);
	free_secret(i->envd_token);
	free_secret(i->traffic_token);
	free_secret(i->network_json);
	free(i->network_names_json);
	free(i->files_outside_json);
	free(i->secrets_json);
	free(i->iam_json);
	free(i->authority);
	free_secret(i->env_json);
	free(i);
}

static void on_death_closed(uv_handle_t *h)
{
	release(h->data);
}

void instance_free(struct instance *i)
{
	leave(i);
	if (i->promised.cpus)
		quota_release(&i->fleet->quota, &i->promised);
	agent_link_close(i->link);
	i->link = NULL;
	gate_close(TAKE_PTR(i->gate));
	if (i->reports)
		i->reports_close(TAKE_PTR(i->reports));
	if (i->trust)
		i->trust_close(TAKE_PTR(i->trust), true);
	if (i->egress)
		i->egress_close(TAKE_PTR(i->egress), !i->fleet->stopping);
	if (!i->watched) {
		release(i);
		return;
	}
	(void)uv_poll_stop(&i->death); /* always 0 */
	uv_close((uv_handle_t *)&i->death, on_death_closed);
}

/* --- processes --- */

int instance_watch_process(
	struct fleet *f, pid_t pid, uv_poll_t *h, int *ret_fd, uv_poll_cb died, struct error *e)
{
	_cleanup_close_ int fd = (int)syscall(SYS_pidfd_open, pid, 0);
	int r;

	if (fd < 0)
		return error_set_errno(e, ERROR_SANDBOX, errno, "the sandbox's process");
	r = uv_poll_init(f->loop, h, fd);
	if (r < 0)
		return error_set(e, ERROR_INTERNAL, -r, "cannot watch the sandbox's process");
	(void)uv_poll_start(h, UV_READABLE, died); /* fails only for closed handles */
	*ret_fd = TAKE_FD(fd);
	return 0;
}

/* --- waiters --- */

struct instance *instance_find_unsettled(struct fleet *f, const char *id)
{
	struct instance *i = f->other;

	/* nobody can know the id of a new sandbox that is still being made */
	while (i && strcmp(i->state == INSTANCE_CREATING ? i->returning : i->sandbox.id, id) != 0)
		i = i->next;
	return i;
}

void instance_wait(struct instance *i, struct instance_waiter *w)
{
	w->next = i->waiters;
	i->waiters = w;
}

static bool take_waiter_out(struct instance_waiter **list, const struct instance_waiter *w)
{
	for (; *list; list = &(*list)->next)
		if (*list == w) {
			*list = w->next;
			return true;
		}
	return false;
}

void instance_unwait(struct fleet *f, struct instance_waiter *w)
{
	for (struct instance *i = f->other; i; i = i->next)
		if (take_waiter_out(&i->waiters, w))
			return;
	for (unsigned b = 0; b < FLEET_BUCKETS; b++)
		for (struct instance *i = f->buckets[b]; i; i = i->next)
			if (take_waiter_out(&i->waiters, w))
				return;
}

void instance_wake(struct instance_waiter *list, const struct error *why)
{
	while (list) {
		struct instance_waiter *w = list;

		list = w->next;
		w->next = NULL;
		w->settled(w->arg, why);
	}
}

void instance_settled(struct instance *i)
{
	instance_wake(TAKE_PTR(i->waiters), NULL);
}

/* Adds what most sandboxes do not have. */
static int add_rare(json_t *x, const struct instance *i)
{
	int r = 0;

	if (i->files_outside_json)
		r = json_object_set_new(
			x, STORE_EXTRA_FILES_OUTSIDE, json_loads(i->files_outside_json, 0, NULL));
	if (r == 0 && *i->snapshot_id)
		r = json_object_set_new(x, STORE_EXTRA_SNAPSHOT, json_string(i->snapshot_id));
	if (r == 0 && i->freeze.left_ns)
		r = json_object_set_new(
			x, STORE_EXTRA_FROZEN_LEFT, json_integer((json_int_t)i->freeze.left_ns));
	if (r == 0 && i->freeze.left_ns)
		r = json_object_set_new(
			x, STORE_EXTRA_FROZEN_END, json_integer((json_int_t)i->freeze.end_ns));
	if (r == 0 && i->freeze.to_disk)
		r = json_object_set_new(x, STORE_EXTRA_WAITS, json_true());
	return r;
}

char *instance_extra(const struct instance *i, bool transient, bool unresponsive)
{
	json_t *x = json_pack("{s:s, s:s, s:s, s:b, s:b}", "user", i->sandbox.user, "workdir",
		i->sandbox.workdir, "network", i->sandbox.network ? i->sandbox.network : "",
		STORE_EXTRA_TRANSIENT, transient, STORE_EXTRA_UNRESPONSIVE, unresponsive);
	char *text = x && add_rare(x, i) == 0 ? json_dumps(x, JSON_COMPACT) : NULL;

	json_decref(x);
	return text;
}

json_t *instance_files_outside(const struct store_sandbox *row)
{
	json_t *extra = json_tree_stored(row->extra_json);
	json_t *list = json_incref(json_object_get(extra, STORE_EXTRA_FILES_OUTSIDE));

	json_decref(extra);
	return list;
}

void instance_snapshot_of(const struct store_sandbox *row, char ret[STORE_SNAPSHOT_ID_BYTES])
{
	const char *id;
	json_t *extra;

	*ret = '\0';
	if (!row->extra_json || !strstr(row->extra_json, "\"" STORE_EXTRA_SNAPSHOT "\""))
		return; /* most have none, and lists are long */
	extra = json_tree_stored(row->extra_json);
	id = json_string_value(json_object_get(extra, STORE_EXTRA_SNAPSHOT));
	if (id)
		(void)snprintf(ret, STORE_SNAPSHOT_ID_BYTES, "%s", id); /* from the store: fits */
	json_decref(extra);
}

bool instance_waits_on_disk(const struct store_sandbox *row)
{
	return row->state == STORE_PAUSED && row->extra_json &&
	       strstr(row->extra_json, "\"" STORE_EXTRA_WAITS "\":true");
}

bool instance_traffic_resumes(const struct store_sandbox *row)
{
	bool unresponsive =
		row->extra_json && strstr(row->extra_json, "\"" STORE_EXTRA_UNRESPONSIVE "\":true");

	return row->auto_resume && row->pause_memory && !unresponsive;
}
