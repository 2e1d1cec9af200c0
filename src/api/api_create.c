/* POST /sandboxes and /v2/sandboxes (protocol section 2.5). */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/api.h"
#include "api/api_once.h"
#include "api/api_runtimes.h"
#include "api/auth.h"
#include "api/unplaced.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "fleet/fleet_of.h"
#include "fleet/instance.h"
#include "http/reply.h"
#include "lifecycle/instance_make.h"
#include "network/bindings.h"
#include "network/identity.h"
#include "network/references.h"
#include "policy/iam.h"
#include "proto/json_tree.h"
#include "store/keys.h"
#include "store/sandboxes.h"
#include "store/snapshots.h"

#define MIB (UINT64_C(1) << 20)

enum { PAIRS_MAX = STORE_METADATA_PAIRS_MAX, TEXT_MAX = 64 * 1024, DIRECTORY_MAX = 255 };

/* What a sandbox is made of. */
struct creation_source {
	char template[STORE_NAME_MAX + 1];
	struct found_template found;
	struct store_snapshot snapshot;
	struct sandbox_origin origin;
	const json_t *placeholders; /* borrowed: of its secrets, or NULL */
	json_t *bindings;	    /* owned, or NULL; so is iam */
	json_t *iam;
};

static void source_done(struct creation_source *s)
{
	cleanup_close_p(&s->origin.fd);
	json_decref(s->bindings);
	json_decref(s->iam);
}

/* A creation in progress, freed when the microVM is made or the client has gone. With an
 * Idempotency-Key it goes on without its client, who will ask again. */
struct creation {
	struct request *request; /* NULL: the client has gone */
	struct instance_maker *maker;
	struct api_once once;
};

static void on_done(struct request *r, bool complete)
{
	struct creation *c = r->data;

	if (c->maker && c->once.claimed && !fleet_of(r)->stopping) {
		c->request = NULL;
		return;
	}
	/* nobody would learn the sandbox's id, and it would run until its deadline */
	if (c->maker)
		instance_maker_cancel(c->maker);
	api_once_release(&c->once);
	free(c);
}

static const struct request_ops ops = {.done = on_done};

