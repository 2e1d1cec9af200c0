/* Builds of clients' templates: they wait in the order of their arrival, and run as processes of
 * their own (`mayfly template run-build`), which read the build's specification and say on their
 * standard output what happens. So a build that fails in any way takes nothing of the daemon with
 * it, and ends with it.
 *
 * A specification is a JSON object (build/spec.h). It may hold passwords, so it is in memory only.
 * When the build starts it gets the network that a sandbox of its key would have then, at most:
 *
 * 	{"network": {"floor": policy/network_floor_json.h, "key": the key's list}}
 *
 * Either may be missing. Without `network`, RUN has none.
 *
 * Lines from the process are JSON objects, too:
 *
 * 	{"log": {"level": 0-3, "step": "2", "message": "..."}}
 * 	{"end": {"diskMB": 4096}}			it is complete and was tried
 * 	{"failed": {"step": "2", "message": "..."}}	it is not
 * 	{"agent": {...}}				what it is, of a hosted agent
 *
 * For the loop's thread. */
#ifndef CATALOG_JOBS_H
#define CATALOG_JOBS_H

#include <jansson.h>

#include "base/error.h"
#include "store/builds.h"

enum {
	BUILD_JOBS_MAX = 2, /* that run */
	BUILD_JOBS_KEY_MAX = 1,
	BUILD_JOBS_KEY_WAITING = 8, /* of a key, with those that run */
	BUILD_JOBS_WAITING = 256,   /* of all */
	BUILD_JOB_S = 3600,
	BUILD_JOB_WAIT_S = 1800, /* for a place on the host; then it fails */
	BUILD_JOB_LINE_MAX = 64 * 1024,
	BUILD_JOB_DISK_MB = 8192, /* promised while it runs: base, steps and result */
};

struct catalog;
struct fleet;

/* What is told of builds whose specification has "agent". */
struct build_watch {
	/* In the commit that makes a build ready; `said` is what its process said of it, or NULL.
	 * Negative: it fails. */
	int (*ready)(
		struct fleet *f, const struct store_build *b, const json_t *said, struct error *e);
	/* After the end. reason NULL: it is ready. Not when the daemon stops. */
	void (*ended)(struct fleet *f, const char *build_id, const char *step, const char *reason);
};

/* w is borrowed. Before the first such build. */
void jobs_watch(struct fleet *f, const struct build_watch *w);

/* Whether the key may queue one more build now: as jobs_add(). */
int jobs_check_room(struct fleet *f, const char *key_id, struct error *e);

/* Queues a build whose row is ANNOUNCED; it is WAITING then. spec is borrowed. ERROR_TOO_MANY. */
int jobs_add(struct fleet *f, const struct store_build *b, const json_t *spec, struct error *e);

/* Whether a build that waits or runs is on the template of that directory. */
bool jobs_use(const struct catalog *c, const char *dir);

/* Ends the builds of a template; their rows may be gone. */
void jobs_cancel(struct fleet *f, const char *template_id);

/* Ends the builds of a key as failed, and forgets its uploads: it was revoked. */
void jobs_end_key(struct fleet *f, const char *key_id);

/* Kills what runs and forgets what waits; the rows stay for the next start. */
void jobs_stop(struct catalog *c);

#endif
