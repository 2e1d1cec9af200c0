/* Hosts, as E2B's API shows them to the operator. There is one: this host. Its status says whether
 * it takes sandboxes, so that it can be emptied before it is restarted. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "api/api.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "config.h"
#include "fleet/fleet.h"
#include "fleet/fleet_of.h"
#include "http/reply.h"
#include "sandbox/host.h"

#define NODE_ID	   "local"
#define NO_CLUSTER "00000000-0000-0000-0000-000000000000"
enum { CPUINFO_MAX = 16 * 1024 * 1024 };

static const char *const statuses[FLEET_STATUSES_] = {
	[FLEET_READY] = "ready",
	[FLEET_DRAINING] = "draining",
	[FLEET_CONNECTING] = "connecting",
	[FLEET_UNHEALTHY] = "unhealthy",
	[FLEET_STANDBY] = "standby",
};

/* --- the machine --- */

/* Takes the value of "name : value" in /proc/cpuinfo; "" if it is not there. */
static json_t *cpu_word(const char *text, const char *name)
{
	const char *at = text ? strstr(text, name) : NULL;

	at = at ? strchr(at, ':') : NULL;
	if (!at)
		return json_string("");
	at += 1 + strspn(at + 1, " \t");
	return json_stringn(at, strcspn(at, "\n"));
}

static json_t *machine_json(void)
{
	_cleanup_free_ char *text = NULL;

	(void)file_read(AT_FDCWD, "/proc/cpuinfo", CPUINFO_MAX, &text, NULL); /* then empty words */
	return json_pack("{s:o, s:o, s:o, s:s}", "cpuFamily", cpu_word(text, "\ncpu family"),
		"cpuModel", cpu_word(text, "\nmodel\t"), "cpuModelName",
		cpu_word(text, "\nmodel name"), "cpuArchitecture", "x86_64");
}

/* The file system of the sandboxes' directories. */
static json_t *disks_json(const struct fleet *f)
{
	struct statvfs v;

	if (fstatvfs(f->dirs.fd, &v) < 0)
		return json_array();
	return json_pack("[{s:s, s:s, s:s, s:I, s:I}]", "mountPoint", f->home.path, "device", "",
		"filesystemType", "", "usedBytes",
		(json_int_t)((v.f_blocks - v.f_bfree) * v.f_frsize), "totalBytes",
		(json_int_t)(v.f_blocks * v.f_frsize));
}

static json_t *metrics_json(const struct fleet *f)
{
	uint64_t total = host_memory_total(), free = host_memory_available();
	double load = 0;
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);

	(void)getloadavg(&load, 1); /* 0 on failure */
	return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "allocatedCPU",
		(json_int_t)f->quota.cpus, "cpuPercent", (json_int_t)(100 * load / (double)cpus),
		"cpuCount", (json_int_t)cpus, "allocatedMemoryBytes",
		(json_int_t)f->quota.memory_bytes, "memoryUsedBytes",
		(json_int_t)(total > free ? total - free : 0), "memoryTotalBytes",
		(json_int_t)total, "disks", disks_json(f));
}

static json_t *node_json(const struct fleet *f)
{
	return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:o, s:o}", "id",
		NODE_ID, "nodeID", NODE_ID, "serviceInstanceID", NODE_ID, "clusterID", NO_CLUSTER,
		"version", MAYFLY_VERSION, "commit", "", "status", statuses[f->status],
		"sandboxCount", (json_int_t)f->running, "sandboxStartingCount",
		(json_int_t)f->making, "createSuccesses", (json_int_t)f->made, "createFails",
		(json_int_t)f->not_made, "machineInfo", machine_json(), "metrics", metrics_json(f));
}

/* --- the handlers --- */

static bool is_here(struct request *r)
{
	if (strcmp(r->params[0], NODE_ID) == 0)
		return true;
	reply_error(r, 404, "there is no node %.64s: this host is '" NODE_ID "'", r->params[0]);
	return false;
}

void api_nodes(struct request *r)
{
	reply_json(r, 200, json_pack("[o]", node_json(fleet_of(r))));
}

void api_node(struct request *r)
{
	json_t *node = is_here(r) ? node_json(fleet_of(r)) : NULL;

	if (!node)
		return;
	/* no builds are kept apart from their templates, and GET /sandboxes lists sandboxes */
	(void)json_object_set_new(node, "cachedBuilds", json_array());
	(void)json_object_set_new(node, "sandboxes", json_array());
	reply_json(r, 200, node);
}

static void take_status(struct request *r, const char *text, size_t n)
{
	json_t *body = api_body(r, text, n);
	const char *word = json_string_value(json_object_get(body, "status"));
	unsigned status = 0;

	if (!body)
		return;
	while (status < FLEET_STATUSES_ && (!word || strcmp(word, statuses[status]) != 0))
		status++;
	json_decref(body);
	if (status == FLEET_STATUSES_) {
		reply_error(
			r, 400, "status must be ready, draining, connecting, unhealthy or standby");
		return;
	}
	fleet_of(r)->status = (enum fleet_status)status;
	log_info("the host's status is %s", statuses[status]);
	reply_empty(r, 204);
}

void api_node_change(struct request *r)
{
	if (is_here(r))
		request_collect(r, API_BODY_MAX, take_status);
}
