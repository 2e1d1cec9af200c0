/* Versions of hosted agents (agents.h). The files of a version are those of its build (builds.h),
 * whose template_id is the agent's id; the tag `v<number>` of that id keeps them. catalog.h has no
 * row of an agent.
 *
 * A version is BUILDING, then READY or FAILED; READY becomes RETIRED when its files go. What it is
 * made of never changes. Functions that write are synced. */
#ifndef STORE_AGENT_VERSIONS_H
#define STORE_AGENT_VERSIONS_H

#include <stdint.h>

#include "base/error.h"
#include "store/store.h"
#include "store/templates.h"

enum {
	STORE_AGENT_VERSIONS_KEPT = 100, /* of an agent; the oldest FAILED and RETIRED ones go */
	STORE_AGENT_KIND_MAX = 15,
	STORE_AGENT_ENTRY_MAX = 4096,
	STORE_AGENT_DIR_MAX = 1024,
	STORE_AGENT_USER_MAX = 64,
	STORE_AGENT_ENV_MAX = 16 * 1024,
	STORE_AGENT_SECRETS_MAX = 8 * 1024,
	STORE_AGENT_REASON_MAX = 1024,
	STORE_AGENT_COLD_MAX = 1024,
	STORE_AGENT_STEP_MAX = 160,
};

enum store_agent_state {
	STORE_AGENT_BUILDING,
	STORE_AGENT_READY,
	STORE_AGENT_FAILED,
	STORE_AGENT_RETIRED, /* it was ready; its files are gone */
	STORE_AGENT_STATES_,
};

enum store_agent_protocol {
	STORE_AGENT_STDIN, /* the prompt is its standard input, the answer its output */
	STORE_AGENT_HTTP,  /* it listens on $PORT */
	STORE_AGENT_PROTOCOLS_,
};

/* Some 32 KB: keep it on the heap. */
struct store_agent_version {
	char agent_id[STORE_TEMPLATE_ID_BYTES];
	uint32_t number; /* from 1 */
	enum store_agent_state state;
	char build_id[STORE_UUID_BYTES]; /* the directory of the template, when READY */
	uint32_t cpus, memory_mb, disk_mb, timeout_s;
	uint32_t concurrency; /* invocations at the same time; 0: as many as there may be */
	uint64_t created_ns, finished_ns;		/* finished_ns: 0 while BUILDING */
	char env_json[STORE_AGENT_ENV_MAX + 1];		/* an object of strings */
	char secrets_json[STORE_AGENT_SECRETS_MAX + 1]; /* as `secrets` of a creation */

	/* known when it is READY; those above may change until then */
	enum store_agent_protocol protocol;
	char kind[STORE_AGENT_KIND_MAX + 1];   /* node, python, deno, docker, command or template */
	char entry[STORE_AGENT_ENTRY_MAX + 1]; /* a command of a shell; starts the program */
	char dir[STORE_AGENT_DIR_MAX + 1];     /* where, as whom */
	char user[STORE_AGENT_USER_MAX + 1];

	char reason[STORE_AGENT_REASON_MAX + 1]; /* why it failed or was retired */
	char step[STORE_AGENT_STEP_MAX + 1];	 /* of the build, that failed */
};

/* Adds a version that is BUILDING: agent_id, build_id, sizes, concurrency, created_ns, env_json,
 * secrets_json.
 * Its number is the agent's next. */
int store_agent_version_add(struct store *s, const struct store_agent_version *v,
	uint32_t *ret_number, struct error *e);

/* ERROR_NOT_FOUND, as the next. */
int store_agent_version_get(struct store *s, const char *agent_id, uint32_t number,
	struct store_agent_version *ret, struct error *e);
int store_agent_version_of_build(
	struct store *s, const char *build_id, struct store_agent_version *ret, struct error *e);

/* Newest first, from before a number (0: from the newest). The row is valid in `each` only. */
int store_agent_version_list(struct store *s, const char *agent_id, uint32_t before, uint32_t limit,
	int (*each)(void *arg, const struct store_agent_version *v), void *arg, struct error *e);

/* The number of versions that are BUILDING or READY. */
int store_agent_version_count(struct store *s, const char *agent_id, enum store_agent_state state,
	uint64_t *ret, struct error *e);

/* BUILDING to READY, with all of v but its build and created_ns. */
int store_agent_version_ready(
	struct store *s, const struct store_agent_version *v, struct error *e);

/* To FAILED or RETIRED, without its env, secrets and network; reason and step may be cut. */
int store_agent_version_end(struct store *s, const char *agent_id, uint32_t number,
	enum store_agent_state state, uint64_t at_ns, const char *reason, const char *step,
	struct error *e);

/* All that are BUILDING become FAILED, in the same way: what a daemon finds when it starts. */
int store_agent_fail_open(struct store *s, uint64_t at_ns, const char *reason, struct error *e);

/* What the version's snapshot has, so that invocations use the same, and what these may reach. */
struct store_agent_warm {
	/* An object: the placeholders of its secrets, by variable. NULL: its variables are not in
	 * the snapshot. */
	char *placeholders_json;
	char *authority;    /* store_sandbox.authority of its sandboxes, or NULL */
	char *network_json; /* an object, as agents/reach.h makes it; NULL: nothing is said */
	char *cold; /* why no program waits in the snapshot; NULL: one does, or it is not known */
};

/* ERROR_NOT_FOUND, as the next. */
int store_agent_warm_get(struct store *s, const char *agent_id, uint32_t number,
	struct store_agent_warm *ret, struct error *e);
/* Of a version that is BUILDING. */
int store_agent_warm_set(
	struct store *s, const char *build_id, const struct store_agent_warm *w, struct error *e);
/* Sets only `cold`, of a version in any state. */
int store_agent_cold_set(struct store *s, const char *build_id, const char *cold, struct error *e);
void store_agent_warm_done(struct store_agent_warm *w);

#endif