static void on_made(void *arg, struct instance *i, const struct error *why)
{
	struct creation *c = arg;
	struct request *r = c->request;
	struct store_sandbox *sb = NULL;
	struct error e = {0};

	c->maker = NULL;
	api_once_release(&c->once);
	if (!r) {
		free(c);
		return;
	}
	if (!i) {
		api_reply_unplaced(r, why);
		return;
	}
	if (store_sandbox_get(fleet_of(r)->store, instance_id(i), &sb, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 201, api_sandbox_json(r, sb));
	store_sandbox_free(sb);
}

/* --- checking the body: a failing function answers and returns false --- */

static bool refuse(struct request *r, unsigned status, const char *message)
{
	reply_error(r, status, "%s", message);
	return false;
}

static bool check_object(struct request *r, const json_t *body, const char *name)
{
	if (!json_tree_has(body, name) || json_is_object(json_object_get(body, name)))
		return true;
	reply_error(r, 400, "%s must be an object", name);
	return false;
}

static bool take_snapshot(struct request *r, struct creation_source *s, struct instance_order *o)
{
	struct error e = {0};

	s->origin.fd = openat(fleet_of(r)->home.area_fd[HOME_SNAPSHOTS], s->snapshot.id,
		O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (s->origin.fd < 0) {
		(void)error_set_errno(
			&e, ERROR_BAD_SNAPSHOT, errno, "the files of the snapshot are missing");
		api_reply_unplaced(r, &e);
		return false;
	}
	if (o->cpus || o->memory_bytes || o->disk_bytes)
		return refuse(r, 400, "a snapshot has the sizes that its sandbox had");
	s->origin.memory = s->snapshot.memory;
	o->origin = &s->origin;
	o->template = s->snapshot.template_alias;
	o->template_id = s->snapshot.template_id;
	o->shown_id = s->snapshot.id;
	o->snapshot_id = s->snapshot.memory ? s->snapshot.id : NULL; /* a pool only restores */
	o->cpus = s->snapshot.cpus;
	o->memory_bytes = s->snapshot.memory_bytes;
	o->disk_bytes = s->snapshot.disk_bytes;
	return true;
}

/* A runtime is a template of the operator, requested by clients that do not know templates. */
static bool take_runtime(
	struct request *r, const json_t *body, struct creation_source *s, struct instance_order *o)
{
	if (!api_runtime_take(r, json_object_get(body, "runtime"), s->template))
		return false;
	o->template = s->template;
	return true;
}

static bool take_template(
	struct request *r, const char *name, struct creation_source *s, struct instance_order *o)
{
	struct template_ref ref;
	struct error e = {0};

	if (!api_usable_template(r, name, &ref, &s->found))
		return false;
	if (find_directory(fleet_of(r), &s->found, &ref, s->template, &e) < 0) {
		reply_failure(r, &e);
		return false;
	}
	o->template = s->template;
	if (s->found.built)
		o->alias = s->found.name;
	return true;
}

/* A runtime, one of the key's snapshots, or else a template. */
static bool take_source(
	struct request *r, const json_t *body, struct creation_source *s, struct instance_order *o)
{
	const char *name = json_string_value(json_object_get(body, "templateID")), *reason;
	struct template_ref ref;
	struct error e = {0};
	bool runtime = json_tree_has(body, "runtime");
	int err;

	if (name && runtime)
		return refuse(r, 400, "templateID and runtime exclude each other");
	if (runtime)
		return take_runtime(r, body, s, o);
	if (!name)
		return refuse(r, 400, "templateID must be given");
	if (template_ref_parse(name, &ref, &reason) < 0) {
		reply_error(r, 400, "Invalid template reference: %s", reason);
		return false;
	}
	err = api_find_snapshot(r, &ref, &s->snapshot, &e);
	if (err == 0)
		return take_snapshot(r, s, o);
	if (e.code != ERROR_NOT_FOUND) {
		reply_failure(r, &e);
		return false;
	}
	return take_template(r, name, s, o);
}

static bool take_timeout(struct request *r, const json_t *body, bool v2, uint64_t *ret)
{
	int64_t s = v2 ? API_TIMEOUT_V2_S : API_TIMEOUT_V1_S;

	if (!api_take_life(r, body, "timeout", false, &s))
		return false;
	*ret = (uint64_t)s * NS_PER_S;
	return true;
}

/* An object of strings, or nothing. */
static bool take_strings(struct request *r, const json_t *body, const char *name, json_t **ret)
{
	json_t *object = json_object_get(body, name), *value;
	const char *key;

	if (!object || json_is_null(object))
		return true;
	if (!json_is_object(object) || json_object_size(object) > PAIRS_MAX) {
		reply_error(r, 400, "%s must be an object of at most %d strings", name, PAIRS_MAX);
		return false;
	}
	json_object_foreach(object, key,
		value) if (!json_is_string(value) || json_string_length(value) > TEXT_MAX ||
			   strlen(json_string_value(value)) != json_string_length(value))
	{
		reply_error(
			r, 400, "%s: the value of '%.64s' must be a string without NUL", name, key);
		return false;
	}
	*ret = object;
	return true;
}

static bool take_env(struct request *r, const json_t *body, json_t **ret)
{
	const char *key;
	json_t *value;

	if (!take_strings(r, body, "envVars", ret))
		return false;
	json_object_foreach(*ret, key, value) if (!*key || strchr(key, '=')) return refuse(
		r, 400, "envVars: a name is empty or holds '='");
	return true;
}

static bool take_number(
	struct request *r, const json_t *body, const char *name, uint64_t max, uint64_t *ret)
{
	int64_t v = 0;
	int err = api_integer(body, name, &v);

	if (err == -ENOENT)
		return true;
	if (err < 0 || v <= 0 || (uint64_t)v > max) {
		reply_error(r, 400, "%s must be a number from 1 to %llu", name,
			(unsigned long long)max);
		return false;
	}
	*ret = (uint64_t)v;
	return true;
}

/* Our extension: sizes other than the template's. */
static bool take_sizes(struct request *r, const json_t *body, struct instance_order *o)
{
	uint64_t cpus = 0, memory = 0, disk = 0;

	o->max = auth_sizes_max(r);
	if (!take_number(r, body, "cpuCount", o->max.cpus, &cpus) ||
		!take_number(r, body, "memoryMB", o->max.memory_bytes / MIB, &memory) ||
		!take_number(r, body, "diskSizeMB", o->max.disk_bytes / MIB, &disk))
		return false;
	o->cpus = (unsigned)cpus;
	o->memory_bytes = memory * MIB;
	o->disk_bytes = disk * MIB;
	return true;
}

/* Refuses fields that would change the sandbox but are not implemented: they must not be ignored.
 * ("mcp" changes nothing here: the client itself starts the gateway in the sandbox.) */
static bool check_unserved(struct request *r, const json_t *body)
{
	const json_t *mounts = json_object_get(body, "volumeMounts");
	const json_t *sidecars = json_object_get(body, "sidecars");

	if (!check_object(r, body, "mcp"))
		return false;
	if (json_tree_has(body, "sidecars") && !json_is_array(sidecars))
		return refuse(r, 400, "sidecars must be an array");
	if (json_array_size(sidecars) > 0) {
		reply_error_code(r, 400, "sidecar_flag_off",
			"sidecars are not served by this version of Mayfly");
		return false;
	}
	if (json_tree_has(body, "volumeMounts") && !json_is_array(mounts))
		return refuse(r, 400, "volumeMounts must be an array");
	if (json_array_size(mounts) > 0)
		return refuse(r, 501, "volumeMounts is not served by this version of Mayfly");
	return true;
}

static bool is_plain_path(const char *s, size_t n)
{
	const char *part = s;

	if (n < 2 || n > DIRECTORY_MAX || strlen(s) != n || *s != '/')
		return false;
	for (; *part; part += strcspn(part, "/")) {
		n = strcspn(++part, "/");
		if (n == 0 || (n == 1 && *part == '.') || (n == 2 && memcmp(part, "..", n) == 0))
			return false;
	}
	return true;
}

/* Our extension: files that are written outside these directories are in the activity. */
static bool take_files_outside(struct request *r, const json_t *body, struct instance_order *o)
{
	json_t *list = json_object_get(body, "recordFilesOutside"), *v;
	size_t i;

	if (!list || json_is_null(list))
		return true;
	if (!json_is_array(list) || json_array_size(list) > AGENT_OUTSIDE_MAX) {
		reply_error(r, 400, "recordFilesOutside must be an array of at most %d directories",
			AGENT_OUTSIDE_MAX);
		return false;
	}
	json_array_foreach(
		list, i, v) if (!json_is_string(v) ||
				!is_plain_path(json_string_value(v), json_string_length(v)))
	{
		reply_error(r, 400,
			"recordFilesOutside: a directory is an absolute path of at most %d bytes, "
			"without '.', '..' and a '/' at its end",
			DIRECTORY_MAX);
		return false;
	}
	o->files_outside = list;
	return true;
}

/* What happens at the deadline, and on traffic after it. */
static bool take_pausing(struct request *r, const json_t *body, struct instance_order *o)
{
	if (!check_object(r, body, "autoResume") ||
		!api_take_flag(r, body, "autoPause", &o->auto_pause) ||
		!api_take_flag(r, body, "autoPauseMemory", &o->auto_pause_memory) ||
		!api_take_flag(r, json_object_get(body, "autoResume"), "enabled", &o->auto_resume))
		return false;
	if (!o->auto_pause && !o->auto_pause_memory)
		return refuse(r, 400, "autoPauseMemory: false needs autoPause");
	if (!o->auto_pause_memory && o->auto_resume)
		return refuse(r, 400, "autoResume needs the memory: leave autoPauseMemory out");
	return true;
}

/* Our extension: a policy, which is kept with the network. */
static bool take_policy(struct request *r, const json_t *body)
{
	json_t *policy = json_object_get(body, "policy"),
	       *network = json_object_get(body, "network");
	int e = 0;

	if (!policy || json_is_null(policy))
		return true;
	if (json_object_get(network, "policy"))
		return refuse(r, 400, "policy: it is in network, too: leave one out");
	if (!network || json_is_null(network))
		e = json_object_set_new(
			(json_t *)body, "network", json_pack("{s:O}", "policy", policy));
	else if (json_is_object(network))
		e = json_object_set(network, "policy", policy);
	return e == 0 || refuse(r, 500, "out of memory");
}

static bool has_secrets(struct request *r, const json_t *network)
{
	struct error e = {0};

	if (references_check(fleet_of(r), r->key->id, json_object_get(network, "policy"), &e) == 0)
		return true;
	reply_failure(r, &e);
	return false;
}

/* Ignoring one of these would open what its client meant to close. */
static bool check_misplaced(struct request *r, const json_t *body)
{
	static const char *const names[] = {
		"allowOut", "denyOut", "rules", "consent", "whileWaiting"};

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		if (!json_tree_has(body, names[i]))
			continue;
		reply_error(r, 400, "%s belongs in network%s", names[i],
			strcmp(names[i], "whileWaiting") == 0 ? ".consent" : "");
		return false;
	}
	return true;
}

static bool take_network(struct request *r, const json_t *body, struct instance_order *o)
{
	json_t *network;

	if (!check_misplaced(r, body) || !take_policy(r, body))
		return false;
	network = json_object_get(body, "network");
	o->public_traffic = true;
	if (!api_take_internet(r, body, &o->internet))
		return false;
	if (!network || json_is_null(network))
		return true;
	if (!json_is_object(network))
		return refuse(r, 400, "network must be an object");
	if (!api_check_network(r, network, o->internet) || !has_secrets(r, network))
		return false;
	o->network = network;
	o->public_traffic = !json_is_false(json_object_get(network, "allowPublicTraffic"));
	if (!o->public_traffic && !o->secure)
		return refuse(r, 400,
			"You cannot create a sandbox without public access unless you enable "
			"secure envd access via 'secure' flag.");
	return true;
}

/* Our extension: variables that stand for secrets. Adds their placeholders to the body's
 * variables. */
static bool take_secrets(
	struct request *r, json_t *body, struct creation_source *s, struct instance_order *o)
{
	json_t *given = json_object_get(body, "secrets");
	struct error e = {0};

	if (!given || json_is_null(given))
		return true;
	if (!o->env && json_object_set_new(body, "envVars", json_object()) == 0)
		o->env = json_object_get(body, "envVars");
	if (bindings_make(fleet_of(r), r->key->id, given, s->placeholders, o->env, &s->bindings,
		    &e) < 0) {
		reply_failure(r, &e);
		return false;
	}
	o->secrets = s->bindings;
	return true;
}

/* The tokens that say to services who asks. */
static bool take_iam(
	struct request *r, const json_t *body, struct instance_order *o, json_t **ret_iam)
{
	struct error e = {0};
	int err = iam_take(json_object_get(body, "iam"), ret_iam, &e);

	if (err == 0 && *ret_iam)
		err = identity_prepare(fleet_of(r), &e);
	if (err < 0) {
		reply_failure(r, &e);
		return false;
	}
	o->iam = *ret_iam;
	return true;
}

static bool take_order(struct request *r, json_t *body, bool v2, struct creation_source *s,
	struct instance_order *o)
{
	bool known = o->template; /* by the caller */

	o->key_id = r->key->id;
	o->secure = v2;
	return check_unserved(r, body) && (v2 || api_take_flag(r, body, "secure", &o->secure)) &&
	       take_timeout(r, body, v2, &o->timeout_ns) &&
	       take_strings(r, body, "metadata", &o->metadata) && take_env(r, body, &o->env) &&
	       take_sizes(r, body, o) && take_files_outside(r, body, o) &&
	       take_network(r, body, o) && take_pausing(r, body, o) &&
	       (known || take_source(r, body, s, o)) && take_secrets(r, body, s, o) &&
	       take_iam(r, body, o, &s->iam);
}

/* --- starting --- */

static void start(struct request *r, const struct instance_order *o, const struct api_once *once)
{
	struct creation *c = api_calloc(r, sizeof(*c));
	struct error e = {0};

	if (!c)
		return;
	c->request = r;
	c->once = *once;
	if (instances_make(fleet_of(r), o, on_made, c, &c->maker, &e) < 0) {
		free(c);
		api_reply_unplaced(r, &e);
		return;
	}
	api_once_claim(&c->once);
	request_set_ops(r, &ops, c);
}

static void create(struct request *r, const char *text, size_t n, bool v2)
{
	struct instance_order o = {.auto_pause_memory = true};
	struct creation_source source = {.origin = {.fd = -1, .memory = true}};
	json_t *body = api_body(r, text, n);
	struct api_once once;

	if (body && api_once_take(r, body, v2, &once) && !api_once_answer(r, &once) &&
		take_order(r, body, v2, &source, &o) &&
		(!o.auto_pause || auth_may_promise(r, o.key_id, 1)) && auth_may_create(r, 1)) {
		o.once = once.creation;
		start(r, &o, &once);
	}
	source_done(&source);
	json_decref(body);
}

struct api_creation {
	json_t *body;
	struct creation_source source;
	struct instance_order order;
	char key_id[STORE_UUID_BYTES];
};

struct api_creation *api_creation_take(
	struct request *r, json_t *body, const struct api_creation_of *of)
{
	struct api_creation *c = api_calloc(r, sizeof(*c));

	if (!c)
		return NULL;
	c->body = json_incref(body);
	c->source.origin.fd = -1;
	c->source.origin.memory = true;
	c->order.auto_pause_memory = true;
	c->order.template = of->template;
	c->order.alias = of->alias;
	c->order.authority = of->authority;
	c->source.placeholders = of->placeholders;
	if (take_order(r, body, true, &c->source, &c->order)) {
		(void)snprintf(c->key_id, sizeof(c->key_id), "%s", r->key->id); /* a UUID fits */
		c->order.key_id = c->key_id;
		return c;
	}
	api_creation_free(c);
	return NULL;
}

const struct instance_order *api_creation_order(const struct api_creation *c)
{
	return &c->order;
}

void api_creation_free(struct api_creation *c)
{
	if (!c)
		return;
	source_done(&c->source);
	json_decref(c->body);
	free(c);
}

bool api_create_transient(struct request *r, json_t *body, uint64_t grace_ns, instance_made made,
	void *arg, struct instance_maker **ret)
{
	struct instance_order o = {.auto_pause_memory = true, .transient = true};
	struct creation_source source = {.origin = {.fd = -1, .memory = true}};
	struct error e = {0};
	bool ok = take_order(r, body, true, &source, &o) && auth_may_create(r, 1);

	o.timeout_ns += grace_ns;
	if (ok && instances_make(fleet_of(r), &o, made, arg, ret, &e) < 0) {
		api_reply_unplaced(r, &e);
		ok = false;
	}
	source_done(&source);
	return ok;
}

static void take_v1(struct request *r, const char *body, size_t n)
{
	create(r, body, n, false);
}

static void take_v2(struct request *r, const char *body, size_t n)
{
	create(r, body, n, true);
}

void api_create_v1(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_v1);
}

void api_create_v2(struct request *r)
{
	request_collect(r, API_BODY_MAX, take_v2);
}
