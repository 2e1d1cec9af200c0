/* Building templates. A client announces a build, uploads files (api_uploads.c), begins the build
 * with a specification, and asks for its status until it has ended. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "api/auth.h"
#include "api/template/build_json.h"
#include "api/template/build_spec.h"
#include "base/clock.h"
#include "catalog/jobs.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "store/builds.h"
#include "store/catalog.h"
#include "store/keys.h"
#include "store/tags.h"

#define MIB (UINT64_C(1) << 20)

enum {
	CPUS_DEFAULT = 2,
	CPUS_MAX = 32,
	MEMORY_MB_DEFAULT = 1024,
	TAGS_MAX = 16, /* of a build */
	LOGS_PAGE = 100,
	REASON_ENTRIES = 10,
};

/* --- announcing --- */

struct announcement {
	struct template_ref ref;
	struct store_build build;
	json_t *tags; /* owned */
};

static bool refuse(struct request *r, const char *message)
{
	reply_error(r, 400, "%s", message);
	return false;
}

static bool take_build_name(struct request *r, const json_t *body, struct template_ref *ret)
{
	const json_t *v = json_object_get(body, "name");
	const char *reason;

	if (!v || json_is_null(v))
		v = json_object_get(body, "alias");
	if (!json_is_string(v))
		return refuse(r, "Name is required");
	if (template_ref_parse_new(json_string_value(v), ret, &reason) < 0)
		return refuse(r, reason);
	return api_check_namespace(r, ret);
}

static bool has_tag(const json_t *tags, const char *tag)
{
	const json_t *v;
	size_t i;

	json_array_foreach(tags, i, v) if (strcmp(json_string_value(v), tag) == 0) return true;
	return false;
}

bool api_take_tag(struct request *r, const json_t *v, char ret[TEMPLATE_TAG_MAX + 1])
{
	char text[TEMPLATE_TAG_MAX + 4];
	struct template_ref ref;
	const char *reason = "a tag must be a string of at most 128 bytes";

	if (!json_is_string(v) || json_string_length(v) > TEMPLATE_TAG_MAX)
		return refuse(r, reason);
	(void)snprintf(text, sizeof(text), "t:%s",
		json_string_value(v) + strspn(json_string_value(v), " \t\r\n")); /* fits */
	if (template_ref_parse_new(text, &ref, &reason) < 0)
		return refuse(r, reason);
	memcpy(ret, ref.tag, sizeof(ref.tag));
	return true;
}

/* The name's own, those of the list, or else `default`. */
static bool take_build_tags(struct request *r, const json_t *body, struct announcement *a)
{
	const json_t *given = json_object_get(body, "tags"), *v;
	char tag[TEMPLATE_TAG_MAX + 1];
	size_t i;

	a->tags = json_array();
	if (a->ref.has_tag)
		(void)json_array_append_new(a->tags, json_string(a->ref.tag));
	if (given && !json_is_null(given) &&
		(!json_is_array(given) || json_array_size(given) > TAGS_MAX - 1)) {
		reply_error(r, 400, "tags must be a list of at most %d strings", TAGS_MAX - 1);
		return false;
	}
	json_array_foreach(given, i, v)
	{
		if (!api_take_tag(r, v, tag))
			return false;
		if (!has_tag(a->tags, tag))
			(void)json_array_append_new(a->tags, json_string(tag));
	}
	if (json_array_size(a->tags) == 0)
		(void)json_array_append_new(a->tags, json_string("default"));
	return true;
}

/* The texts are E2B's: programs read the maximum out of them. */
static bool refuse_more(struct request *r, const char *what, int64_t max, const char *unit)
{
	reply_error(r, 400,
		"%s can't be higher than %lld%s (if you need to increase this limit, please "
		"contact support)",
		what, (long long)max, unit);
	return false;
}

static bool take_number(
	struct request *r, const json_t *body, const char *name, int64_t min, int64_t *ret)
{
	int err = api_integer(body, name, ret);

	if (err != -EINVAL && *ret >= min)
		return true;
	reply_error(
		r, 400, "validation error: %s: number must be at least %lld", name, (long long)min);
	return false;
}

static bool take_size(struct request *r, const json_t *body, const char *name, int64_t *ret)
{
	if (api_integer(body, name, ret) != -EINVAL)
		return true;
	reply_error(r, 400, "validation error: %s must be a number", name);
	return false;
}

/* E2B's texts; those that begin with "validation error" are of its schema. */
static bool check_cpus(struct request *r, int64_t cpus, int64_t max)
{
	if (cpus < 1)
		return refuse(r, "validation error: CPU count must be at least 1");
	if (cpus > max && cpus > CPUS_MAX)
		return refuse(r, "CPU count must be at most 32"); /* CPUS_MAX */
	if (cpus > 1 && cpus % 2)
		return refuse(r, "CPU count must be 1 or an even number");
	return cpus <= max || refuse_more(r, "CPU count", max, "");
}

