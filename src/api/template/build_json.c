#include "api/template/build_json.h"

#include <stdio.h>
#include <string.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/str.h"

const char *build_status_name(enum store_build_status s)
{
	static const char *const names[STORE_BUILD_STATUSES_] = {
		"waiting", "waiting", "building", "ready", "error"};

	return s < STORE_BUILD_STATUSES_ ? names[s] : "error";
}

const char *build_level_name(unsigned level)
{
	static const char *const names[BUILD_LEVELS] = {"debug", "info", "warn", "error"};

	return level < BUILD_LEVELS ? names[level] : "info";
}

static json_t *time_or_null(uint64_t ns)
{
	return ns ? api_time(ns) : json_null();
}

json_t *build_announced_json(
	const struct store_catalog *c, const struct store_build *b, json_t *tags)
{
	json_t *json = build_template_json(c, b, b);

	if (json && json_object_set(json, "tags", tags) == 0)
		return json;
	json_decref(json);
	return NULL;
}

json_t *build_log_json(const struct store_build_log *l)
{
	return json_pack("{s:o, s:s, s:s, s:s*}", "timestamp", api_time(l->at_ns), "level",
		build_level_name(l->level), "message", l->message, "step",
		*l->step ? l->step : NULL);
}

json_t *build_status_json(const struct store_build *b, json_t *entries, json_t *why)
{
	json_t *json = json_pack("{s:s, s:s, s:s, s:o, s:[]}", "templateID", b->template_id,
		"buildID", b->id, "status", build_status_name(b->status), "logEntries", entries,
		"logs");

	if (json && why)
		(void)json_object_set_new(json, "reason", /* shows as missing */
			json_pack("{s:s, s:s*, s:O}", "message", b->reason, "step",
				*b->step ? b->step : NULL, "logEntries", why));
	json_decref(why);
	return json;
}

json_t *build_template_json(const struct store_catalog *c, const struct store_build *shown,
	const struct store_build *last)
{
	return json_pack("{s:s, s:s, s:s, s:I, s:[s], s:[s], s:b, s:i, s:i, s:i, s:s, s:o, s:o, "
			 "s:o, s:I, s:n, s:b}",
		"templateID", c->id, "buildID", shown->id, "buildStatus",
		build_status_name(last->status), "buildCount", (json_int_t)c->build_count, "names",
		c->name, "aliases", c->name, "public", c->public, "cpuCount", (int)shown->cpus,
		"memoryMB", (int)shown->memory_mb, "diskSizeMB", (int)shown->disk_mb, "envdVersion",
		INSTANCE_ENVD_VERSION, "createdAt", api_time(c->created_ns), "updatedAt",
		api_time(c->updated_ns), "lastSpawnedAt", time_or_null(c->last_spawned_ns),
		"spawnCount", (json_int_t)c->spawn_count, "createdBy", "isDefault", 0);
}

json_t *build_of_template_json(const struct store_build *b)
{
	return json_pack("{s:s, s:s, s:o, s:o, s:o, s:i, s:i, s:i, s:s}", "buildID", b->id,
		"status", build_status_name(b->status), "createdAt", api_time(b->created_ns),
		"updatedAt", api_time(b->updated_ns), "finishedAt", time_or_null(b->finished_ns),
		"cpuCount", (int)b->cpus, "memoryMB", (int)b->memory_mb, "diskSizeMB",
		(int)b->disk_mb, "envdVersion", INSTANCE_ENVD_VERSION);
}

/* A snapshot's id has 20 characters of a-z and 0-9, which are a number of 104 bits. Its bytes lie
 * between the bits of the format of a UUID. */
static const uint8_t number_at[] = {0, 1, 2, 3, 4, 5, 7, 9, 10, 11, 12, 13, 14, 15};

static void build_id_of_snapshot(const char *snapshot_id, char out[STORE_UUID_BYTES])
{
	unsigned __int128 n = 0;
	uint8_t bytes[16] = {0};

	for (const char *p = snapshot_id; *p; p++)
		n = n * 36 + (unsigned)(*p >= 'a' ? *p - 'a' + 10 : *p - '0');
	for (size_t i = 0; i < sizeof(number_at); i++, n >>= 8)
		bytes[number_at[i]] = (uint8_t)n;
	str_uuid(bytes, 8, out);
}

bool snapshot_of_build_id(const char *build_id, char out[STORE_SNAPSHOT_ID_BYTES])
{
	char hex[32], back[STORE_UUID_BYTES];
	unsigned __int128 n = 0;
	uint8_t bytes[16] = {0};
	size_t used = 0;

	for (const char *p = build_id; *p && used < sizeof(hex); p++)
		if (*p != '-')
			hex[used++] = *p;
	if (used != 2 * sizeof(bytes) || !str_from_hex(hex, sizeof(bytes), bytes))
		return false;
	for (size_t i = sizeof(number_at); i-- > 0;)
		n = n << 8 | bytes[number_at[i]];
	out[STORE_SNAPSHOT_ID_BYTES - 1] = '\0';
	for (size_t i = STORE_SNAPSHOT_ID_BYTES - 1; i-- > 0; n /= 36)
		out[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[n % 36];
	build_id_of_snapshot(out, back);
	return strcmp(back, build_id) == 0;
}

static struct store_build build_of_snapshot(const struct store_snapshot *sn)
{
	struct store_build b = {.status = STORE_BUILD_READY,
		.created_ns = sn->created_ns,
		.updated_ns = sn->created_ns,
		.finished_ns = sn->created_ns,
		.cpus = sn->cpus,
		.memory_mb = (uint32_t)(sn->memory_bytes >> 20),
		.disk_mb = (uint32_t)(sn->disk_bytes >> 20)};

	build_id_of_snapshot(sn->id, b.id);
	return b;
}

json_t *build_snapshot_json(const struct store_snapshot *sn, json_t *names)
{
	const struct store_build b = build_of_snapshot(sn);
	struct store_catalog c = {
		.created_ns = sn->created_ns, .updated_ns = sn->created_ns, .build_count = 1};
	json_t *json;

	(void)snprintf(c.id, sizeof(c.id), "%s", sn->id); /* fits */
	json = build_template_json(&c, &b, &b);
	if (!json || !names || json_object_set(json, "names", names) < 0 ||
		json_object_set(json, "aliases", names) < 0 ||
		json_object_set_new(json, "builds", json_pack("[o]", build_of_template_json(&b))) <
			0) {
		json_decref(json);
		json = NULL;
	}
	json_decref(names);
	return json;
}

void build_id_of_tag(const char *stored, char out[STORE_UUID_BYTES])
{
	if (strlen(stored) == STORE_SNAPSHOT_ID_BYTES - 1)
		build_id_of_snapshot(stored, out);
	else
		(void)snprintf(out, STORE_UUID_BYTES, "%s", stored); /* fits */
}

json_t *build_tag_json(const struct store_tag *t)
{
	char build[STORE_UUID_BYTES];

	build_id_of_tag(t->build_id, build);
	return json_pack("{s:s, s:s, s:o}", "tag", t->tag, "buildID", build, "createdAt",
		api_time(t->at_ns));
}

json_t *build_assignment_json(const struct store_tag *t)
{
	char build[STORE_UUID_BYTES];

	build_id_of_tag(t->build_id, build);
	return json_pack("{s:s, s:s, s:o, s:o, s:o}", "assignmentId", t->id, "buildId", build,
		"assignedAt", api_time(t->at_ns), "buildCreatedAt", api_time(t->build_created_ns),
		"buildFinishedAt", time_or_null(t->build_finished_ns));
}
