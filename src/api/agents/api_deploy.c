/* PUT /agents/{name}: an archive as the body, with settings in the query, or an object that names a
 * template. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agents/agents.h"
#include "agents/deploy.h"
#include "agents/reach.h"
#include "agents/warm.h"
#include "api/agents/agent_json.h"
#include "api/api.h"
#include "api/auth.h"
#include "api/template/receive.h"
#include "base/cleanup.h"
#include "catalog/catalog.h"
#include "catalog/uploads.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "image/template.h"
#include "proto/agent_settings.h"
#include "proto/json_tree.h"
#include "store/keys.h"

enum { SETTINGS_BYTES_MAX = 48 * 1024 };

struct deploying {
	char name[STORE_CATALOG_NAME_MAX + 1];
	json_t *settings;	       /* owned */
	char base[STORE_NAME_MAX + 1]; /* directory of a template, or "" */
	char upload[UPLOAD_HASH_BYTES];
};

static void deploying_free(void *arg)
{
	struct deploying *d = arg;

	if (d)
		json_decref(d->settings);
	free(d);
}

/* --- what the client says --- */

static bool take_name(struct request *r, struct deploying *d)
{
	struct agent_ref ref;
	const char *reason = "";

	if (agent_ref_parse(r->params[0], &ref, &reason) < 0 || *ref.alias || ref.version) {
		reply_error(r, 400, "%s", *ref.alias || ref.version ? "give a name alone" : reason);
		return false;
	}
	memcpy(d->name, ref.name, sizeof(d->name));
	return true;
}

/* Takes `template` out of the settings. */
static bool take_template(struct request *r, struct deploying *d)
{
	const char *name = json_tree_word(d->settings, "template");
	struct found_template found;
	struct template_ref ref;
	struct error e = {0};
	_cleanup_close_ int fd = -1;

	if (!json_object_get(d->settings, "template"))
		return true;
	if (!name) {
		reply_error(r, 400, "template must be the name of a template");
		return false;
	}
	if (!api_usable_template(r, name, &ref, &found))
		return false;
	if (find_directory(fleet_of(r), &found, &ref, d->base, &e) < 0 ||
		(fd = template_open(&fleet_of(r)->home, d->base, &e)) < 0) {
		reply_failure(r, &e);
		return false;
	}
	(void)json_object_del(d->settings, "template"); /* it is there */
	return true;
}

/* Checks them as a creation would. The build makes the placeholders (agents/warm.h). */
static int check_secrets(struct request *r, const json_t *settings, struct error *e)
{
	json_t *secrets = json_object_get(settings, "secrets"), *env = json_object(), *kept = NULL;
	const char *plain;
	int err = env ? agents_take_secrets(fleet_of(r), r->key->id, secrets, env, &kept, &plain, e)
		      : error_set(e, ERROR_NO_SPACE, ENOMEM, "out of memory");

	json_decref(env);
	json_decref(kept);
	return err;
}

static int check_reach(struct request *r, const json_t *settings, struct error *e)
{
	json_t *reach = NULL;
	int err = agents_reach_make(fleet_of(r), r->key->id, settings, &reach, e);

	json_decref(reach);
	return err;
}

static bool check(struct request *r, struct deploying *d)
{
	struct error e = {0};

	if (!take_template(r, d))
		return false;
	if (agent_settings_check(d->settings, &e) == 0 && check_secrets(r, d->settings, &e) == 0 &&
		check_reach(r, d->settings, &e) == 0)
		return true;
	reply_failure(r, &e);
	return false;
}

/* --- the version --- */

static void deploy(struct request *r, const struct deploying *d)
{
	const struct agent_order o = {.key_id = r->key->id,
		.name = d->name,
		.settings = d->settings,
		.upload = *d->upload ? d->upload : NULL,
		.base = *d->base ? d->base : NULL};
	_cleanup_free_ struct store_agent_version *v = calloc(1, sizeof(*v));
	struct store_agent a = {.name = ""};
	struct error e = {0};
	uint32_t number = 0;

	if (!v)
		(void)error_set(&e, ERROR_NO_SPACE, ENOMEM, "out of memory");
	else if (agents_deploy(fleet_of(r), &o, &a, &number, &e) == 0)
		(void)store_agent_version_get(fleet_of(r)->store, a.id, number, v, &e);
	if (e.code != ERROR_NONE)
		reply_failure(r, &e);
	else
		reply_json(r, 202, agent_version_json(r, &a, v));
}

static void on_received(struct request *r, void *arg)
{
	deploy(r, arg);
}

/* --- an archive --- */

static bool take_query(struct request *r, struct deploying *d)
{
	_cleanup_free_ char *text = NULL;
	const char *reason = "";
	int err = uri_query_dup(r->head->query, "settings", &text);

	if (err == -ENOENT)
		d->settings = json_object();
	else if (err == 0 && strlen(text) <= SETTINGS_BYTES_MAX)
		d->settings = json_tree_parse(text, strlen(text), JSON_TREE_NO_NUL, &reason);
	if (d->settings)
		return true;
	reply_error(r, 400, "settings must be an object of at most %d bytes: %s",
		SETTINGS_BYTES_MAX, *reason ? reason : "it is malformed");
	return false;
}

static void take_archive(struct request *r, struct deploying *d)
{
	static const struct receive_ops ops = {on_received, deploying_free};
	struct upload *upload = NULL;
	struct error e = {0};

	if (r->head->content_length > (int64_t)AGENT_ARCHIVE_BYTES_MAX)
		(void)error_set(&e, ERROR_LIMIT, EFBIG,
			"the archive has more than %llu MiB: leave out what the agent does not "
			"need, or build a template of it",
			(unsigned long long)(AGENT_ARCHIVE_BYTES_MAX >> 20));
	else if (upload_once(d->upload) < 0)
		(void)error_set(&e, ERROR_INTERNAL, EIO, "no random numbers");
	else
		(void)upload_begin(catalog_uploads(fleet_of(r)), r->key->id, d->upload,
			(uint64_t)r->head->content_length, &upload, &e); /* e says it */
	if (upload) {
		receive_upload(r, upload, &ops, d);
		return;
	}
	reply_failure(r, &e);
	deploying_free(d);
}

/* --- a template --- */

static void take_object(struct request *r, const char *text, size_t n)
{
	struct deploying d = {.settings = api_body(r, text, n)};

	if (d.settings && take_name(r, &d) && check(r, &d)) {
		if (*d.base)
			deploy(r, &d);
		else
			reply_error(r, 400,
				"give \"template\", or send the agent's files as a tar.gz archive");
	}
	json_decref(d.settings);
}

static bool is_json(const struct request *r)
{
	const char *type = http_header_get(&r->head->headers, "Content-Type");

	return type && strncmp(type, "application/json", 16) == 0;
}

void api_agent_put(struct request *r)
{
	struct deploying *d;

	if (!auth_may_build(r))
		return;
	if (is_json(r)) {
		request_collect(r, API_BODY_MAX, take_object);
		return;
	}
	if (r->head->content_length < 0) {
		reply_error(r, 411,
			"the archive needs a Content-Length; name a template in a body of "
			"application/json");
		return;
	}
	d = api_calloc(r, sizeof(*d));
	if (d && take_name(r, d) && take_query(r, d) && check(r, d))
		take_archive(r, d);
	else
		deploying_free(d);
}