static bool check_memory(struct request *r, int64_t mb, int64_t max)
{
	if (mb < SANDBOX_MEMORY_MB_MIN) {
		reply_error(r, 400, "validation error: Memory must be at least %d MiB",
			SANDBOX_MEMORY_MB_MIN);
		return false;
	}
	if (mb % 2)
		return refuse(r, "Memory must be divisible by 2");
	return mb <= max || refuse_more(r, "Memory", max, " MiB");
}

static bool take_build_sizes(struct request *r, const json_t *body, struct store_build *b)
{
	const struct sandbox_sizes max = auth_sizes_max(r);
	int64_t memory_max = (int64_t)(max.memory_bytes / MIB),
		disk_max = (int64_t)(max.disk_bytes / MIB);
	int64_t cpus = CPUS_DEFAULT, memory = MEMORY_MB_DEFAULT, unused = 0;

	cpus = cpus > max.cpus ? max.cpus : cpus;
	memory = memory > memory_max ? memory_max - memory_max % 2 : memory;
	if (!take_size(r, body, "cpuCount", &cpus) || !take_size(r, body, "memoryMB", &memory) ||
		!take_number(r, body, "minFreeDiskMb", 0, &unused) ||
		!check_cpus(r, cpus, max.cpus) || !check_memory(r, memory, memory_max))
		return false;
	if (unused > disk_max)
		return refuse_more(r, "Minimum free disk", disk_max, " MiB");
	b->cpus = (uint32_t)cpus;
	b->memory_mb = (uint32_t)memory;
	b->free_mb = (uint32_t)unused;
	return true;
}

static int insert(
	struct request *r, struct announcement *a, struct store_catalog *ret, struct error *e)
{
	struct store *s = fleet_of(r)->store;
	uint64_t now = clock_realtime_ns();
	size_t n = json_dumpb(a->tags, a->build.tags_json, sizeof(a->build.tags_json) - 1, 0);
	int err = n && n < sizeof(a->build.tags_json)
			  ? store_begin(s, e)
			  : error_set(e, ERROR_LIMIT, E2BIG, "tags are too long");

	a->build.created_ns = now;
	if (err == 0)
		err = store_catalog_put(s, r->key->id, a->ref.name, now, ret, e);
	memcpy(a->build.template_id, ret->id, sizeof(ret->id));
	(void)snprintf(a->build.key_id, sizeof(a->build.key_id), "%s", r->key->id); /* a UUID */
	if (err == 0)
		err = store_build_add(s, &a->build, a->build.id, e);
	if (err == 0)
		err = store_commit(s, e);
	if (err < 0)
		store_rollback(s);
	return err;
}

static void announce(struct request *r, const char *text, size_t n)
{
	struct announcement a = {.tags = NULL};
	json_t *body = api_body(r, text, n);
	struct store_catalog row = {.id = ""};
	struct error e = {0};

	if (!body || !take_build_name(r, body, &a.ref) || !take_build_tags(r, body, &a) ||
		!take_build_sizes(r, body, &a.build) || !auth_may_build(r))
		; /* answered */
	else if (insert(r, &a, &row, &e) < 0)
		reply_failure(r, &e);
	else
		reply_json(r, 202, build_announced_json(&row, &a.build, a.tags));
	json_decref(a.tags);
	json_decref(body);
}

void api_build_announce(struct request *r)
{
	request_collect(r, API_BODY_MAX, announce);
}

/* --- one build --- */

/* Finds the build of the path, if the client may see it. absent: the status if it is not there;
 * with E2B it is 400 for those that read. Returns false if it answered the request. */
static bool find_build(struct request *r, unsigned absent, struct store_build *ret)
{
	struct error e = {0};
	int err;

	if (!route_is_uuid(r->params[1]))
		return refuse(r, "Invalid build id");
	err = store_build_get(fleet_of(r)->store, r->params[1], ret, &e);
	if (err < 0 && e.code != ERROR_NOT_FOUND) {
		reply_failure(r, &e);
		return false;
	}
	if (err == 0 && strcmp(ret->template_id, r->params[0]) == 0 && auth_may_see(r, ret->key_id))
		return true;
	reply_error(r, absent, "Build '%s' not found", r->params[1]);
	return false;
}

/* E2B's clients show the line of their program that names the base only if the build's status says
 * that this step failed. */
static void fail_at_base(struct request *r, const struct store_build *b, const struct error *why)
{
	struct error e = {0};

	if (store_build_finish(fleet_of(r)->store, b->id, STORE_BUILD_FAILED, clock_realtime_ns(),
		    0, why->message, "base", &e) < 0)
		reply_failure(r, &e);
	else
		reply_empty(r, 202);
}

