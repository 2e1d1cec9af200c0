/* Builds of runtimes' templates, if the operator allows that clients' requests start them (`serve
 * --build-runtimes`). One runs at a time, for all clients; others wait in the order of their
 * arrival. There is one at most for a template. A build that failed is remembered for
 * RUNTIME_FAILED_S, so that clients cannot repeat it at will.
 *
 * A build is a process (runtime_starter.h) that has a place in the host's quota and a control
 * group, as builds of clients have (jobs.h). It ends with the daemon.
 *
 * All functions belong to the loop's thread. */
#ifndef CATALOG_RUNTIME_BUILDS_H
#define CATALOG_RUNTIME_BUILDS_H

#include "base/error.h"
#include "fleet/runtimes.h"

enum {
	RUNTIME_FAILED_S = 60,
	RUNTIME_BUILD_S = 3600, /* it is killed when it takes longer */
	RUNTIME_BUILD_CPUS = 2, /* reserved while it runs: what recipes and images boot with */
	RUNTIME_BUILD_MEMORY_MB = 1024,
	RUNTIME_BUILD_DISK_MB = 8192,
	RUNTIME_PHASE_MAX = 64,
	RUNTIME_REASON_MAX = 256,
};

struct fleet;

/* MISSING leads to WAITING, that to BUILDING, and that to READY or FAILED. FAILED leads to MISSING
 * after a while. Whatever the state, the operator can make a template (READY) or remove it. */
enum runtime_state {
	RUNTIME_READY,	  /* there is a template of the name */
	RUNTIME_MISSING,  /* there is none */
	RUNTIME_WAITING,  /* for its turn, or for a place on the host */
	RUNTIME_BUILDING, /* phase and percent are valid */
	RUNTIME_FAILED,	  /* reason and again_s are valid; phase is where it failed */
};

struct runtime_status {
	enum runtime_state state;
	char phase[RUNTIME_PHASE_MAX + 1]; /* what it does: "fetch"; "": it has just begun */
	int percent;			   /* of the phase; -1: it does not say */
	char reason[RUNTIME_REASON_MAX + 1];
	unsigned again_s; /* until it may be tried again */
};

/* Starts the process that starts builds, if the options allow builds. Call it while this process
 * has one thread and all its rights. */
int runtime_builds_open(struct fleet *f, struct error *e);

/* Whether requests start builds. */
bool runtime_builds_allowed(const struct fleet *f);

/* What there is of the runtime. */
void runtime_builds_look(struct fleet *f, const struct runtime *rt, struct runtime_status *ret);

/* The same, but a MISSING one is built, if that is allowed. */
void runtime_builds_want(struct fleet *f, const struct runtime *rt, struct runtime_status *ret);

/* Ends what runs and waits. The loop must run between these two. Both do nothing without
 * runtime_builds_open(). */
void runtime_builds_stop(struct fleet *f);
void runtime_builds_free(struct fleet *f);

#endif
