#include "fleet/instances.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "daemon/daemon.h"
#include "daemon/webhooks.h"
#include "proto/route.h"
#include "proto/json_tree.h"
#include "store/webhooks.h"

enum { STAT_MAX = 4096, STAT_START_FIELD = 22 };

/* --- what others see --- */

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

const char *instance_user(const struct instance *i)
{
	return i->sandbox.user;
}

const char *instance_workdir(const struct instance *i)
{
	return i->sandbox.workdir;
}

int instance_dirfd(const struct instance *i)
{
	return i->sandbox.dirfd;
}

int instance_agent_connect(struct instance *i, const struct agent_link_ops *ops, void *arg,
	struct agent_link **ret, struct error *e)
{
	return agent_link_open(i->daemon->loop, i->sandbox.dirfd, ops, arg, ret, e);
}

/* --- the table --- */

static unsigned bucket_of(const char *id)
{
	uint32_t h = 2166136261u; /* FNV-1a; ids are random and ours */

	while (*id)
		h = (h ^ (uint8_t)*id++) * 16777619u;
	return h % INSTANCE_BUCKETS;
}

struct instance *instance_find(struct daemon *d, const char *id)
{
	struct instance *i = d->instances->buckets[bucket_of(id)];

	while (i && strcmp(i->sandbox.id, id) != 0)
		i = i->next;
	return i;
}

int instance_each(struct daemon *d, int (*fn)(struct instance *i, void *arg), void *arg)
{
	for (unsigned b = 0; b < INSTANCE_BUCKETS; b++)
		for (struct instance *i = d->instances->buckets[b], *next; i; i = next) {
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

void instance_enter(struct instance *i)
{
	struct instances *all = i->daemon->instances;
	struct instance **bucket = &all->buckets[bucket_of(i->sandbox.id)];

	instance_leave(i);
	i->state = INSTANCE_RUNNING;
	i->next = *bucket;
	*bucket = i;
	all->running++;
}

void instance_leave(struct instance *i)
{
	struct instances *all = i->daemon->instances;

	if (i->state == INSTANCE_RUNNING && take_out(&all->buckets[bucket_of(i->sandbox.id)], i))
		all->running--;
	else
		(void)take_out(&all->other, i); /* may be in none */
}

void instance_set_aside(struct instance *i, enum instance_state state)
{
	struct instances *all = i->daemon->instances;

	instance_leave(i);
	i->state = state;
	i->next = all->other;
	all->other = i;
}

struct instance *instance_new(struct daemon *d)
{
	struct instance *i = calloc(1, sizeof(*i));

	if (!i)
		return NULL;
	i->daemon = d;
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
	free_secret(i->envd_token);
	free_secret(i->traffic_token);
	free_secret(i->network_json);
	free_secret(i->env_json);
	free(i);
}

static void on_death_closed(uv_handle_t *h)
{
	release(h->data);
}

void instance_free(struct instance *i)
{
	instance_leave(i);
	if (i->promised.cpus)
		quota_release(&i->daemon->instances->quota, &i->promised);
	agent_link_close(i->link);
	i->link = NULL;
	if (!i->watched) {
		release(i);
		return;
	}
	(void)uv_poll_stop(&i->death); /* always 0 */
	uv_close((uv_handle_t *)&i->death, on_death_closed);
}

/* --- processes --- */

uint64_t instance_process_start(pid_t pid)
{
	_cleanup_free_ char *path = str_printf("/proc/%d/stat", (int)pid);
	_cleanup_free_ char *text = NULL;
	const char *p;

	if (!path || file_read(AT_FDCWD, path, STAT_MAX, &text, NULL) < 0)
		return 0;
	/* the name in parentheses, field 2, may hold anything */
	p = strrchr(text, ')');
	for (int field = 2; p && field < STAT_START_FIELD; field++)
		p = strchr(p + 1, ' ');
	return p ? strtoull(p + 1, NULL, 10) : 0;
}

/* --- environment --- */

static bool add_entry(char **env, size_t *n, char *entry)
{
	size_t name;

	if (!entry)
		return false;
	name = strcspn(entry, "=") + 1;
	for (size_t k = 0; k < *n; k++)
		if (strncmp(env[k], entry, name) == 0) {
			free(env[k]);
			env[k] = entry;
			return true;
		}
	env[(*n)++] = entry;
	return true;
}

/* Later ones win: the template's, ours, the request's. */
char **instance_environment(const struct instance *i)
{
	json_t *own = json_tree_stored(i->env_json), *value;
	size_t n = 0, count = 0;
	const char *key;
	char **env;
	bool ok;

	for (char **p = i->sandbox.env; p && *p; p++)
		count++;
	env = calloc(count + json_object_size(own) + 4, sizeof(*env));
	ok = env != NULL;
	for (char **p = i->sandbox.env; ok && p && *p; p++)
		ok = add_entry(env, &n, strdup(*p));
	ok = ok && add_entry(env, &n, strdup("E2B_SANDBOX=true")) &&
	     add_entry(env, &n, str_printf("E2B_SANDBOX_ID=%s", i->sandbox.id)) &&
	     add_entry(env, &n, str_printf("E2B_TEMPLATE_ID=%s", i->template.id));
	json_object_foreach(own, key, value) ok =
		ok && add_entry(env, &n, str_printf("%s=%s", key, json_string_value(value)));
	json_decref(own);
	if (ok)
		return env;
	for (size_t k = 0; k < n; k++)
		free(env[k]);
	free(env);
	return NULL;
}

/* --- events --- */

void instance_note_event(struct daemon *d, const char *id, const char *key_id, const char *template,
	enum store_event_type type, const char *details_json)
{
	const struct store_event ev = {
		.type = type,
		.at_ns = clock_realtime_ns(),
		.sandbox_id = id,
		.key_id = key_id,
		.template_id = template,
		.details_json = details_json,
	};
	/* its row is there: events are noted in the commit that makes or changes it */
	_cleanup_(store_sandbox_freep) struct store_sandbox *sb = NULL;
	_cleanup_free_ char *payload = NULL;
	unsigned receivers = 0;
	struct error e = {0};
	int r;

	(void)store_sandbox_get(d->store, id, &sb, NULL); /* without a row it has no build */
	payload = webhook_payload(&ev, sb ? sb->build_id : NULL);
	r = payload ? store_event_publish(d->store, &ev, payload, ev.at_ns, &receivers, &e)
		    : error_set(&e, ERROR_INTERNAL, ENOMEM, "out of memory");

	if (receivers)
		webhooks_wake(d);
	if (r < 0)
		log_warn("cannot note that a sandbox was %s: %s sandbox=%s",
			store_event_type_name(type), e.message, id);
}