static void begin_build(struct request *r, const char *text, size_t n)
{
	struct store_build b = {0};
	struct error e = {0};
	json_t *body = api_body(r, text, n), *spec = NULL;
	bool unusable = false;

	if (body && find_build(r, 404, &b)) {
		if (b.status != STORE_BUILD_ANNOUNCED)
			reply_error(r, 400, "build is not in waiting state: it is %s",
				build_status_name(b.status));
		else if (!auth_may_build(r))
			; /* answered */
		else if (!(spec = build_spec_make(r, body, &b, &unusable, &e)) && unusable)
			fail_at_base(r, &b, &e);
		else if (!spec || jobs_add(fleet_of(r), &b, spec, &e) < 0)
			reply_failure(r, &e);
		else
			reply_empty(r, 202);
	}
	json_decref(spec);
	json_decref(body);
}

void api_build_begin(struct request *r)
{
	request_collect(r, API_BODY_MAX, begin_build);
}

bool api_take_log_level(struct request *r, unsigned *ret)
{
	char text[16];
	int n = uri_query_get(r->head->query, "level", text, sizeof(text));

	if (n == -ENOENT)
		return true;
	for (unsigned i = 0; n > 0 && i < BUILD_LEVELS; i++)
		if (strcmp(build_level_name(i), text) == 0) {
			*ret = i;
			return true;
		}
	return refuse(r, "level must be debug, info, warn or error");
}

struct entries {
	json_t *list;
	uint64_t last;
};

static int add_entry(void *arg, const struct store_build_log *l)
{
	struct entries *all = arg;

	all->last = l->number;
	return json_array_append_new(all->list, build_log_json(l)) < 0 ? -ENOMEM : 0;
}

json_t *api_build_entries(
	struct request *r, const struct store_build_log_filter *f, uint64_t *ret_last)
{
	struct entries all = {.list = json_array()};
	struct error e = {0};

	if (store_build_log_list(fleet_of(r)->store, f, add_entry, &all, &e) == 0) {
		if (ret_last)
			*ret_last = all.last;
		return all.list;
	}
	json_decref(all.list);
	(void)error_set(&e, ERROR_NO_SPACE, ENOMEM, "out of memory"); /* unless already set */
	reply_failure(r, &e);
	return NULL;
}

/* The last entries of a step, as they came. */
struct step_entries {
	json_t *list;
	const char *step;
};

static int add_entry_of_step(void *arg, const struct store_build_log *l)
{
	struct step_entries *x = arg;

	if (strcmp(l->step, x->step) != 0)
		return 0;
	if (json_array_insert_new(x->list, 0, build_log_json(l)) < 0)
		return -ENOMEM;
	return json_array_size(x->list) == REASON_ENTRIES; /* 1 ends it */
}

/* What the step that failed said at last. NULL if the build did not fail. */
static json_t *entries_of_reason(struct request *r, const struct store_build *b)
{
	const struct store_build_log_filter f = {.build_seq = b->seq,
		.from = INT64_MAX,
		.backward = true,
		.at_ns = INT64_MAX,
		.limit = LOGS_PAGE};
	struct step_entries x = {.step = b->step};

	if (b->status != STORE_BUILD_FAILED)
		return NULL;
	x.list = json_array();
	/* what cannot be read is left out */
	(void)store_build_log_list(fleet_of(r)->store, &f, add_entry_of_step, &x, NULL);
	return x.list;
}

void api_build_status(struct request *r)
{
	struct store_build b = {0};
	struct store_build_log_filter f = {.limit = api_limit(r, LOGS_PAGE, LOGS_PAGE)};
	unsigned long long from = 0;
	json_t *entries;

	if (!f.limit || !api_take_log_level(r, &f.level) ||
		!api_take_number(
			r, "logsOffset", "logsOffset must be a number", INT64_MAX, &from) ||
		!find_build(r, 400, &b))
		return;
	f.from = from;
	f.build_seq = b.seq;
	entries = api_build_entries(r, &f, NULL);
	if (entries)
		reply_json(r, 200, build_status_json(&b, entries, entries_of_reason(r, &b)));
}

void api_build_logs(struct request *r)
{
	struct store_build b = {0};
	struct store_build_log_filter f = {
		.limit = api_limit(r, LOGS_PAGE, LOGS_PAGE), .from = INT64_MAX, .backward = true};
	uint64_t cursor = 0;
	json_t *entries;

	if (!f.limit || !api_take_time(r, "cursor", NS_PER_MS, &cursor) ||
		!api_take_log_level(r, &f.level) || !api_take_direction(r, &f.backward) ||
		!find_build(r, 400, &b))
		return;
	if (!f.backward)
		f.from = 0;
	f.at_ns = f.backward && !cursor ? INT64_MAX : cursor;
	f.build_seq = b.seq;
	entries = api_build_entries(r, &f, NULL);
	if (entries)
		reply_json(r, 200, json_pack("{s:o}", "logs", entries));
}
