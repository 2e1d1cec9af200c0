/* Builds of clients' templates. They wait in the order of their arrival. Each runs in a process of
 * its own (`mayfly template run-build`). The process reads the build's specification and reports on
 * its standard output. So a build that crashes does not harm the daemon. The process ends when the
 * daemon ends.
 *
 * A specification is a JSON object (build/spec.h). It may hold passwords, so it is kept in memory
 * only. When the build starts, members are added: one limits its network to what a sandbox of its
 * key may reach, others say whose steps it keeps and finds, and how old these may be.
 *
 *	{"network": {"floor": policy/network_floor_json.h, "key": the key's list},
 *	 "trust", "owner", "cacheMaxSeconds"}
 *
 * Both members of `network` may be missing. Without `network`, RUN has no network.
 *
 * The process reports lines of JSON:
 *
 *	{"log": {"level": 0-3, "step": "2", "message": "..."}}
 *	{"end": {"diskMB": 4096}}			it is complete and was tried; may have
 *							"cold": why no program waits in it
 *	{"failed": {"step": "2", "message": "..."}}	it is not
 *	{"agent": {...}}				what it is, of a hosted agent
 *	{"need": {"runtime": NAME}}			it stands on a runtime's template, or
 *	{"need": {"template": NAME}}			on the operator's template of that name
 *
 * The specification is one line. The build of a hosted agent reads one more line after it has sent
 * "agent": what its snapshot needs (agents/warm.h). So it does after each "need", which comes
 * before: {"template": NAME}, the template of the runtime, which is there now; {"failed": TEXT};
 * or {} for a template that is no runtime's. A template that is missing is built first if the
 * operator allows that (runtime_wait.h). Meanwhile the build has no place on the host: what it
 * waits for may need that.
 *
 * All functions belong to the loop's thread. */
#ifndef CATALOG_JOBS_H
#define CATALOG_JOBS_H

#include <jansson.h>

#include "base/error.h"
#include "store/builds.h"

enum {
	BUILD_JOBS_MAX = 2, /* that run, of all keys */
	BUILD_JOBS_KEY_MAX = 1,
	BUILD_JOBS_KEY_WAITING = 8, /* of a key, including those that run */
	BUILD_JOBS_WAITING = 256,   /* of all keys */
	BUILD_JOB_S = 3600,
	BUILD_JOB_WAIT_S = 1800, /* a build fails that waits longer for a place on the host */
	BUILD_JOB_LINE_MAX = 128 * 1024, /* with all settings of an agent */
	BUILD_JOB_DISK_MB = 8192,	 /* reserved while it runs: for base, steps and result */
	BUILD_JOB_SOURCE_MB = 512, /* at most, of a Dockerfile's second microVM (build/builder.h) */
};

struct catalog;
struct fleet;

/* Callbacks for builds whose specification has "agent". */
struct build_watch {
	/* Called before the snapshot is made. `said` is what its process reported as "agent". *ret
	 * is the answer to it, a new object. A negative result makes the build fail. */
	int (*said)(struct fleet *f, const struct store_build *b, const json_t *said, json_t **ret,
		struct error *e);
	/* Called in the commit that makes a build ready. `said` is as above, with "cold" of
	 * the end, or NULL. A negative
	 * result makes the build fail. */
	int (*ready)(
		struct fleet *f, const struct store_build *b, const json_t *said, struct error *e);
	/* Called after the end. reason is NULL if the build is ready. Not called when the daemon
	 * stops. */
	void (*ended)(struct fleet *f, const char *build_id, const char *step, const char *reason);
};

/* Borrows w. Call it before the first such build. */
void jobs_watch(struct fleet *f, const struct build_watch *w);

/* Checks whether the key may queue one more build now. Fails as jobs_add() does. */
int jobs_check_room(struct fleet *f, const char *key_id, struct error *e);

/* Queues a build. Its row must be ANNOUNCED and becomes WAITING. spec is borrowed. Fails with
 * ERROR_TOO_MANY. */
int jobs_add(struct fleet *f, const struct store_build *b, const json_t *spec, struct error *e);

/* Whether a build that waits or runs stands on the template of that directory. */
bool jobs_use(const struct catalog *c, const char *dir);

/* Ends the builds of a template. Their rows may be gone already. */
void jobs_cancel(struct fleet *f, const char *template_id);

/* Ends the builds of a revoked key as failed, and removes its uploads and its kept steps. */
void jobs_end_key(struct fleet *f, const char *key_id);

/* Kills the builds that run and forgets those that wait. Their rows stay, and the next start marks
 * them as failed. */
void jobs_stop(struct catalog *c);

#endif
